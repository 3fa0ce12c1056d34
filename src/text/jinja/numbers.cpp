// Numbers as Python writes and reads them.
#include <charconv>
#include <cmath>
#include <limits>

#include "text/jinja/str.h"
#include "text/jinja/unicode.h"

namespace strata::text::jinja {
namespace {

std::string_view strip_space(std::string_view text) {
  size_t length = 0;
  while (!text.empty() && is_space(code_point_at(text, 0, length))) text.remove_prefix(length);
  while (!text.empty() && is_space(code_point_before(text, text.size(), length))) {
    text.remove_suffix(length);
  }
  return text;
}

// Decimal digits of any script as ASCII ones. They come in rows of ten, beginning with zero.
std::string with_ascii_digits(std::string_view text) {
  std::string out;
  size_t length = 0;
  for (size_t at = 0; at < text.size(); at += length) {
    const uint32_t c = code_point_at(text, at, length);
    if (c < 0x80 || !is_decimal(c)) {
      out.append(text.substr(at, length));
      continue;
    }
    uint32_t zero = c;
    while (is_decimal(zero - 1)) --zero;
    out += static_cast<char>('0' + (c - zero) % 10);
  }
  return out;
}

bool is_ascii_text(std::string_view text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) >= 0x80) return false;
  }
  return true;
}

// Takes a sign off the front; true for a minus.
bool take_sign(std::string_view& text) {
  if (text.empty() || (text[0] != '-' && text[0] != '+')) return false;
  const bool minus = text[0] == '-';
  text.remove_prefix(1);
  return minus;
}

int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  if (lower >= 'a' && lower <= 'z') return lower - 'a' + 10;
  return 99;
}

int prefix_base(std::string_view text) {
  if (text.size() < 2 || text[0] != '0') return 0;
  switch (text[1] | 0x20) {
    case 'x':
      return 16;
    case 'o':
      return 8;
    case 'b':
      return 2;
    default:
      return 0;
  }
}

bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }

// Digits with single underscores between them, appended to `out`; false when there are none or an
// underscore stands wrong.
bool take_digits(std::string_view& text, std::string& out) {
  if (text.empty() || !is_ascii_digit(text[0])) return false;
  while (!text.empty()) {
    if (is_ascii_digit(text[0])) {
      out += text[0];
    } else if (text[0] == '_' && text.size() > 1 && is_ascii_digit(text[1])) {
    } else {
      break;
    }
    text.remove_prefix(1);
  }
  return true;
}

bool equals_ignoring_case(std::string_view text, std::string_view lower) {
  if (text.size() != lower.size()) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    if ((text[i] | 0x20) != lower[i]) return false;
  }
  return true;
}

// What a number outside the range of double reads as: zero or infinity.
double out_of_range(std::string_view digits) {
  const size_t e = digits.find('e');
  const size_t point = std::min(digits.find('.'), std::min(e, digits.size()));
  const size_t first = digits.find_first_not_of("0.");
  if (first == digits.npos || first >= std::min(e, digits.size())) return 0.0;
  // Only the sign of the magnitude matters here; exponents that do not even fit say it alone.
  int64_t exponent = 0;
  if (e != digits.npos) {
    std::string_view text = digits.substr(e + 1);
    const bool minus = take_sign(text);
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), exponent);
    if (parsed.ec != std::errc()) exponent = std::numeric_limits<int32_t>::max();
    if (minus) exponent = -exponent;
  }
  const auto magnitude = static_cast<int64_t>(point) - static_cast<int64_t>(first) + exponent;
  return magnitude > 0 ? std::numeric_limits<double>::infinity() : 0.0;
}

double from_digits(std::string_view digits) {
  double out = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), out);
  return parsed.ec == std::errc::result_out_of_range ? out_of_range(digits) : out;
}

// |value| rounded to a multiple of 10^places, half to even.
double round_to_tens(double magnitude, size_t places) {
  const double whole = std::trunc(magnitude);
  char buffer[400];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, whole, std::chars_format::fixed, 0).ptr;
  std::string digits(buffer, end);
  if (digits.size() < places) return 0.0;
  const std::string rest = digits.substr(digits.size() - places);
  digits.resize(digits.size() - places);
  const std::string half = "5" + std::string(places - 1, '0');
  const bool odd = !digits.empty() && ((digits.back() - '0') & 1) != 0;
  const bool up = rest > half || (rest == half && (whole != magnitude || odd));
  if (up) {
    size_t i = digits.size();
    while (i > 0 && digits[i - 1] == '9') digits[--i] = '0';
    if (i > 0) {
      ++digits[i - 1];
    } else {
      digits.insert(digits.begin(), '1');
    }
  }
  digits.append(places, '0');
  return from_digits(digits);
}

}  // namespace

