// Stop strings that may begin in one token and end in another.
//
// Purpose: what is streamed is exactly what the unstreamed answer would be: the text up to the
// first stop string that becomes complete. Text that could be the beginning of one is held back
// until it is decided. When several become complete with the same byte, the longest counts.
// Time: amortised constant per byte and stop string.
// Threads: one matcher belongs to one sequence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace strata::text {

class StopStrings {
 public:
  // Empty strings are left out: they would stop before the first byte.
  explicit StopStrings(std::vector<std::string> stops);

  // Adds text and returns what may be shown now. Once a stop string is complete, returns the text
  // before it and ignores everything later; `stopped` tells which.
  std::string push(std::string_view text);
  // At the end of generation: what was held back and did not become a stop string.
  std::string finish();
  bool stopped() const { return stopped_; }
  const std::string& matched() const { return matched_; }
  // Starts anew with the same stop strings.
  void reset();

 private:
  struct Matcher {
    std::string text;
    std::vector<uint32_t> fallback;  // Knuth-Morris-Pratt: longest border of each prefix
    size_t matched = 0;              // bytes of `text` that the stream ends with
  };
  std::vector<Matcher> matchers_;
  std::string held_;  // the longest end of the stream that begins a stop string
  std::string matched_;
  bool stopped_ = false;
};

}  // namespace strata::text
