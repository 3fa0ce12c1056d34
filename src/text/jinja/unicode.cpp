#include "text/jinja/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>

#include "base/utf8.h"
#include "text/jinja/unicode_tables.h"

namespace strata::text::jinja {
namespace {

utf8proc_category_t category(uint32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

template <size_t N>
bool in_ranges(const CodePointRange (&ranges)[N], uint32_t c) {
  const auto* found = std::upper_bound(
      std::begin(ranges), std::end(ranges), c,
      [](uint32_t value, const CodePointRange& range) { return value < range.first; });
  return found != std::begin(ranges) && c <= std::prev(found)->last;
}

template <size_t N>
const char* special(const SpecialCase (&cases)[N], uint32_t c) {
  const auto* found =
      std::lower_bound(std::begin(cases), std::end(cases), c,
                       [](const SpecialCase& entry, uint32_t v) { return entry.code_point < v; });
  return found != std::end(cases) && found->code_point == c ? found->mapped : nullptr;
}

void append_upper(std::string& out, uint32_t c) {
  if (const char* mapped = c < 0x80 ? nullptr : special(k_special_upper, c)) {
    out += mapped;
  } else {
    append_utf8(out, static_cast<uint32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))));
  }
}

void append_title(std::string& out, uint32_t c) {
  if (const char* mapped = c < 0x80 ? nullptr : special(k_special_title, c)) {
    out += mapped;
  } else {
    append_utf8(out, static_cast<uint32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c))));
  }
}

bool is_case_ignorable(uint32_t c) {
  switch (category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return c == '\'' || c == '.' || c == ':' || c == 0xB7 || c == 0x2019 || c == 0x2018;
  }
}

// A capital sigma at the end of a word becomes the final small sigma.
bool is_final_sigma(std::string_view text, size_t at) {
  size_t length = 0;
  bool before = false;
  for (size_t end = at; end > 0; end -= length) {
    const uint32_t c = code_point_before(text, end, length);
    if (is_case_ignorable(c)) continue;
    before = is_cased(c);
    break;
  }
  if (!before) return false;
  for (size_t next = at + 2; next < text.size(); next += length) {
    const uint32_t c = code_point_at(text, next, length);
    if (!is_case_ignorable(c)) return !is_cased(c);
  }
  return true;
}

constexpr uint32_t k_capital_sigma = 0x3A3;
constexpr uint32_t k_dotted_capital_i = 0x130;

void append_lower(std::string& out, std::string_view text, size_t at, uint32_t c) {
  if (c == k_capital_sigma) {
    append_utf8(out, is_final_sigma(text, at) ? 0x3C2 : 0x3C3);
  } else if (c == k_dotted_capital_i) {
    out += "i\u0307";
  } else {
    append_utf8(out, static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
  }
}

// Calls f(code point, byte offset) for every character.
template <class F>
void each_code_point(std::string_view text, F&& f) {
  size_t length = 0;
  for (size_t at = 0; at < text.size(); at += length) {
    const uint32_t c = code_point_at(text, at, length);
    f(c, at);
  }
}

}  // namespace

