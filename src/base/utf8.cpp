#include "base/utf8.h"

namespace strata {
namespace {

// Length that a lead byte announces, 0 for a byte that cannot start a character.
size_t announced_length(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return 2;
  if (lead >= 0xE0 && lead <= 0xEF) return 3;
  if (lead >= 0xF0 && lead <= 0xF4) return 4;
  return 0;
}

bool is_continuation(unsigned char byte) { return (byte & 0xC0) == 0x80; }

// Whether `second` may follow `lead`: excludes overlong forms, surrogates and > U+10FFFF.
bool second_allowed(unsigned char lead, unsigned char second) {
  if (!is_continuation(second)) return false;
  switch (lead) {
    case 0xE0:
      return second >= 0xA0;
    case 0xED:
      return second <= 0x9F;
    case 0xF0:
      return second >= 0x90;
    case 0xF4:
      return second <= 0x8F;
    default:
      return true;
  }
}

}  // namespace

Utf8Char decode_utf8(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(at);
  const size_t length = announced_length(lead);
  if (length == 1) return {lead, 1, true};
  if (length == 0 || text.size() - at < length || !second_allowed(lead, byte(at + 1))) return {};
  uint32_t code = lead & (0xFFu >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    if (!is_continuation(byte(at + i))) return {};
    code = (code << 6) | (byte(at + i) & 0x3Fu);
  }
  return {code, length, true};
}

void append_utf8(std::string& out, uint32_t code_point) {
  const auto put = [&](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point > 0x10FFFF || (code_point >= 0xD800 && code_point <= 0xDFFF)) code_point = 0xFFFD;
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | (code_point >> 6));
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | (code_point >> 12));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | (code_point >> 18));
    put(0x80 | ((code_point >> 12) & 0x3F));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

bool is_valid_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = decode_utf8(text, at);
    if (!c.valid) return false;
    at += c.length;
  }
  return true;
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = decode_utf8(text, at);
    if (c.valid) {
      out.append(text.substr(at, c.length));
    } else {
      append_utf8(out, 0xFFFD);
    }
    at += c.length;
  }
  return out;
}

size_t incomplete_utf8_suffix(std::string_view text) {
  const size_t n = text.size();
  for (size_t back = 1; back <= 3 && back <= n; ++back) {
    const auto lead = static_cast<unsigned char>(text[n - back]);
    if (is_continuation(lead)) continue;
    const size_t length = announced_length(lead);
    if (length <= back) return 0;
    if (back >= 2 && !second_allowed(lead, static_cast<unsigned char>(text[n - back + 1])))
      return 0;
    return back;
  }
  return 0;
}

}  // namespace strata
