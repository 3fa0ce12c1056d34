// Characters as Python's str sees them: classes, case, counting.
//
// Not for: normalisation. Input is valid UTF-8 (Text guarantees it).
// Threads: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace strata::text::jinja {

bool is_space(uint32_t c);
bool is_alpha(uint32_t c);
bool is_decimal(uint32_t c);
bool is_digit(uint32_t c);
bool is_numeric(uint32_t c);
bool is_alnum(uint32_t c);
bool is_lower(uint32_t c);
bool is_upper(uint32_t c);
bool is_title(uint32_t c);
bool is_printable(uint32_t c);
bool is_name_start(uint32_t c);
bool is_name_part(uint32_t c);
inline bool is_cased(uint32_t c) { return is_lower(c) || is_upper(c) || is_title(c); }
inline bool is_word(uint32_t c) { return c == '_' || is_alnum(c); }
// Line breaks of str.splitlines.
bool is_line_break(uint32_t c);

std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);
std::string to_title(std::string_view text);  // str.title: every word
std::string capitalize(std::string_view text);
std::string swap_case(std::string_view text);
std::string case_fold(std::string_view text);

size_t count_code_points(std::string_view text);
// Byte offset of the code point with this index; text.size() when there are fewer.
size_t byte_offset(std::string_view text, size_t index);
// The character that starts at / ends before a byte offset; sets its length.
uint32_t code_point_at(std::string_view text, size_t at, size_t& length);
uint32_t code_point_before(std::string_view text, size_t end, size_t& length);

}  // namespace strata::text::jinja