bool is_space(uint32_t c) {
  if (c < 0x80) return (c >= 9 && c <= 13) || (c >= 28 && c <= 32);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_line_break(uint32_t c) {
  return (c >= 10 && c <= 13) || (c >= 28 && c <= 30) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool is_alpha(uint32_t c) {
  if (c < 0x80) return (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
  switch (category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return true;
    default:
      return false;
  }
}

bool is_decimal(uint32_t c) {
  if (c < 0x80) return c >= '0' && c <= '9';
  return category(c) == UTF8PROC_CATEGORY_ND;
}

bool is_digit(uint32_t c) { return is_decimal(c) || (c >= 0x80 && in_ranges(k_digits, c)); }

bool is_numeric(uint32_t c) {
  if (c < 0x80) return is_decimal(c);
  switch (category(c)) {
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return true;
    default:
      return in_ranges(k_numerals, c);
  }
}

bool is_alnum(uint32_t c) { return is_alpha(c) || is_numeric(c); }

bool is_lower(uint32_t c) {
  if (c < 0x80) return c >= 'a' && c <= 'z';
  return category(c) == UTF8PROC_CATEGORY_LL || in_ranges(k_other_lower, c);
}

bool is_upper(uint32_t c) {
  if (c < 0x80) return c >= 'A' && c <= 'Z';
  return category(c) == UTF8PROC_CATEGORY_LU || in_ranges(k_other_upper, c);
}

bool is_title(uint32_t c) { return c >= 0x80 && category(c) == UTF8PROC_CATEGORY_LT; }

bool is_printable(uint32_t c) {
  if (c < 0x80) return c >= 0x20 && c < 0x7F;
  switch (category(c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    default:
      return true;
  }
}

bool is_name_start(uint32_t c) {
  return c == '_' || is_alpha(c) || (c >= 0x80 && category(c) == UTF8PROC_CATEGORY_NL);
}

bool is_name_part(uint32_t c) {
  if (is_name_start(c) || is_decimal(c)) return true;
  if (c < 0x80) return false;
  const auto kind = category(c);
  return kind == UTF8PROC_CATEGORY_MN || kind == UTF8PROC_CATEGORY_MC ||
         kind == UTF8PROC_CATEGORY_PC;
}

std::string to_upper(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  each_code_point(text, [&](uint32_t c, size_t) { append_upper(out, c); });
  return out;
}

std::string to_lower(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  each_code_point(text, [&](uint32_t c, size_t at) { append_lower(out, text, at, c); });
  return out;
}

std::string to_title(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  bool after_cased = false;
  each_code_point(text, [&](uint32_t c, size_t at) {
    if (after_cased) {
      append_lower(out, text, at, c);
    } else {
      append_title(out, c);
    }
    after_cased = is_cased(c);
  });
  return out;
}

std::string capitalize(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  each_code_point(text, [&](uint32_t c, size_t at) {
    if (at == 0) {
      append_title(out, c);
    } else {
      append_lower(out, text, at, c);
    }
  });
  return out;
}

std::string swap_case(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  each_code_point(text, [&](uint32_t c, size_t at) {
    if (is_upper(c)) {
      append_lower(out, text, at, c);
    } else if (is_lower(c)) {
      append_upper(out, c);
    } else {
      append_utf8(out, c);
    }
  });
  return out;
}

std::string case_fold(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  each_code_point(text, [&](uint32_t c, size_t) {
    utf8proc_int32_t folded[8];
    int boundary = 0;
    const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), folded,
                                               static_cast<utf8proc_ssize_t>(std::size(folded)),
                                               UTF8PROC_CASEFOLD, &boundary);
    if (count <= 0 || count > static_cast<utf8proc_ssize_t>(std::size(folded))) {
      append_utf8(out, c);
      return;
    }
    for (utf8proc_ssize_t i = 0; i < count; ++i) append_utf8(out, static_cast<uint32_t>(folded[i]));
  });
  return out;
}

size_t count_code_points(std::string_view text) {
  size_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return count;
}

size_t byte_offset(std::string_view text, size_t index) {
  size_t at = 0;
  while (at < text.size()) {
    if ((static_cast<unsigned char>(text[at]) & 0xC0) != 0x80) {
      if (index == 0) return at;
      --index;
    }
    ++at;
  }
  return at;
}

uint32_t code_point_at(std::string_view text, size_t at, size_t& length) {
  const auto lead = static_cast<unsigned char>(text[at]);
  if (lead < 0x80) {
    length = 1;
    return lead;
  }
  const Utf8Char c = decode_utf8(text, at);
  length = c.length;
  return c.code_point;
}

uint32_t code_point_before(std::string_view text, size_t end, size_t& length) {
  size_t at = end - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  size_t ignored = 0;
  const uint32_t c = code_point_at(text, at, ignored);
  length = end - at;
  return c;
}

}  // namespace strata::text::jinja
