// Methods of str about case, character classes and padding.
#include <iterator>

#include "text/jinja/args.h"
#include "text/jinja/methods_string.h"
#include "text/jinja/operators.h"
#include "text/jinja/strings.h"
#include "text/jinja/unicode.h"

namespace strata::text::jinja {
namespace {

const Text& text_of(const Value& self) { return self.string().text; }

template <std::string (*Map)(std::string_view)>
Value method_map(Runtime& runtime, const Value& self, const CallArgs& args) {
  const Params params(runtime, "the method", args, {});
  runtime.work(text_of(self).size() * 8);
  return runtime.text(map_runs(text_of(self), Map));
}

// These look at more than one character: with several origins, the whole is a variable's.
template <std::string (*Map)(std::string_view)>
Value method_map_whole(Runtime& runtime, const Value& self, const CallArgs& args) {
  const Params params(runtime, "the method", args, {});
  runtime.work(text_of(self).size() * 8);
  return runtime.text(Map(text_of(self).bytes()), text_of(self).all_from_template());
}

// True when there is a character and every one is of the class.
template <bool (*Is)(uint32_t)>
Value method_all(Runtime& runtime, const Value& self, const CallArgs& args) {
  const Params params(runtime, "the method", args, {});
  const std::string& bytes = self.bytes();
  runtime.work(bytes.size() * 2);
  size_t length = 0;
  for (size_t at = 0; at < bytes.size(); at += length) {
    if (!Is(code_point_at(bytes, at, length))) return Value::of(false);
  }
  return Value::of(!bytes.empty());
}

// The same, but true for an empty string too.
template <bool (*Is)(uint32_t)>
Value method_none_but(Runtime& runtime, const Value& self, const CallArgs& args) {
  if (self.bytes().empty()) return Value::of(true);
  return method_all<Is>(runtime, self, args);
}

bool is_ascii(uint32_t c) { return c < 0x80; }

// True when there is a cased character and every one has the case.
template <bool (*Is)(uint32_t)>
Value method_cased(Runtime& runtime, const Value& self, const CallArgs& args) {
  const Params params(runtime, "the method", args, {});
  const std::string& bytes = self.bytes();
  runtime.work(bytes.size() * 2);
  bool any = false;
  size_t length = 0;
  for (size_t at = 0; at < bytes.size(); at += length) {
    const uint32_t c = code_point_at(bytes, at, length);
    if (!is_cased(c)) continue;
    if (!Is(c)) return Value::of(false);
    any = true;
  }
  return Value::of(any);
}

Value method_istitle(Runtime& runtime, const Value& self, const CallArgs& args) {
  const Params params(runtime, "istitle", args, {});
  const std::string& bytes = self.bytes();
  runtime.work(bytes.size() * 2);
  bool any = false;
  bool after_cased = false;
  size_t length = 0;
  for (size_t at = 0; at < bytes.size(); at += length) {
    const uint32_t c = code_point_at(bytes, at, length);
    const bool upper = is_upper(c) || is_title(c);
    const bool lower = is_lower(c);
    if ((upper && after_cased) || (lower && !after_cased)) return Value::of(false);
    any = any || upper || lower;
    after_cased = upper || lower;
  }
  return Value::of(any);
}

Value method_isidentifier(Runtime& runtime, const Value& self, const CallArgs& args) {
  const Params params(runtime, "isidentifier", args, {});
  const std::string& bytes = self.bytes();
  size_t length = 0;
  for (size_t at = 0; at < bytes.size(); at += length) {
    const uint32_t c = code_point_at(bytes, at, length);
    if (at == 0 ? !is_name_start(c) : !is_name_part(c)) return Value::of(false);
  }
  return Value::of(!bytes.empty());
}

std::string fill_argument(Runtime& runtime, const Params& params) {
  if (!params.given(1)) return " ";
  const String& fill = params.string(1);
  if (fill.length != 1) runtime.fail("The fill character must be exactly one character long");
  return fill.text.bytes();
}

Value method_center(Runtime& runtime, const Value& self, const CallArgs& args) {
  const Params params(runtime, "center", args, {"", ""}, 1);
  const int64_t width = params.integer(0);
  return runtime.text(center_text(runtime, text_of(self), width, fill_argument(runtime, params)));
}

// Fill characters needed to come to the width, checked against the limits.
int64_t missing_for(Runtime& runtime, const Value& self, int64_t width, size_t fill_size) {
  const auto length = static_cast<int64_t>(self.string().length);
  if (width <= length) return 0;
  const int64_t missing = width - length;
  runtime.require_bytes(static_cast<uint64_t>(missing) * fill_size + text_of(self).cost());
  runtime.work(static_cast<size_t>(missing));
  return missing;
}

template <bool FillLeft>
Value method_just(Runtime& runtime, const Value& self, const CallArgs& args) {
  const Params params(runtime, FillLeft ? "rjust" : "ljust", args, {"", ""}, 1);
  const std::string fill = fill_argument(runtime, params);
  const Text& text = text_of(self);
  const int64_t missing = missing_for(runtime, self, params.integer(0), fill.size());
  const bool origin = text.all_from_template();
  Text out;
  if (!FillLeft) out.append(text);
  for (int64_t i = 0; i < missing; ++i) out.append(fill, origin);
  if (FillLeft) out.append(text);
  return runtime.text(std::move(out));
}

Value method_zfill(Runtime& runtime, const Value& self, const CallArgs& args) {
  const Params params(runtime, "zfill", args, {""}, 1);
  const Text& text = text_of(self);
  const int64_t missing = missing_for(runtime, self, params.integer(0), 1);
  const bool sign = !text.empty() && (text.bytes()[0] == '-' || text.bytes()[0] == '+');
  Text out = text.slice(0, sign ? 1 : 0);
  out.append(std::string(static_cast<size_t>(missing), '0'), text.all_from_template());
  out.append(text, sign ? 1 : 0, text.size());
  return runtime.text(std::move(out));
}

Value method_expandtabs(Runtime& runtime, const Value& self, const CallArgs& args) {
  const Params params(runtime, "expandtabs", args, {"tabsize"});
  const int64_t size = params.integer_or(0, 8);
  const Text& text = text_of(self);
  runtime.work(text.size() * 2);
  Text out;
  int64_t column = 0;
  text.each_run([&](std::string_view run, bool origin) {
    size_t length = 0;
    for (size_t at = 0; at < run.size(); at += length) {
      const uint32_t c = code_point_at(run, at, length);
      if (c != '\t') {
        out.append(run.substr(at, length), origin);
        column = c == '\n' || c == '\r' ? 0 : column + 1;
      } else if (size > 0) {
        const int64_t spaces = size - column % size;
        runtime.require_bytes(out.cost() + static_cast<uint64_t>(spaces));
        runtime.work(static_cast<size_t>(spaces));
        out.append(std::string(static_cast<size_t>(spaces), ' '), origin);
        column += spaces;
      }
    }
  });
  return runtime.text(std::move(out));
}

constexpr MarkupRule k_plain = MarkupRule::plain;
constexpr MarkupRule k_escape = MarkupRule::escape;

// Sorted by name.
constexpr MethodDef k_case_methods[] = {
    {"capitalize", method_map_whole<capitalize>, k_escape},
    {"casefold", method_map<case_fold>, k_plain},
    {"center", method_center, k_escape},
    {"expandtabs", method_expandtabs, k_escape},
    {"isalnum", method_all<is_alnum>, k_plain},
    {"isalpha", method_all<is_alpha>, k_plain},
    {"isascii", method_none_but<is_ascii>, k_plain},
    {"isdecimal", method_all<is_decimal>, k_plain},
    {"isdigit", method_all<is_digit>, k_plain},
    {"isidentifier", method_isidentifier, k_plain},
    {"islower", method_cased<is_lower>, k_plain},
    {"isnumeric", method_all<is_numeric>, k_plain},
    {"isprintable", method_none_but<is_printable>, k_plain},
    {"isspace", method_all<is_space>, k_plain},
    {"istitle", method_istitle, k_plain},
    {"isupper", method_cased<is_upper>, k_plain},
    {"ljust", method_just<false>, k_escape},
    {"lower", method_map<to_lower>, k_escape},
    {"rjust", method_just<true>, k_escape},
    {"swapcase", method_map<swap_case>, k_escape},
    {"title", method_map_whole<to_title>, k_escape},
    {"upper", method_map<to_upper>, k_escape},
    {"zfill", method_zfill, k_escape},
};

}  // namespace

const MethodDef* find_case_method(std::string_view name) {
  return find_in(std::begin(k_case_methods), std::end(k_case_methods), name);
}

}  // namespace strata::text::jinja
