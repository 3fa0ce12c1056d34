#include "text/jinja/html.h"

#include <algorithm>
#include <charconv>

#include "base/utf8.h"
#include "text/jinja/find.h"
#include "text/jinja/str.h"
#include "text/jinja/unicode.h"

namespace strata::text::jinja {
namespace {

const char* entity_for(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&#34;";
    case '\'':
      return "&#39;";
    default:
      return nullptr;
  }
}

Text escaped(const Text& text) {
  Text out;
  text.each_run([&](std::string_view run, bool origin) {
    size_t plain = 0;
    for (size_t i = 0; i < run.size(); ++i) {
      const char* entity = entity_for(run[i]);
      if (entity == nullptr) continue;
      out.append(run.substr(plain, i - plain), origin);
      out.append(entity, origin);
      plain = i + 1;
    }
    out.append(run.substr(plain), origin);
  });
  return out;
}

// Everything from `open` to the next `close` is taken out.
std::string without(const std::string& text, std::string_view open, std::string_view close) {
  std::string out;
  size_t at = 0;
  while (true) {
    const size_t begin = text.find(open, at);
    const size_t end = begin == text.npos ? begin : text.find(close, begin + open.size());
    if (end == text.npos) break;
    out.append(text, at, begin - at);
    at = end + close.size();
  }
  return out.append(text, at);
}

std::string collapse_space(std::string_view text) {
  std::string out;
  bool gap = false;
  size_t length = 0;
  for (size_t at = 0; at < text.size(); at += length) {
    if (is_space(code_point_at(text, at, length))) {
      gap = true;
      continue;
    }
    if (gap && !out.empty()) out += ' ';
    gap = false;
    out.append(text.substr(at, length));
  }
  return out;
}

// The character that "&name;" stands for, 0 when the name is not one of the common ones.
uint32_t entity_character(std::string_view name) {
  struct Entity {
    std::string_view name;
    uint32_t code_point;
  };
  static constexpr Entity k_entities[] = {{"amp", '&'},      {"lt", '<'},        {"gt", '>'},
                                          {"quot", '"'},     {"apos", '\''},     {"nbsp", 0xA0},
                                          {"copy", 0xA9},    {"hellip", 0x2026}, {"ndash", 0x2013},
                                          {"mdash", 0x2014}, {"laquo", 0xAB},    {"raquo", 0xBB}};
  for (const Entity& entity : k_entities) {
    if (entity.name == name) return entity.code_point;
  }
  if (name.size() < 2 || name[0] != '#') return 0;
  const bool hex = (name[1] | 0x20) == 'x';
  const std::string_view digits = name.substr(hex ? 2 : 1);
  uint32_t code_point = 0;
  const auto parsed =
      std::from_chars(digits.data(), digits.data() + digits.size(), code_point, hex ? 16 : 10);
  return parsed.ec == std::errc() && parsed.ptr == digits.data() + digits.size() ? code_point : 0;
}

std::string resolve_entities(std::string_view text) {
  constexpr size_t k_longest_name = 12;
  std::string out;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '&') {
      const size_t end = text.substr(at, k_longest_name).find(';');
      if (end != text.npos) {
        if (const uint32_t c = entity_character(text.substr(at + 1, end - 1)); c != 0) {
          append_utf8(out, c);
          at += end;
          continue;
        }
      }
    }
    out += text[at];
  }
  return out;
}

}  // namespace

Value force_escape_html(Runtime& runtime, const Value& value) {
  const Text text = to_text(runtime, value);
  runtime.work(text.size());
  const auto special = static_cast<uint64_t>(std::count_if(
      text.bytes().begin(), text.bytes().end(), [](char c) { return entity_for(c) != nullptr; }));
  runtime.require_bytes(text.cost() + special * 4);
  return runtime.text(escaped(text), true);
}

Value escape_html(Runtime& runtime, const Value& value) {
  return value.is_markup() ? value : force_escape_html(runtime, value);
}

Value strip_tags(Runtime& runtime, const Value& value) {
  const Text text = to_text(runtime, value);
  runtime.work(text.size() * 4);
  const std::string stripped = without(without(text.bytes(), "<!--", "-->"), "<", ">");
  return runtime.text(resolve_entities(collapse_space(stripped)), text.all_from_template());
}

}  // namespace strata::text::jinja
