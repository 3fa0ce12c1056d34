// Finds the end of a JSON value that comes piece by piece.
//
// Not for: telling whether it is valid; brackets are counted and strings are passed over.
// Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace strata::text {

class JsonScanner {
 public:
  // How many bytes at the front of `text` belong to the value. A number or a word ends before the
  // byte that cannot be part of it.
  size_t take(std::string_view text);
  bool done() const { return done_; }

 private:
  uint32_t depth_ = 0;
  bool begun_ = false;
  bool in_string_ = false;
  bool escaped_ = false;
  bool is_word_ = false;
  bool done_ = false;
};

// `text` as the inside of a JSON string.
void append_json_escaped(std::string& out, std::string_view text);

}  // namespace strata::text
