// The parts that both ways of formatting share: numbers in a style, padding, ASCII escapes.
#pragma once

#include <string>
#include <string_view>

#include "text/jinja/runtime.h"

namespace strata::text::jinja {

struct NumberStyle {
  char sign = 0;           // '+' or ' ' before numbers that are not negative
  bool alternate = false;  // 0x, 0o, 0b; a point even without decimals
  bool zero_fill = false;  // what the caller read; zero_width is what counts
  char group = 0;          // ',' or '_' between groups of digits
  int64_t least_digits = 0;
  int64_t zero_width = 0;  // zeros after the sign up to this width
};

// type: d x X o b.
std::string format_integer(Runtime& runtime, int64_t value, char type, const NumberStyle& style);
// type: e E f F g G, % (times a hundred, with a percent sign), and 0: as g but with a digit after
// the point, or as repr() when the precision is negative.
std::string format_real(Runtime& runtime, double value, char type, int64_t precision,
                        const NumberStyle& style);

// Appends `piece` filled up to `width` characters; align is one of < > ^.
void append_padded(Runtime& runtime, Text& out, const Text& piece, int64_t width, char align,
                   std::string_view fill);

// Everything but ASCII as \x, \u and \U escapes.
std::string ascii_only(std::string_view text);

}  // namespace strata::text::jinja
