// Filters on numbers.
#include <cmath>

#include "text/jinja/args.h"
#include "text/jinja/attributes.h"
#include "text/jinja/filters.h"
#include "text/jinja/format_spec.h"
#include "text/jinja/operators.h"
#include "text/jinja/str.h"

namespace strata::text::jinja {
namespace {

Value filter_abs(Runtime& runtime, const Value& subject, const CallArgs& args) {
  const Params params(runtime, "abs", args, {});
  require_defined(runtime, subject);
  if (subject.is(Kind::real)) return Value::of(std::fabs(subject.real));
  if (!subject.is_integral()) {
    runtime.fail("bad operand type for abs(): '{}'", type_name(subject));
  }
  return subject.as_integer() < 0 ? negate(runtime, subject) : Value::of(subject.as_integer());
}

Value filter_float(Runtime& runtime, const Value& subject, const CallArgs& args) {
  const Params params(runtime, "float", args, {"default"});
  require_defined(runtime, subject);
  if (subject.is_number()) return Value::of(subject.as_real());
  if (subject.is_string()) {
    if (const auto parsed = parse_real(subject.bytes())) return Value::of(*parsed);
  }
  return params.value_or(0, Value::of(0.0));
}

Value filter_int(Runtime& runtime, const Value& subject, const CallArgs& args) {
  const Params params(runtime, "int", args, {"default", "base"});
  const int64_t base = params.integer_or(1, 10);
  const Value fallback = params.value_or(0, Value::of(int64_t{0}));
  require_defined(runtime, subject);
  if (subject.is_integral()) return Value::of(subject.as_integer());
  if (subject.is(Kind::real)) {
    if (std::isnan(subject.real)) return fallback;
    return Value::of(truncate_real(runtime, subject.real));
  }
  if (!subject.is_string()) return fallback;
  int64_t out = 0;
  runtime.work(subject.bytes().size());
  const int clipped = base < 0 || base > 36 ? 1 : static_cast<int>(base);
  switch (parse_integer(subject.bytes(), clipped, out)) {
    case ParsedInteger::ok:
      return Value::of(out);
    case ParsedInteger::too_large:
      runtime.fail("integer overflow: the result needs more than 64 bits");
    case ParsedInteger::malformed:
      break;
  }
  const auto real = parse_real(subject.bytes());
  if (!real || std::isnan(*real)) return fallback;
  return Value::of(truncate_real(runtime, *real));
}

// round() of an integer to tens, hundreds, ...: half to even.
int64_t round_integer(Runtime& runtime, int64_t value, int64_t digits) {
  if (digits >= 0) return value;
  if (digits < -19) return 0;
  __int128 unit = 1;
  for (int64_t i = digits; i < 0; ++i) unit *= 10;
  const __int128 magnitude = value < 0 ? -static_cast<__int128>(value) : value;
  __int128 units = magnitude / unit;
  const __int128 rest = magnitude % unit;
  if (rest * 2 > unit || (rest * 2 == unit && units % 2 == 1)) ++units;
  const __int128 rounded = value < 0 ? -(units * unit) : units * unit;
  if (rounded > INT64_MAX || rounded < INT64_MIN) {
    runtime.fail("integer overflow: the result needs more than 64 bits");
  }
  return static_cast<int64_t>(rounded);
}

Value filter_round(Runtime& runtime, const Value& subject, const CallArgs& args) {
  const Params params(runtime, "round", args, {"precision", "method"});
  require_defined(runtime, subject);
  std::string_view method = "common";
  if (params.given(1)) method = params.string(1).text.bytes();
  if (method != "common" && method != "ceil" && method != "floor") {
    runtime.fail("method must be common, ceil or floor");
  }
  if (!subject.is_number()) {
    runtime.fail("type {} doesn't define __round__ method", type_name(subject));
  }
  if (method == "common") {
    if (params.given(0) && params[0].is_none()) {
      // round(x, none) gives an integer.
      if (subject.is_integral()) return Value::of(subject.as_integer());
      return Value::of(truncate_real(runtime, round_real(subject.real, 0)));
    }
    const int64_t precision = params.integer_or(0, 0);
    if (subject.is_integral()) {
      return Value::of(round_integer(runtime, subject.as_integer(), precision));
    }
    return Value::of(round_real(subject.real, precision));
  }
  const Value scale =
      binary(runtime, BinaryOp::pow, Value::of(int64_t{10}), Value::of(params.integer_or(0, 0)));
  const Value scaled = binary(runtime, BinaryOp::mul, subject, scale);
  Value whole = scaled;
  if (scaled.is(Kind::real)) {
    whole = Value::of(truncate_real(
        runtime, method == "ceil" ? std::ceil(scaled.real) : std::floor(scaled.real)));
  }
  return binary(runtime, BinaryOp::div, whole, scale);
}

Value filter_sum(Runtime& runtime, const Value& subject, const CallArgs& args) {
  const Params params(runtime, "sum", args, {"attribute", "start"});
  Value total = params.value_or(1, Value::of(int64_t{0}));
  if (total.is_string()) runtime.fail("sum() can't sum strings [use ''.join(seq) instead]");
  const AttributePath path(runtime, params[0]);
  Iterator* iterator = iterate(runtime, subject);
  Value item;
  while (iterator->next(runtime, item)) {
    total = binary(runtime, BinaryOp::add, total, path.get(item));
  }
  return total;
}

Value filter_filesizeformat(Runtime& runtime, const Value& subject, const CallArgs& args) {
  const Params params(runtime, "filesizeformat", args, {"binary"});
  require_defined(runtime, subject);
  const bool in_binary = params.truth_or(0, false);
  std::optional<double> bytes;
  if (subject.is_number()) bytes = subject.as_real();
  if (subject.is_string()) bytes = parse_real(subject.bytes());
  if (!bytes) runtime.fail("could not convert '{}' to float", type_name(subject));
  const double base = in_binary ? 1024 : 1000;
  if (*bytes == 1) return runtime.text("1 Byte", true);
  if (*bytes < base) {
    return runtime.text(fmt::format("{} Bytes", truncate_real(runtime, *bytes)), true);
  }
  static constexpr std::string_view k_prefixes = "kMGTPEZY";
  double unit = base;
  size_t index = 0;
  do {
    unit *= base;
    ++index;
  } while (index < k_prefixes.size() && *bytes >= unit);
  std::string text = format_real(runtime, base * *bytes / unit, 'f', 1, {}) + " ";
  const char prefix = k_prefixes[index - 1];
  text += in_binary && prefix == 'k' ? 'K' : prefix;
  text += in_binary ? "iB" : "B";
  return runtime.text(std::move(text), true);
}

}  // namespace

const FilterDef k_number_filters[] = {
    {"abs", filter_abs},     {"filesizeformat", filter_filesizeformat},
    {"float", filter_float}, {"int", filter_int},
    {"round", filter_round}, {"sum", filter_sum},
    {nullptr, nullptr},
};

}  // namespace strata::text::jinja
