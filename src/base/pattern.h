// Regular expressions of users, PCRE2 syntax, bounded in time.
//
// Errors: ErrorCode::usage naming the pattern, the place in it and what is wrong.
// Threads: a Pattern is constant; matching from several threads is safe.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace strata {

class Pattern {
 public:
  // `origin` is how the user wrote it ("-ot 'x=cpu'"), for messages.
  Pattern(const std::string& pattern, const std::string& origin);
  // Whether it matches anywhere in the text. A pattern that takes too long does not.
  bool matches(std::string_view text) const;

 private:
  struct Code;
  std::shared_ptr<const Code> code_;
};

}  // namespace strata
