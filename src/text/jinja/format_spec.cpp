#include "text/jinja/format_spec.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "text/jinja/str.h"
#include "text/jinja/unicode.h"

namespace strata::text::jinja {
namespace {

constexpr size_t k_longest_double = 330;  // digits of the largest one, sign, exponent

std::string to_chars_string(double value, std::chars_format format, size_t precision) {
  std::string out(k_longest_double + precision, '\0');
  const auto end =
      std::to_chars(out.data(), out.data() + out.size(), value, format, static_cast<int>(precision))
          .ptr;
  out.resize(static_cast<size_t>(end - out.data()));
  return out;
}

// The power of ten of the first digit, once rounded to so many significant digits.
int exponent_of(double value, size_t digits) {
  const std::string text = to_chars_string(value, std::chars_format::scientific, digits - 1);
  int exponent = 0;
  const char* begin = text.data() + text.find('e') + 1;
  if (*begin == '+') ++begin;
  std::from_chars(begin, text.data() + text.size(), exponent);
  return exponent;
}

// %g: the significant digits given, plain or with an exponent, trailing zeros dropped unless
// `alternate`.
std::string general(double value, size_t precision, bool alternate) {
  if (!alternate) return to_chars_string(value, std::chars_format::general, precision);
  const size_t digits = precision == 0 ? 1 : precision;
  const int exponent = exponent_of(value, digits);
  if (exponent < -4 || exponent >= static_cast<int>(digits)) {
    return to_chars_string(value, std::chars_format::scientific, digits - 1);
  }
  return to_chars_string(value, std::chars_format::fixed,
                         static_cast<size_t>(static_cast<int>(digits) - 1 - exponent));
}

// As %g, but with a digit after the point, for which the exponent must be one smaller.
std::string general_with_point(double value, size_t precision) {
  const size_t digits = precision == 0 ? 1 : precision;
  const int exponent = exponent_of(value, digits);
  if (exponent < static_cast<int>(digits) - 1) {
    const std::string out = general(value, digits, false);
    return out.find_first_of(".e") == std::string::npos ? out + ".0" : out;
  }
  std::string out = to_chars_string(value, std::chars_format::scientific, digits - 1);
  const size_t e = out.find('e');
  if (out.find('.') == std::string::npos) return out;
  size_t end = e;
  while (out[end - 1] == '0') --end;
  if (out[end - 1] == '.') --end;
  return out.erase(end, e - end);
}

// A number in pieces: sign, prefix (0x), whole digits, and whatever follows them.
struct Pieces {
  bool minus = false;
  std::string prefix;
  std::string whole;
  std::string rest;
};

// Separators between groups of digits, counted from the right.
std::string grouped(const std::string& digits, char separator, size_t group) {
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % group == 0) out += separator;
    out += digits[i];
  }
  return out;
}

std::string assemble(Runtime& runtime, Pieces pieces, const NumberStyle& style, size_t group) {
  std::string out = pieces.minus ? "-" : std::string(style.sign != 0 ? 1 : 0, style.sign);
  out += pieces.prefix;
  const size_t width = style.zero_width > 0 ? static_cast<size_t>(style.zero_width) : 0;
  const size_t around = out.size() + pieces.rest.size();
  // Zeros count with the separators that come between them.
  const auto length = [&](size_t digits) {
    return around + digits + (style.group != 0 && digits > 0 ? (digits - 1) / group : 0);
  };
  size_t digits = pieces.whole.size();
  if (length(digits) < width) {
    runtime.require_bytes(width);
    runtime.work(width);
    while (length(digits) < width) ++digits;
    pieces.whole.insert(0, digits - pieces.whole.size(), '0');
  }
  out += style.group != 0 ? grouped(pieces.whole, style.group, group) : pieces.whole;
  return out + pieces.rest;
}

void to_capitals(std::string& text) {
  for (char& c : text) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 0x20 : c);
}

