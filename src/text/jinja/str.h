// str() and repr() of template values, and numbers as Python writes and reads them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/jinja/runtime.h"

namespace strata::text::jinja {

// str(value) appended; the text of strings keeps its origin.
void append_str(Runtime& runtime, Text& out, const Value& value);
// A string is itself, anything else its str().
Value to_string_value(Runtime& runtime, const Value& value);
Text to_text(Runtime& runtime, const Value& value);

Text repr(Runtime& runtime, const Value& value);
// repr() of a string: 'a', "it's", escapes for what is not printable.
std::string quoted(std::string_view text);

std::string real_repr(double value);

enum class ParsedInteger : uint8_t { ok, malformed, too_large };
// int(text, base); base 0 reads prefixes.
ParsedInteger parse_integer(std::string_view text, int base, int64_t& out);
std::optional<double> parse_real(std::string_view text);
// int(real), checked.
int64_t truncate_real(Runtime& runtime, double value);
// round(value, digits): half to even on the exact binary value.
double round_real(double value, int64_t digits);

}  // namespace strata::text::jinja
