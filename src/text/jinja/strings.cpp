#include "text/jinja/strings.h"

#include "text/jinja/find.h"
#include "text/jinja/unicode.h"

namespace strata::text::jinja {

Span strip_span(Runtime& runtime, std::string_view text, std::optional<std::string_view> chars,
                bool left, bool right) {
  const auto strippable = [&](uint32_t c, std::string_view encoded) {
    if (chars) runtime.work(chars->size());
    return chars ? chars->find(encoded) != std::string_view::npos : is_space(c);
  };
  size_t begin = 0;
  size_t end = text.size();
  size_t length = 0;
  while (left && begin < end) {
    const uint32_t c = code_point_at(text, begin, length);
    if (!strippable(c, text.substr(begin, length))) break;
    begin += length;
  }
  while (right && begin < end) {
    const uint32_t c = code_point_before(text, end, length);
    if (!strippable(c, text.substr(end - length, length))) break;
    end -= length;
  }
  return {begin, end};
}

std::vector<Span> line_spans(Runtime& runtime, std::string_view text, bool keep_ends) {
  runtime.work(text.size());
  std::vector<Span> out;
  size_t begin = 0;
  size_t length = 0;
  for (size_t at = 0; at < text.size();) {
    const uint32_t c = code_point_at(text, at, length);
    if (!is_line_break(c)) {
      at += length;
      continue;
    }
    const size_t end = at;
    at += length;
    if (c == '\r' && at < text.size() && text[at] == '\n') ++at;
    runtime.charge(sizeof(Span));
    out.emplace_back(begin, keep_ends ? at : end);
    begin = at;
  }
  if (begin < text.size()) out.emplace_back(begin, text.size());
  return out;
}

Text replace_text(Runtime& runtime, const Text& text, const Text& old, const Text& with,
                  int64_t count) {
  const std::string& bytes = text.bytes();
  runtime.work(bytes.size());
  auto left = count < 0 ? UINT64_MAX : static_cast<uint64_t>(count);
  Text out;
  const auto put = [&] {
    runtime.step();
    runtime.require_bytes(out.cost() + with.cost());
    out.append(with);
    --left;
  };
  size_t at = 0;
  if (old.empty()) {
    // Before every character and at the end.
    size_t length = 0;
    while (left > 0) {
      put();
      if (at >= bytes.size()) return out;
      code_point_at(bytes, at, length);
      out.append(text, at, at + length);
      at += length;
    }
  }
  while (left > 0 && !old.empty()) {
    const size_t found = find_bytes(bytes, old.bytes(), at);
    if (found == std::string::npos) break;
    out.append(text, at, found);
    put();
    at = found + old.size();
  }
  out.append(text, at, bytes.size());
  return out;
}

Text center_text(Runtime& runtime, const Text& text, int64_t width, std::string_view fill) {
  const auto length = static_cast<int64_t>(count_code_points(text.bytes()));
  if (width <= length) return text;
  const int64_t missing = width - length;
  runtime.require_bytes(text.size() + static_cast<uint64_t>(missing) * fill.size());
  runtime.work(static_cast<size_t>(missing));
  // An odd gap leans to the right for even widths and to the left for odd ones, as in Python.
  const int64_t before = missing / 2 + (missing & width & 1);
  const bool origin = text.all_from_template();
  Text out;
  for (int64_t i = 0; i < before; ++i) out.append(fill, origin);
  out.append(text);
  for (int64_t i = before; i < missing; ++i) out.append(fill, origin);
  return out;
}

}  // namespace strata::text::jinja
