#include "base/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "base/utf8.h"

namespace strata::terminal {
namespace {

struct Range {
  uint32_t first, last;
};

// Combining marks, joiners and variation selectors.
constexpr Range k_zero_width[] = {
    {0x0300, 0x036F}, {0x0483, 0x0489}, {0x0591, 0x05BD}, {0x064B, 0x065F},
    {0x200B, 0x200F}, {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F},
};

// East Asian wide and fullwidth blocks, emoji.
constexpr Range k_wide[] = {
    {0x1100, 0x115F},   {0x2E80, 0x303E},   {0x3041, 0x33FF},   {0x3400, 0x4DBF},
    {0x4E00, 0x9FFF},   {0xA000, 0xA4CF},   {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},
    {0xFE30, 0xFE4F},   {0xFF00, 0xFF60},   {0xFFE0, 0xFFE6},   {0x1F300, 0x1F64F},
    {0x1F680, 0x1F6FF}, {0x1F900, 0x1F9FF}, {0x1FA70, 0x1FAFF}, {0x20000, 0x3FFFD},
};

template <size_t N>
bool in_ranges(const Range (&ranges)[N], uint32_t code_point) {
  for (const Range& range : ranges) {
    if (code_point >= range.first && code_point <= range.last) return true;
  }
  return false;
}

const char* code(Style style) {
  switch (style) {
    case Style::bold:
      return "\033[1m";
    case Style::dim:
      return "\033[2m";
    case Style::red:
      return "\033[31m";
    case Style::green:
      return "\033[32m";
    case Style::yellow:
      return "\033[33m";
    case Style::cyan:
      return "\033[36m";
  }
  return "";
}

}  // namespace

bool is_terminal(Stream stream) { return ::isatty(static_cast<int>(stream)) == 1; }

int width(Stream stream, int fallback) {
  if (const char* columns = std::getenv("COLUMNS")) {
    int value = 0;
    const char* end = columns + std::strlen(columns);
    const auto result = std::from_chars(columns, end, value);
    if (result.ec == std::errc() && result.ptr == end && value >= 20 && value <= 1000) return value;
  }
  winsize size{};
  if (is_terminal(stream) && ::ioctl(static_cast<int>(stream), TIOCGWINSZ, &size) == 0 &&
      size.ws_col > 0) {
    return size.ws_col;
  }
  return fallback;
}

bool use_colour(Stream stream) {
  const char* no_colour = std::getenv("NO_COLOR");
  if (no_colour != nullptr && *no_colour != 0) return false;
  const char* terminal = std::getenv("TERM");
  if (terminal == nullptr || *terminal == 0 || std::strcmp(terminal, "dumb") == 0) return false;
  return is_terminal(stream);
}

std::string styled(Stream stream, Style style, std::string_view text) {
  if (!use_colour(stream)) return std::string(text);
  return code(style) + std::string(text) + "\033[0m";
}

int display_width(std::string_view text) {
  int columns = 0;
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = decode_utf8(text, at);
    at += c.length;
    if (in_ranges(k_zero_width, c.code_point)) continue;
    columns += in_ranges(k_wide, c.code_point) ? 2 : 1;
  }
  return columns;
}

}  // namespace strata::terminal
