// Filters on text.
#include "text/jinja/args.h"
#include "text/jinja/filters.h"
#include "text/jinja/format.h"
#include "text/jinja/html.h"
#include "text/jinja/iterators.h"
#include "text/jinja/operators.h"
#include "text/jinja/str.h"
#include "text/jinja/strings.h"
#include "text/jinja/unicode.h"

namespace strata::text::jinja {
namespace {

using CaseMap = std::string (*)(std::string_view);

// str() of the subject, every stretch of it mapped; a mark of safety stays.
Value map_case(Runtime& runtime, const Value& subject, CaseMap map) {
  const Text text = to_text(runtime, subject);
  runtime.work(text.size() * 8);
  return runtime.text(map_runs(text, map), subject.is_markup());
}

Value filter_upper(Runtime& runtime, const Value& subject, const CallArgs& args) {
  const Params params(runtime, "upper", args, {});
  return map_case(runtime, subject, to_upper);
}

Value filter_lower(Runtime& runtime, const Value& subject, const CallArgs& args) {
  const Params params(runtime, "lower", args, {});
  return map_case(runtime, subject, to_lower);
}

Value filter_capitalize(Runtime& runtime, const Value& subject, const CallArgs& args) {
  const Params params(runtime, "capitalize", args, {});
  const Text text = to_text(runtime, subject);
  runtime.work(text.size() * 8);
  bool first = true;
  Text out;
  text.each_run([&](std::string_view run, bool origin) {
    out.append(first ? capitalize(run) : to_lower(run), origin);
    first = false;
  });
  return runtime.text(std::move(out), subject.is_markup());
}

bool separates_words(uint32_t c) {
  return c == '-' || c == '(' || c == '{' || c == '[' || c == '<' || is_space(c);
}

Value filter_title(Runtime& runtime, const Value& subject, const CallArgs& args) {
  const Params params(runtime, "title", args, {});
  const Text text = to_text(runtime, subject);
  const std::string& bytes = text.bytes();
  runtime.work(bytes.size() * 8);
  Text out;
  for (size_t at = 0; at < bytes.size();) {
    // A stretch of separators or of anything else.
    size_t length = 0;
    const bool separator = separates_words(code_point_at(bytes, at, length));
    const size_t first = at + length;
    size_t end = first;
    while (end < bytes.size() && separates_words(code_point_at(bytes, end, length)) == separator) {
      end += length;
    }
    out.append(map_runs(text.slice(at, first), to_upper));
    out.append(map_runs(text.slice(first, end), to_lower));
    at = end;
  }
  return runtime.text(std::move(out));
}

Value filter_trim(Runtime& runtime, const Value& subject, const CallArgs& args) {
  const Params params(runtime, "trim", args, {"chars"});
  const Text text = to_text(runtime, subject);
  runtime.work(text.size());
  std::optional<std::string_view> chars;
  if (params.given_and_not_none(0)) chars = params.string(0).text.bytes();
  const auto [begin, end] = strip_span(runtime, text.bytes(), chars, true, true);
  return runtime.text(text.slice(begin, end), subject.is_markup());
}

Value filter_center(Runtime& runtime, const Value& subject, const CallArgs& args) {
  const Params params(runtime, "center", args, {"width"});
  const Text text = to_text(runtime, subject);
  return runtime.text(center_text(runtime, text, params.integer_or(0, 80), " "),
                      subject.is_markup());
}

Value filter_replace(Runtime& runtime, const Value& subject, const CallArgs& args) {
  const Params params(runtime, "replace", args, {"old", "new", "count"}, 2);
  const int64_t count = params.given_and_not_none(2) ? params.integer(2) : -1;
  return runtime.text(replace_text(runtime, to_text(runtime, subject), to_text(runtime, params[0]),
                                   to_text(runtime, params[1]), count));
}

Value filter_string(Runtime& runtime, const Value& subject, const CallArgs& args) {
  const Params params(runtime, "string", args, {});
  return to_string_value(runtime, subject);
}

Value filter_safe(Runtime& runtime, const Value& subject, const CallArgs& args) {
  const Params params(runtime, "safe", args, {});
  Value out = to_string_value(runtime, subject);
  out.detail = 1;
  return out;
}

Value filter_escape(Runtime& runtime, const Value& subject, const CallArgs& args) {
  const Params params(runtime, "escape", args, {});
  return escape_html(runtime, subject);
}

Value filter_forceescape(Runtime& runtime, const Value& subject, const CallArgs& args) {
  const Params params(runtime, "forceescape", args, {});
  return force_escape_html(runtime, subject);
}

Value filter_striptags(Runtime& runtime, const Value& subject, const CallArgs& args) {
  const Params params(runtime, "striptags", args, {});
  return strip_tags(runtime, subject);
}

Value filter_format(Runtime& runtime, const Value& subject, const CallArgs& args) {
  if (!args.positional.empty() && !args.named.empty()) {
    runtime.fail("can't handle positional and keyword arguments at the same time");
  }
  const Value format = to_string_value(runtime, subject);
  if (args.named.empty()) return format_percent(runtime, format, runtime.tuple(args.positional));
  Dict* named = runtime.dict();
  for (const auto& [name, value] : args.named) {
    runtime.set(*named, Value::of(const_cast<String*>(name)), value);
  }
  return format_percent(runtime, format, Value::of(Kind::dict, named));
}

Value filter_indent(Runtime& runtime, const Value& subject, const CallArgs& args) {
  const Params params(runtime, "indent", args, {"width", "first", "blank"});
  require_defined(runtime, subject);
  if (!subject.is_string()) {
    runtime.fail("indent: expected a string, found '{}'", type_name(subject));
  }
  const Text& text = subject.string().text;
  const bool origin = text.all_from_template();
  Text indention;
  if (params.given(0) && params[0].is_string()) {
    indention = params[0].string().text;
  } else {
    const int64_t width = params.integer_or(0, 4);
    runtime.require_bytes(static_cast<uint64_t>(std::max<int64_t>(width, 0)));
    indention.append(std::string(static_cast<size_t>(std::max<int64_t>(width, 0)), ' '), origin);
  }
  const bool first = params.truth_or(1, false);
  const bool blank = params.truth_or(2, false);
  // With one line break more, so that a last line that is empty counts as one.
  Text ended = text;
  ended.append("\n", origin);
  Text out;
  if (first) out.append(indention);
  bool at_start = true;
  for (const auto& [begin, end] : line_spans(runtime, ended.bytes(), false)) {
    runtime.require_bytes(out.cost() + indention.cost());
    runtime.work(indention.cost());
    if (!at_start) {
      out.append("\n", origin);
      if (blank || begin != end) out.append(indention);
    }
    at_start = false;
    out.append(ended, begin, end);
  }
  return runtime.text(std::move(out), subject.is_markup());
}

Value filter_truncate(Runtime& runtime, const Value& subject, const CallArgs& args) {
  const Params params(runtime, "truncate", args, {"length", "killwords", "end", "leeway"});
  const int64_t length = params.integer_or(0, 255);
  const bool kill_words = params.truth_or(1, false);
  Text end("...", true);
  if (params.given(2)) end = params.string(2).text;
  const int64_t leeway = params.given_and_not_none(3) ? params.integer(3) : 5;
  const auto end_length = static_cast<int64_t>(count_code_points(end.bytes()));
  if (length < end_length) {
    runtime.fail("truncate: expected length >= {}, got {}", end_length, length);
  }
  if (leeway < 0) runtime.fail("truncate: expected leeway >= 0, got {}", leeway);
  int64_t have = length_of(runtime, subject);
  if (have <= leeway || have - leeway <= length) return subject;
  if (!subject.is_string()) {
    runtime.fail("truncate: expected a string, found '{}'", type_name(subject));
  }
  const Text& text = subject.string().text;
  const size_t cut = byte_offset(text.bytes(), static_cast<size_t>(length - end_length));
  Text out = text.slice(0, cut);
  if (!kill_words) {
    if (const size_t space = out.bytes().rfind(' '); space != std::string::npos) {
      out = out.slice(0, space);
    }
  }
  out.append(end);
  return runtime.text(std::move(out), subject.is_markup());
}

Value filter_wordcount(Runtime& runtime, const Value& subject, const CallArgs& args) {
  const Params params(runtime, "wordcount", args, {});
  const Text text = to_text(runtime, subject);
  runtime.work(text.size() * 4);
  int64_t count = 0;
  bool inside = false;
  size_t length = 0;
  for (size_t at = 0; at < text.size(); at += length) {
    const bool word = is_word(code_point_at(text.bytes(), at, length));
    count += word && !inside;
    inside = word;
  }
  return Value::of(count);
}

std::string percent_encoded(std::string_view text, bool for_query) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') ||
                       c == '_' || c == '.' || c == '-' || c == '~' || (c == '/' && !for_query);
    if (plain) {
      out += c;
    } else if (for_query && c == ' ') {
      out += '+';
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

void append_encoded(Runtime& runtime, Text& out, const Value& value, bool for_query) {
  const Text text = to_text(runtime, value);
  runtime.work(text.size() * 4);
  runtime.require_bytes(out.cost() + text.size() * 3);
  out.append(map_runs(text, [&](std::string_view run) { return percent_encoded(run, for_query); }));
}

Value filter_urlencode(Runtime& runtime, const Value& subject, const CallArgs& args) {
  const Params params(runtime, "urlencode", args, {});
  Text out;
  if (subject.is_string() || !can_iterate(subject)) {
    append_encoded(runtime, out, subject, false);
    return runtime.text(std::move(out));
  }
  Value pairs = subject;
  if (subject.is(Kind::dict)) {
    pairs = Value::of(Kind::view, runtime.make<View>(0, &subject.dict(), View::Part::items));
  }
  Iterator* iterator = iterate(runtime, pairs);
  Value pair;
  while (iterator->next(runtime, pair)) {
    const std::vector<Value> parts = items_of(runtime, pair);
    if (parts.size() != 2) runtime.fail("urlencode: expected pairs of a key and a value");
    if (!out.empty()) out.append("&", true);
    append_encoded(runtime, out, parts[0], true);
    out.append("=", true);
    append_encoded(runtime, out, parts[1], true);
  }
  return runtime.text(std::move(out));
}

Value filter_xmlattr(Runtime& runtime, const Value& subject, const CallArgs& args) {
  const Params params(runtime, "xmlattr", args, {"autospace"});
  require_defined(runtime, subject);
  if (!subject.is(Kind::dict)) {
    runtime.fail("xmlattr: expected a dict, found '{}'", type_name(subject));
  }
  Text out;
  for (const Dict::Entry& entry : subject.dict().entries()) {
    if (!entry.live || entry.value.is_none() || entry.value.is_undefined()) continue;
    if (!entry.key.is_string()) runtime.fail("xmlattr: keys must be strings");
    if (entry.key.bytes().find_first_of(" \t\n\r\f\v/>=") != std::string::npos) {
      runtime.fail("Invalid character in attribute name: {}", quoted(entry.key.bytes()));
    }
    if (!out.empty() || params.truth_or(0, true)) out.append(" ", true);
    out.append(escape_html(runtime, entry.key).string().text);
    out.append("=\"", true);
    out.append(escape_html(runtime, entry.value).string().text);
    out.append("\"", true);
  }
  return runtime.text(std::move(out));
}

}  // namespace

const FilterDef k_text_filters[] = {
    {"capitalize", filter_capitalize},
    {"center", filter_center},
    {"e", filter_escape},
    {"escape", filter_escape},
    {"forceescape", filter_forceescape},
    {"format", filter_format},
    {"indent", filter_indent},
    {"lower", filter_lower},
    {"replace", filter_replace},
    {"safe", filter_safe},
    {"string", filter_string},
    {"striptags", filter_striptags},
    {"title", filter_title},
    {"trim", filter_trim},
    {"truncate", filter_truncate},
    {"upper", filter_upper},
    {"urlencode", filter_urlencode},
    {"wordcount", filter_wordcount},
    {"xmlattr", filter_xmlattr},
    {nullptr, nullptr},
};

}  // namespace strata::text::jinja
