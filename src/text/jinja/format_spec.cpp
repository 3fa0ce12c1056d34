#include "text/jinja/format_spec.h"

#include <charconv>
#include <cmath>

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

// %g: the significant digits given, plain or with an exponent, trailing zeros dropped.
std::string general(double value, size_t precision, bool alternate) {
  if (!alternate) return to_chars_string(value, std::chars_format::general, precision);
  const size_t digits = precision == 0 ? 1 : precision;
  const std::string scientific = to_chars_string(value, std::chars_format::scientific, digits - 1);
  const size_t e = scientific.find('e');
  int exponent = 0;
  const char* begin = scientific.data() + e + 1;
  if (*begin == '+') ++begin;
  std::from_chars(begin, scientific.data() + scientific.size(), exponent);
  if (exponent < -4 || exponent >= static_cast<int>(digits)) return scientific;
  return to_chars_string(value, std::chars_format::fixed,
                         static_cast<size_t>(static_cast<int>(digits) - 1 - exponent));
}

// Separators between groups, counted from the right; `digits` holds digits only.
std::string grouped(const std::string& digits, char separator, size_t group) {
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % group == 0) out += separator;
    out += digits[i];
  }
  return out;
}

}  // namespace

std::string with_style(Runtime& runtime, bool minus, std::string digits, const NumberStyle& style) {
  const std::string sign = minus ? "-" : (style.sign != 0 ? std::string(1, style.sign) : "");
  const auto filled = sign.size() + digits.size();
  if (style.zero_width > 0 && filled < static_cast<size_t>(style.zero_width)) {
    const size_t zeros = static_cast<size_t>(style.zero_width) - filled;
    runtime.require_bytes(zeros);
    // After a prefix such as 0x, if there is one.
    const bool prefixed =
        digits.size() > 2 && digits[0] == '0' &&
        (digits[1] == 'x' || digits[1] == 'X' || digits[1] == 'o' || digits[1] == 'b');
    digits.insert(prefixed ? 2 : 0, zeros, '0');
  }
  return sign + digits;
}

std::string format_integer(Runtime& runtime, int64_t value, char type, const NumberStyle& style) {
  const bool minus = value < 0;
  const uint64_t magnitude =
      minus ? ~static_cast<uint64_t>(value) + 1 : static_cast<uint64_t>(value);
  const int base = type == 'd' ? 10 : (type == 'o' ? 8 : (type == 'b' ? 2 : 16));
  char buffer[72];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, magnitude, base).ptr;
  std::string digits(buffer, end);
  if (type == 'X') {
    for (char& c : digits) c = static_cast<char>(c >= 'a' ? c - 0x20 : c);
  }
  if (style.least_digits > static_cast<int64_t>(digits.size())) {
    runtime.require_bytes(static_cast<uint64_t>(style.least_digits));
    digits.insert(0, static_cast<size_t>(style.least_digits) - digits.size(), '0');
  }
  if (style.group != 0) digits = grouped(digits, style.group, base == 10 ? 3 : 4);
  if (style.alternate && base != 10) digits = std::string("0") + type + digits;
  return with_style(runtime, minus, std::move(digits), style);
}

std::string format_real_styled(Runtime& runtime, double value, char type, int64_t precision,
                               const NumberStyle& style) {
  runtime.require_bytes(static_cast<uint64_t>(precision) + k_longest_double);
  runtime.work(static_cast<size_t>(precision));
  const bool percent = type == '%';
  if (percent) value *= 100;
  const char lower = percent ? 'f' : static_cast<char>(type | 0x20);
  const bool minus = std::signbit(value) && !std::isnan(value);
  const double magnitude = std::fabs(value);
  const auto places = static_cast<size_t>(precision);
  std::string digits;
  NumberStyle plain = style;
  if (!std::isfinite(value)) {
    digits = std::isnan(value) ? "nan" : "inf";
    plain.group = 0;
  } else if (lower == 'g') {
    digits = general(magnitude, places, style.alternate);
  } else {
    digits = to_chars_string(
        magnitude, lower == 'f' ? std::chars_format::fixed : std::chars_format::scientific, places);
  }
  if (style.alternate && std::isfinite(value) && digits.find('.') == std::string::npos) {
    digits.insert(std::min(digits.find('e'), digits.size()), ".");
  }
  if (plain.group != 0) {
    const size_t whole = std::min(digits.find_first_of(".e"), digits.size());
    digits = grouped(digits.substr(0, whole), plain.group, 3) + digits.substr(whole);
  }
  if (!percent && type < 'a') {
    for (char& c : digits) c = static_cast<char>(c >= 'a' ? c - 0x20 : c);
  }
  if (percent) digits += '%';
  return with_style(runtime, minus, std::move(digits), plain);
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
