// UTF-8 reading and writing without surprises: every byte string can be walked.
//
// Not for: normalisation, case or classes (text/ uses utf8proc and PCRE2 for those).
// Threads: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace strata {

struct Utf8Char {
  uint32_t code_point = 0xFFFD;
  size_t length = 1;   // bytes taken, at least 1
  bool valid = false;  // false: one stray byte, code_point is U+FFFD
};

// Decodes the character at `at` (< text.size()). Overlong forms, surrogates, values above U+10FFFF
// and truncated sequences are invalid and take one byte.
Utf8Char decode_utf8(std::string_view text, size_t at);

void append_utf8(std::string& out, uint32_t code_point);

bool is_valid_utf8(std::string_view text);

// Copy with every invalid byte replaced by U+FFFD.
std::string replace_invalid_utf8(std::string_view text);

// Number of bytes at the end of `text` that begin a character whose other bytes may still come:
// 0 to 3. Text that can never become valid is not held back.
size_t incomplete_utf8_suffix(std::string_view text);

}  // namespace strata
