// Stop strings that may begin in one token and end in another.
//
// Purpose: what is streamed is exactly what the unstreamed answer would be: text that could be the
// beginning of a stop string is held back until it is decided.
// Time: amortised constant per byte and stop string.
// Threads: one matcher belongs to one sequence.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace strata::text {

class StopStrings {
 public:
  explicit StopStrings(std::vector<std::string> stops);

  // Adds text and returns what may be shown now. Once a stop string is complete, returns the text
  // before it and ignores everything later; `stopped` tells which.
  std::string push(std::string_view text);
  // At the end of generation: what was held back and did not become a stop string.
  std::string finish();
  bool stopped() const { return stopped_; }
  const std::string& matched() const { return matched_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  std::string matched_;
  bool stopped_ = false;
};

}  // namespace strata::text