// Digits of a real that is not negative.
std::string real_digits(double value, char type, int64_t precision, bool alternate) {
  if (type == 0 && precision < 0) return real_repr(value);
  const auto places = static_cast<size_t>(precision);
  switch (type) {
    case 0:
      return general_with_point(value, places);
    case 'g':
      return general(value, places, alternate);
    case 'f':
      return to_chars_string(value, std::chars_format::fixed, places);
    default:
      return to_chars_string(value, std::chars_format::scientific, places);
  }
}

}  // namespace

std::string format_integer(Runtime& runtime, int64_t value, char type, const NumberStyle& style) {
  Pieces pieces;
  pieces.minus = value < 0;
  const uint64_t magnitude =
      pieces.minus ? ~static_cast<uint64_t>(value) + 1 : static_cast<uint64_t>(value);
  const int base = type == 'd' ? 10 : (type == 'o' ? 8 : (type == 'b' ? 2 : 16));
  char buffer[72];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, magnitude, base).ptr;
  pieces.whole.assign(buffer, end);
  if (type == 'X') to_capitals(pieces.whole);
  if (style.least_digits > static_cast<int64_t>(pieces.whole.size())) {
    runtime.require_bytes(static_cast<uint64_t>(style.least_digits));
    runtime.work(static_cast<size_t>(style.least_digits));
    const size_t zeros = static_cast<size_t>(style.least_digits) - pieces.whole.size();
    pieces.whole.insert(0, zeros, '0');
  }
  if (style.alternate && base != 10) pieces.prefix = std::string("0") + type;
  return assemble(runtime, std::move(pieces), style, base == 10 ? 3 : 4);
}

std::string format_real(Runtime& runtime, double value, char type, int64_t precision,
                        const NumberStyle& style) {
  const auto places = static_cast<uint64_t>(std::max<int64_t>(precision, 0));
  runtime.require_bytes(places + k_longest_double);
  runtime.work(static_cast<size_t>(places));
  const bool percent = type == '%';
  if (percent) value *= 100;
  const bool capitals = type >= 'A' && type <= 'Z';
  const char kind = percent ? 'f' : (type == 0 ? '\0' : static_cast<char>(type | 0x20));
  Pieces pieces;
  pieces.minus = std::signbit(value) && !std::isnan(value);
  NumberStyle used = style;
  if (std::isfinite(value)) {
    const std::string digits = real_digits(std::fabs(value), kind, precision, style.alternate);
    const size_t whole = std::min(digits.find_first_of(".e"), digits.size());
    pieces.whole = digits.substr(0, whole);
    pieces.rest = digits.substr(whole);
    if (style.alternate && pieces.rest.find('.') == std::string::npos) pieces.rest.insert(0, ".");
  } else {
    pieces.whole = std::isnan(value) ? "nan" : "inf";
    used.group = 0;
  }
  if (percent) pieces.rest += '%';
  std::string out = assemble(runtime, std::move(pieces), used, 3);
  if (capitals) to_capitals(out);
  return out;
}

void append_padded(Runtime& runtime, Text& out, const Text& piece, int64_t width, char align,
                   std::string_view fill) {
  const auto length = static_cast<int64_t>(count_code_points(piece.bytes()));
  const int64_t missing = width > length ? width - length : 0;
  runtime.require_bytes(out.size() + piece.size() + static_cast<uint64_t>(missing) * fill.size());
  runtime.work(piece.size() + static_cast<size_t>(missing));
  const int64_t before = align == '<' ? 0 : (align == '>' ? missing : missing / 2);
  const bool origin = piece.all_from_template();
  for (int64_t i = 0; i < before; ++i) out.append(fill, origin);
  out.append(piece);
  for (int64_t i = before; i < missing; ++i) out.append(fill, origin);
}

std::string ascii_only(std::string_view text) {
  std::string out;
  size_t length = 0;
  for (size_t at = 0; at < text.size(); at += length) {
    const uint32_t c = code_point_at(text, at, length);
    if (c < 0x80) {
      out += static_cast<char>(c);
    } else if (c < 0x100) {
      out += fmt::format("\\x{:02x}", c);
    } else if (c < 0x10000) {
      out += fmt::format("\\u{:04x}", c);
    } else {
      out += fmt::format("\\U{:08x}", c);
    }
  }
  return out;
}

}  // namespace strata::text::jinja
