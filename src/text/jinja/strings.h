// Work on Text that filters and string methods share. Offsets are bytes at character borders.
#pragma once

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/runtime.h"
#include "text/jinja/text.h"

namespace strata::text::jinja {

using Span = std::pair<size_t, size_t>;  // [begin, end)

// What is left after white space, or any of `chars`, is taken off the ends.
Span strip_span(Runtime& runtime, std::string_view text, std::optional<std::string_view> chars,
                bool left, bool right);
// str.splitlines().
std::vector<Span> line_spans(Runtime& runtime, std::string_view text, bool keep_ends);
// str.replace(); a negative count replaces all.
Text replace_text(Runtime& runtime, const Text& text, const Text& old, const Text& with,
                  int64_t count);
// f of every stretch of one origin.
template <class F>
Text map_runs(const Text& text, F&& f) {
  Text out;
  text.each_run([&](std::string_view run, bool origin) { out.append(f(run), origin); });
  return out;
}
// str.center().
Text center_text(Runtime& runtime, const Text& text, int64_t width, std::string_view fill);

}  // namespace strata::text::jinja
