#include "text/jinja/string_literal.h"

#include <fmt/core.h>

#include "base/utf8.h"
#include "text/jinja/unicode.h"

namespace strata::text::jinja {
namespace {

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// Exactly `digits` hexadecimal digits at `at`; false when there are fewer.
bool read_hex(std::string_view text, size_t at, size_t digits, uint32_t& out) {
  out = 0;
  for (size_t i = 0; i < digits; ++i) {
    const int value = at + i < text.size() ? hex_value(text[at + i]) : -1;
    if (value < 0) return false;
    out = out * 16 + static_cast<uint32_t>(value);
  }
  return true;
}

// The character of a one-letter escape, 0 when there is no such escape.
char simple_escape(char c) {
  switch (c) {
    case '\\':
    case '\'':
    case '"':
      return c;
    case 'a':
      return '\a';
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case 'v':
      return '\v';
    default:
      return 0;
  }
}

}  // namespace

bool resolve_string_literal(std::string_view body, std::string& out, std::string& error) {
  out.clear();
  size_t at = 0;
  while (at < body.size()) {
    if (body[at] != '\\') {
      out += body[at++];
      continue;
    }
    ++at;
    if (at >= body.size()) {
      error = "\\ at end of string";
      return false;
    }
    const char c = body[at];
    if (c == '\n') {
      ++at;
    } else if (const char simple = simple_escape(c); simple != 0) {
      out += simple;
      ++at;
    } else if (c >= '0' && c <= '7') {
      uint32_t code = 0;
      for (int i = 0; i < 3 && at < body.size() && body[at] >= '0' && body[at] <= '7'; ++i) {
        code = code * 8 + static_cast<uint32_t>(body[at++] - '0');
      }
      append_utf8(out, code);
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const size_t digits = c == 'x' ? 2 : (c == 'u' ? 4 : 8);
      uint32_t code = 0;
      if (!read_hex(body, at + 1, digits, code)) {
        error = fmt::format("truncated \\{}{} escape", c, std::string(digits, 'X'));
        return false;
      }
      if (code > 0x10FFFF) {
        error = "illegal Unicode character";
        return false;
      }
      at += 1 + digits;
      // Python would keep the halves of a surrogate pair apart, which no text can hold.
      uint32_t low = 0;
      if (code >= 0xD800 && code < 0xDC00 && body.substr(at, 2) == "\\u" &&
          read_hex(body, at + 2, 4, low) && low >= 0xDC00 && low < 0xE000) {
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
        at += 6;
      }
      append_utf8(out, code);
    } else if (c == 'N') {
      error = "character names (\\N) are not supported; write the character itself";
      return false;
    } else if (static_cast<unsigned char>(c) >= 0x80) {
      // Python turns the character into an escape first and then reads the doubled backslash.
      size_t length = 0;
      const uint32_t code = code_point_at(body, at, length);
      out += code < 0x100     ? fmt::format("\\x{:02x}", code)
             : code < 0x10000 ? fmt::format("\\u{:04x}", code)
                              : fmt::format("\\U{:08x}", code);
      at += length;
    } else {
      out += '\\';
      out += c;
      ++at;
    }
  }
  return true;
}

}  // namespace strata::text::jinja
