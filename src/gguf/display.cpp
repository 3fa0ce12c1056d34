// Metadata values as one line for people.
#include <fmt/format.h>

#include <iterator>
#include <type_traits>

#include "base/utf8.h"
#include "gguf/value.h"

namespace strata::gguf {
namespace {

// Appends `text` quoted; what goes beyond `max_chars` characters ends in "..." after the quote.
void append_quoted(std::string& out, std::string_view text, size_t max_chars) {
  const auto sink = std::back_inserter(out);
  out += '"';
  size_t chars = 0;
  size_t at = 0;
  while (at < text.size() && chars < max_chars) {
    const Utf8Char c = decode_utf8(text, at);
    if (c.code_point == '\n') {
      out += "\\n";
    } else if (c.code_point == '\t') {
      out += "\\t";
    } else if (c.code_point == '"' || c.code_point == '\\') {
      out += '\\';
      out += text[at];
    } else if (!c.valid || c.code_point < 0x20 || (c.code_point >= 0x7f && c.code_point < 0xa0)) {
      for (const char byte : text.substr(at, c.length)) {
        fmt::format_to(sink, "\\x{:02x}", static_cast<unsigned char>(byte));
      }
    } else {
      out += text.substr(at, c.length);
    }
    at += c.length;
    ++chars;
  }
  out += '"';
  if (at < text.size()) out += "...";
}

template <class T>
void append_scalar(std::string& out, const T& value, size_t max_chars) {
  if constexpr (std::is_same_v<T, std::string>) {
    append_quoted(out, value, max_chars);
  } else if constexpr (std::is_same_v<T, bool>) {
    out += value ? "true" : "false";
  } else if constexpr (std::is_same_v<T, int8_t> || std::is_same_v<T, uint8_t>) {
    fmt::format_to(std::back_inserter(out), "{}", static_cast<int>(value));
  } else {
    fmt::format_to(std::back_inserter(out), "{}", value);
  }
}

void append_array(std::string& out, const Array& array, size_t max_chars) {
  const size_t begin = out.size();
  const uint64_t count = size_of(array);
  out += '[';
  std::visit(
      [&](const auto& held) {
        for (size_t i = 0; i < count; ++i) {
          if (i > 0) out += ", ";
          if (out.size() - begin >= max_chars) {
            out += "...";
            break;
          }
          if constexpr (std::is_same_v<std::decay_t<decltype(held)>, BoolArray>) {
            append_scalar(out, held.values[i] != 0, max_chars);
          } else {
            append_scalar(out, held[i], max_chars);
          }
        }
      },
      array);
  fmt::format_to(std::back_inserter(out), "] ({} {})", count, name_of(element_type_of(array)));
}

}  // namespace

std::string to_display(const Value& value, size_t max_chars) {
  std::string out;
  std::visit(
      [&](const auto& held) {
        if constexpr (std::is_same_v<std::decay_t<decltype(held)>, Array>) {
          append_array(out, held, max_chars);
        } else {
          append_scalar(out, held, max_chars);
        }
      },
      value);
  return out;
}

}  // namespace strata::gguf