std::string real_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[64];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  std::string_view text(buffer, static_cast<size_t>(end - buffer));
  std::string out;
  if (text[0] == '-') {
    out = "-";
    text.remove_prefix(1);
  }
  const size_t e = text.find('e');
  std::string digits(1, text[0]);
  if (e > 2) digits += text.substr(2, e - 2);
  int exponent = 0;
  std::string_view exponent_text = text.substr(e + 1);
  const bool minus = take_sign(exponent_text);
  std::from_chars(exponent_text.data(), exponent_text.data() + exponent_text.size(), exponent);
  if (minus) exponent = -exponent;

  const int count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    out += digits[0];
    if (count > 1) out += "." + digits.substr(1);
    out += fmt::format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
  } else if (exponent < 0) {
    out += "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  } else if (exponent >= count - 1) {
    out += digits + std::string(static_cast<size_t>(exponent - count + 1), '0') + ".0";
  } else {
    const auto whole = static_cast<size_t>(exponent + 1);
    out += digits.substr(0, whole) + "." + digits.substr(whole);
  }
  return out;
}

ParsedInteger parse_integer(std::string_view text, int base, int64_t& out) {
  if (!is_ascii_text(text)) {
    const std::string plain = with_ascii_digits(strip_space(text));
    return is_ascii_text(plain) ? parse_integer(plain, base, out) : ParsedInteger::malformed;
  }
  if (base != 0 && (base < 2 || base > 36)) return ParsedInteger::malformed;
  text = strip_space(text);
  const bool minus = take_sign(text);
  const int prefix = prefix_base(text);
  bool after_prefix = false;
  if (prefix != 0 && (base == 0 || base == prefix)) {
    text.remove_prefix(2);
    base = prefix;
    after_prefix = true;
  }
  const bool leading_zero_refused = base == 0;
  if (base == 0) base = 10;
  if (text.empty()) return ParsedInteger::malformed;
  // An underscore may stand between digits and after a prefix.
  bool may_underscore = after_prefix;
  bool nonzero = false;
  bool too_large = false;
  int64_t value = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '_') {
      if (!may_underscore || i + 1 == text.size()) return ParsedInteger::malformed;
      may_underscore = false;
      continue;
    }
    const int digit = digit_value(text[i]);
    if (digit >= base) return ParsedInteger::malformed;
    may_underscore = true;
    nonzero = nonzero || digit != 0;
    // Towards the sign's end of the range, so that the smallest integer is read too.
    if (__builtin_mul_overflow(value, int64_t{base}, &value) ||
        __builtin_add_overflow(value, minus ? -int64_t{digit} : int64_t{digit}, &value)) {
      too_large = true;
      value = 0;
    }
  }
  if (leading_zero_refused && text[0] == '0' && nonzero) return ParsedInteger::malformed;
  if (too_large) return ParsedInteger::too_large;
  out = value;
  return ParsedInteger::ok;
}

std::optional<double> parse_real(std::string_view text) {
  text = strip_space(text);
  if (!is_ascii_text(text)) {
    const std::string plain = with_ascii_digits(text);
    return is_ascii_text(plain) ? parse_real(plain) : std::nullopt;
  }
  const bool minus = take_sign(text);
  const double sign = minus ? -1.0 : 1.0;
  if (equals_ignoring_case(text, "inf") || equals_ignoring_case(text, "infinity")) {
    return sign * std::numeric_limits<double>::infinity();
  }
  if (equals_ignoring_case(text, "nan")) return std::numeric_limits<double>::quiet_NaN();
  std::string digits;
  const bool whole = take_digits(text, digits);
  bool fraction = false;
  if (!text.empty() && text[0] == '.') {
    if (!whole) digits += '0';
    text.remove_prefix(1);
    digits += '.';
    fraction = take_digits(text, digits);
    if (!fraction) digits += '0';
  }
  if (!whole && !fraction) return std::nullopt;
  if (!text.empty() && (text[0] | 0x20) == 'e') {
    text.remove_prefix(1);
    digits += 'e';
    if (take_sign(text)) digits += '-';
    if (!take_digits(text, digits)) return std::nullopt;
  }
  if (!text.empty()) return std::nullopt;
  return sign * from_digits(digits);
}

int64_t truncate_real(Runtime& runtime, double value) {
  if (std::isnan(value)) runtime.fail("cannot convert float NaN to integer");
  if (std::isinf(value)) runtime.fail("cannot convert float infinity to integer");
  if (value >= 0x1p63 || value < -0x1p63) {
    runtime.fail("integer overflow: the result needs more than 64 bits");
  }
  return static_cast<int64_t>(value);
}

double round_real(double value, int64_t digits) {
  if (!std::isfinite(value) || value == 0) return value;
  // No double has more decimals than that, and none is larger than 10^309.
  if (digits > 330) return value;
  if (digits < -309) return std::copysign(0.0, value);
  if (digits < 0) {
    return std::copysign(round_to_tens(std::fabs(value), static_cast<size_t>(-digits)), value);
  }
  char buffer[700];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, std::fabs(value),
                                 std::chars_format::fixed, static_cast<int>(digits))
                       .ptr;
  const std::string_view text(buffer, static_cast<size_t>(end - buffer));
  return std::copysign(from_digits(text), value);
}

}  // namespace strata::text::jinja
