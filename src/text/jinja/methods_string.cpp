// Methods of str that search, cut and test.
#include <algorithm>
#include <iterator>

#include "text/jinja/args.h"
#include "text/jinja/attributes.h"
#include "text/jinja/find.h"
#include "text/jinja/format.h"
#include "text/jinja/html.h"
#include "text/jinja/methods_string.h"
#include "text/jinja/operators.h"
#include "text/jinja/str.h"
#include "text/jinja/strings.h"
#include "text/jinja/unicode.h"

namespace strata::text::jinja {
namespace {

const Text& text_of(const Value& self) { return self.string().text; }

template <bool Left, bool Right>
Value method_strip(Runtime& runtime, const Value& self, const CallArgs& args) {
  const Params params(runtime, "strip", args, {""});
  const Text& text = text_of(self);
  runtime.work(text.size());
  std::optional<std::string_view> chars;
  if (params.given_and_not_none(0)) chars = params.string(0).text.bytes();
  const auto [begin, end] = strip_span(runtime, text.bytes(), chars, Left, Right);
  return runtime.text(text.slice(begin, end));
}

Value piece(Runtime& runtime, const Text& text, size_t begin, size_t end) {
  return runtime.text(text.slice(begin, end));
}

// Pieces between runs of white space, at most `most` cuts (negative: all), from the left.
std::vector<Value> split_space(Runtime& runtime, const Text& text, int64_t most) {
  const std::string& bytes = text.bytes();
  std::vector<Value> out;
  size_t length = 0;
  size_t at = 0;
  while (true) {
    while (at < bytes.size() && is_space(code_point_at(bytes, at, length))) at += length;
    if (at >= bytes.size()) return out;
    const size_t begin = at;
    if (most == 0) {
      out.push_back(piece(runtime, text, begin, bytes.size()));
      return out;
    }
    while (at < bytes.size() && !is_space(code_point_at(bytes, at, length))) at += length;
    out.push_back(piece(runtime, text, begin, at));
    --most;
  }
}

std::vector<Value> rsplit_space(Runtime& runtime, const Text& text, int64_t most) {
  const std::string& bytes = text.bytes();
  std::vector<Value> out;
  size_t length = 0;
  size_t at = bytes.size();
  while (true) {
    while (at > 0 && is_space(code_point_before(bytes, at, length))) at -= length;
    if (at == 0) break;
    const size_t end = at;
    if (most == 0) {
      out.push_back(piece(runtime, text, 0, end));
      break;
    }
    while (at > 0 && !is_space(code_point_before(bytes, at, length))) at -= length;
    out.push_back(piece(runtime, text, at, end));
    --most;
  }
  std::reverse(out.begin(), out.end());
  return out;
}

std::vector<Value> split_at(Runtime& runtime, const Text& text, const std::string& separator,
                            int64_t most) {
  std::vector<Value> out;
  size_t at = 0;
  while (most != 0) {
    const size_t found = find_bytes(text.bytes(), separator, at);
    if (found == std::string::npos) break;
    out.push_back(piece(runtime, text, at, found));
    at = found + separator.size();
    --most;
  }
  out.push_back(piece(runtime, text, at, text.size()));
  return out;
}

std::vector<Value> rsplit_at(Runtime& runtime, const Text& text, const std::string& separator,
                             int64_t most) {
  std::vector<Value> out;
  size_t end = text.size();
  while (most != 0) {
    const size_t found = rfind_bytes(text.bytes(), separator, end);
    if (found == std::string::npos) break;
    out.push_back(piece(runtime, text, found + separator.size(), end));
    end = found;
    --most;
  }
  out.push_back(piece(runtime, text, 0, end));
  std::reverse(out.begin(), out.end());
  return out;
}

template <bool FromRight>
Value method_split(Runtime& runtime, const Value& self, const CallArgs& args) {
  const Params params(runtime, "split", args, {"sep", "maxsplit"});
  const Text& text = text_of(self);
  const int64_t most = params.integer_or(1, -1);
  runtime.work(text.size());
  if (!params.given_and_not_none(0)) {
    return runtime.list(FromRight ? rsplit_space(runtime, text, most)
                                  : split_space(runtime, text, most));
  }
  const std::string& separator = params.string(0).text.bytes();
  if (separator.empty()) runtime.fail("empty separator");
  return runtime.list(FromRight ? rsplit_at(runtime, text, separator, most)
                                : split_at(runtime, text, separator, most));
}

template <bool FromRight>
Value method_partition(Runtime& runtime, const Value& self, const CallArgs& args) {
  const Params params(runtime, "partition", args, {""}, 1);
  const Text& text = text_of(self);
  const String& separator = params.string(0);
  const size_t size = separator.text.size();
  if (size == 0) runtime.fail("empty separator");
  runtime.work(text.size());
  const size_t found = FromRight ? rfind_bytes(text.bytes(), separator.text.bytes(), text.size())
                                 : find_bytes(text.bytes(), separator.text.bytes(), 0);
  Value whole = self;
  whole.detail = 0;
  if (found == std::string::npos) {
    const Value empty = runtime.text("", true);
    return FromRight ? runtime.tuple({empty, empty, whole}) : runtime.tuple({whole, empty, empty});
  }
  return runtime.tuple({piece(runtime, text, 0, found), piece(runtime, text, found, found + size),
                        piece(runtime, text, found + size, text.size())});
}

Value method_splitlines(Runtime& runtime, const Value& self, const CallArgs& args) {
  const Params params(runtime, "splitlines", args, {"keepends"});
  const Text& text = text_of(self);
  std::vector<Value> out;
  for (const auto& [begin, end] : line_spans(runtime, text.bytes(), params.truth_or(0, false))) {
    out.push_back(piece(runtime, text, begin, end));
  }
  return runtime.list(std::move(out));
}

// The part of the string that optional start and stop arguments leave, in bytes; false when the
// start lies behind the end, where not even an empty string is found.
bool window(Runtime& runtime, const Value& self, const Params& params, Span& out) {
  const String& string = self.string();
  const auto length = static_cast<int64_t>(string.length);
  const auto bound = [&](size_t index, int64_t fallback) {
    if (!params.given_and_not_none(index)) return fallback;
    const int64_t at = params.integer(index);
    if (at < 0) return at < -length ? int64_t{0} : at + length;
    return at;
  };
  const int64_t start = bound(1, 0);
  const int64_t stop = std::min(bound(2, length), length);
  if (start > stop) return false;
  runtime.work(string.text.size());
  const auto offset = [&](int64_t index) {
    const auto at = static_cast<size_t>(index);
    return string.ascii() ? at : byte_offset(string.text.bytes(), at);
  };
  out = {offset(start), offset(stop)};
  return true;
}

template <bool FromRight>
int64_t find_index(Runtime& runtime, const Value& self, const CallArgs& args) {
  const Params params(runtime, "find", args, {"", "", ""}, 1);
  const std::string& wanted = params.string(0).text.bytes();
  Span span;
  if (!window(runtime, self, params, span)) return -1;
  const std::string_view whole = self.bytes();
  const std::string_view view = whole.substr(span.first, span.second - span.first);
  const size_t found =
      FromRight ? rfind_bytes(view, wanted, view.size()) : find_bytes(view, wanted, 0);
  if (found == std::string_view::npos) return -1;
  return static_cast<int64_t>(count_code_points(whole.substr(0, span.first + found)));
}

template <bool FromRight>
Value method_find(Runtime& runtime, const Value& self, const CallArgs& args) {
  return Value::of(find_index<FromRight>(runtime, self, args));
}

template <bool FromRight>
Value method_index(Runtime& runtime, const Value& self, const CallArgs& args) {
  const int64_t found = find_index<FromRight>(runtime, self, args);
  if (found < 0) runtime.fail("substring not found");
  return Value::of(found);
}

Value method_count(Runtime& runtime, const Value& self, const CallArgs& args) {
  const Params params(runtime, "count", args, {"", "", ""}, 1);
  const std::string& wanted = params.string(0).text.bytes();
  Span span;
  if (!window(runtime, self, params, span)) return Value::of(int64_t{0});
  const std::string_view view =
      std::string_view(self.bytes()).substr(span.first, span.second - span.first);
  if (wanted.empty()) return Value::of(static_cast<int64_t>(count_code_points(view)) + 1);
  int64_t count = 0;
  for (size_t at = find_bytes(view, wanted, 0); at != view.npos;
       at = find_bytes(view, wanted, at + wanted.size())) {
    runtime.step();
    ++count;
  }
  return Value::of(count);
}

template <bool AtEnd>
Value method_edge(Runtime& runtime, const Value& self, const CallArgs& args) {
  const Params params(runtime, AtEnd ? "endswith" : "startswith", args, {"", "", ""}, 1);
  Span span;
  const bool inside = window(runtime, self, params, span);
  const auto matches = [&](const Value& wanted) {
    require_defined(runtime, wanted);
    if (!wanted.is_string()) {
      runtime.fail("{} first arg must be str or a tuple of str, not {}",
                   AtEnd ? "endswith" : "startswith", type_name(wanted));
    }
    runtime.step();
    if (!inside) return false;
    const std::string_view view =
        std::string_view(self.bytes()).substr(span.first, span.second - span.first);
    const std::string& part = wanted.bytes();
    if (part.size() > view.size()) return false;
    runtime.work(part.size());
    return (AtEnd ? view.substr(view.size() - part.size()) : view.substr(0, part.size())) == part;
  };
  if (!params[0].is(Kind::tuple)) return Value::of(matches(params[0]));
  for (const Value& wanted : params[0].list().items) {
    if (matches(wanted)) return Value::of(true);
  }
  return Value::of(false);
}

template <bool AtEnd>
Value method_remove_edge(Runtime& runtime, const Value& self, const CallArgs& args) {
  const Params params(runtime, AtEnd ? "removesuffix" : "removeprefix", args, {""}, 1);
  const std::string& part = params.string(0).text.bytes();
  const Text& text = text_of(self);
  if (part.empty() || part.size() > text.size()) return self;
  const size_t rest = text.size() - part.size();
  if (text.bytes().compare(AtEnd ? rest : 0, part.size(), part) != 0) return self;
  return AtEnd ? piece(runtime, text, 0, rest) : piece(runtime, text, part.size(), text.size());
}

Value method_replace(Runtime& runtime, const Value& self, const CallArgs& args) {
  const Params params(runtime, "replace", args, {"", "", ""}, 2);
  return runtime.text(replace_text(runtime, text_of(self), params.string(0).text,
                                   params.string(1).text, params.integer_or(2, -1)));
}

Value method_join(Runtime& runtime, const Value& self, const CallArgs& args) {
  const Params params(runtime, "join", args, {""}, 1);
  Iterator* iterator = iterate(runtime, params[0]);
  Text out;
  Value item;
  for (int64_t index = 0; iterator->next(runtime, item); ++index) {
    // Safe HTML escapes what it joins; a plain string only takes strings.
    if (self.is_markup()) item = escape_html(runtime, item);
    if (!item.is_string()) {
      runtime.fail("sequence item {}: expected str instance, {} found", index, type_name(item));
    }
    runtime.require_bytes(out.cost() + text_of(self).cost() + text_of(item).cost());
    runtime.work(text_of(item).cost());
    if (index > 0) out.append(text_of(self));
    out.append(text_of(item));
  }
  return runtime.text(std::move(out), self.is_markup());
}

Value method_format(Runtime& runtime, const Value& self, const CallArgs& args) {
  return format_braces(runtime, self, args);
}

Value method_format_map(Runtime& runtime, const Value& self, const CallArgs& args) {
  const Params params(runtime, "format_map", args, {""}, 1);
  if (!params[0].is(Kind::dict)) runtime.fail("format_map: expected a mapping");
  CallArgs named;
  for (const Dict::Entry& entry : params[0].dict().entries()) {
    if (entry.live && entry.key.is_string()) {
      named.named.emplace_back(entry.key.string_pointer(), entry.value);
    }
  }
  return format_braces(runtime, self, named);
}

constexpr MarkupRule k_plain = MarkupRule::plain;
constexpr MarkupRule k_keep = MarkupRule::keep;
constexpr MarkupRule k_escape = MarkupRule::escape;

// Sorted by name; the rules say what each does on safe HTML.
constexpr MethodDef k_search_methods[] = {
    {"count", method_count, k_plain},
    {"endswith", method_edge<true>, k_plain},
    {"find", method_find<false>, k_plain},
    {"format", method_format, k_plain},
    {"format_map", method_format_map, k_plain},
    {"index", method_index<false>, k_plain},
    {"join", method_join, k_plain},
    {"lstrip", method_strip<true, false>, k_escape},
    {"partition", method_partition<false>, k_escape},
    {"removeprefix", method_remove_edge<false>, k_plain},
    {"removesuffix", method_remove_edge<true>, k_plain},
    {"replace", method_replace, k_escape},
    {"rfind", method_find<true>, k_plain},
    {"rindex", method_index<true>, k_plain},
    {"rpartition", method_partition<true>, k_escape},
    {"rsplit", method_split<true>, k_keep},
    {"rstrip", method_strip<false, true>, k_escape},
    {"split", method_split<false>, k_keep},
    {"splitlines", method_splitlines, k_keep},
    {"startswith", method_edge<false>, k_plain},
    {"strip", method_strip<true, true>, k_escape},
};

}  // namespace

const MethodDef* find_in(const MethodDef* begin, const MethodDef* end, std::string_view name) {
  const MethodDef* found = std::lower_bound(
      begin, end, name,
      [](const MethodDef& def, std::string_view v) { return std::string_view(def.name) < v; });
  return found != end && name == found->name ? found : nullptr;
}

const MethodDef* find_string_method(std::string_view name) {
  if (const MethodDef* found =
          find_in(std::begin(k_search_methods), std::end(k_search_methods), name)) {
    return found;
  }
  return find_case_method(name);
}

}  // namespace strata::text::jinja
