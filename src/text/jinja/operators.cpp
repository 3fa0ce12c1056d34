#include "text/jinja/operators.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "text/jinja/find.h"
#include "text/jinja/format.h"
#include "text/jinja/html.h"
#include "text/jinja/str.h"

namespace strata::text::jinja {
namespace {

const char* symbol(BinaryOp op) {
  switch (op) {
    case BinaryOp::add:
      return "+";
    case BinaryOp::sub:
      return "-";
    case BinaryOp::mul:
      return "*";
    case BinaryOp::div:
      return "/";
    case BinaryOp::floor_div:
      return "//";
    case BinaryOp::mod:
      return "%";
    case BinaryOp::pow:
      return "**";
  }
  return "?";
}

const char* symbol(CompareOp op) {
  switch (op) {
    case CompareOp::lt:
      return "<";
    case CompareOp::le:
      return "<=";
    case CompareOp::gt:
      return ">";
    default:
      return ">=";
  }
}

[[noreturn]] void fail_operands(Runtime& runtime, BinaryOp op, const Value& a, const Value& b) {
  runtime.fail("unsupported operand type(s) for {}: '{}' and '{}'", symbol(op), type_name(a),
               type_name(b));
}

[[noreturn]] void fail_overflow(Runtime& runtime) {
  runtime.fail("integer overflow: the result needs more than 64 bits");
}

bool holds(CompareOp op, int order) {
  switch (op) {
    case CompareOp::lt:
      return order < 0;
    case CompareOp::le:
      return order <= 0;
    case CompareOp::gt:
      return order > 0;
    default:
      return order >= 0;
  }
}

int64_t integer_power(Runtime& runtime, int64_t base, int64_t exponent) {
  int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) {
      fail_overflow(runtime);
    }
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) fail_overflow(runtime);
  }
  return result;
}

// a / b, correctly rounded as Python has it; the operands themselves may not fit in a double.
double true_quotient(int64_t a, int64_t b) {
  constexpr int64_t k_exact = int64_t{1} << 53;
  if (a >= -k_exact && a <= k_exact && b >= -k_exact && b <= k_exact) {
    return static_cast<double>(a) / static_cast<double>(b);
  }
  if (a == 0) return 0.0;
  using Wide = unsigned __int128;
  const auto magnitude = [](int64_t value) {
    return value < 0 ? ~static_cast<uint64_t>(value) + 1 : static_cast<uint64_t>(value);
  };
  // With the highest bit set the quotient has at least 64 of them, so that the lowest one can stand
  // for all that follow.
  const int shift = 64 + __builtin_clzll(magnitude(a));
  const Wide dividend = static_cast<Wide>(magnitude(a)) << shift;
  Wide quotient = dividend / magnitude(b);
  if (dividend % magnitude(b) != 0) quotient |= 1;
  const double out = std::ldexp(static_cast<double>(quotient), -shift);
  return (a < 0) != (b < 0) ? -out : out;
}

Value integer_binary(Runtime& runtime, BinaryOp op, int64_t a, int64_t b) {
  int64_t out = 0;
  switch (op) {
    case BinaryOp::add:
      if (__builtin_add_overflow(a, b, &out)) fail_overflow(runtime);
      return Value::of(out);
    case BinaryOp::sub:
      if (__builtin_sub_overflow(a, b, &out)) fail_overflow(runtime);
      return Value::of(out);
    case BinaryOp::mul:
      if (__builtin_mul_overflow(a, b, &out)) fail_overflow(runtime);
      return Value::of(out);
    case BinaryOp::div:
      if (b == 0) runtime.fail("division by zero");
      return Value::of(true_quotient(a, b));
    case BinaryOp::floor_div:
    case BinaryOp::mod: {
      if (b == 0) runtime.fail("integer division or modulo by zero");
      if (b == -1) {
        // The one quotient that does not fit, and it would trap.
        if (op == BinaryOp::mod) return Value::of(int64_t{0});
        if (__builtin_sub_overflow(int64_t{0}, a, &out)) fail_overflow(runtime);
        return Value::of(out);
      }
      int64_t quotient = a / b;
      int64_t rest = a % b;
      if (rest != 0 && (rest < 0) != (b < 0)) {
        --quotient;
        rest += b;
      }
      return Value::of(op == BinaryOp::mod ? rest : quotient);
    }
    case BinaryOp::pow:
      if (b >= 0) return Value::of(integer_power(runtime, a, b));
      if (a == 0) runtime.fail("0.0 cannot be raised to a negative power");
      return Value::of(std::pow(static_cast<double>(a), static_cast<double>(b)));
  }
  fail_overflow(runtime);
}

Value real_binary(Runtime& runtime, BinaryOp op, double a, double b) {
  switch (op) {
    case BinaryOp::add:
      return Value::of(a + b);
    case BinaryOp::sub:
      return Value::of(a - b);
    case BinaryOp::mul:
      return Value::of(a * b);
    case BinaryOp::div:
      if (b == 0) runtime.fail("float division by zero");
      return Value::of(a / b);
    case BinaryOp::floor_div:
    case BinaryOp::mod: {
      if (b == 0) runtime.fail("float floor division or modulo by zero");
      double rest = std::fmod(a, b);
      double quotient = (a - rest) / b;
      if (rest != 0) {
        if ((rest < 0) != (b < 0)) {
          rest += b;
          quotient -= 1;
        }
      } else {
        rest = std::copysign(0.0, b);
      }
      if (op == BinaryOp::mod) return Value::of(rest);
      if (quotient == 0) return Value::of(std::copysign(0.0, a / b));
      const double floor = std::floor(quotient);
      return Value::of(quotient - floor > 0.5 ? floor + 1 : floor);
    }
    case BinaryOp::pow: {
      if (a == 0 && b < 0) runtime.fail("0.0 cannot be raised to a negative power");
      if (a < 0 && std::isfinite(a) && std::isfinite(b) && b != std::floor(b)) {
        runtime.fail("a negative number cannot be raised to a fractional power");
      }
      const double out = std::pow(a, b);
      if (std::isinf(out) && std::isfinite(a) && std::isfinite(b)) {
        runtime.fail("numerical result out of range");
      }
      return Value::of(out);
    }
  }
  fail_overflow(runtime);
}

Value repeat(Runtime& runtime, const Value& value, int64_t count) {
  const auto times = static_cast<uint64_t>(count > 0 ? count : 0);
  if (value.is_string()) {
    const Text& text = value.string().text;
    uint64_t total = 0;
    if (__builtin_mul_overflow(text.cost(), times, &total)) total = UINT64_MAX;
    runtime.require_bytes(total);
    Text out;
    if (!text.empty()) {
      out.reserve(text.size() * times);
      for (uint64_t i = 0; i < times; ++i) out.append(text);
    }
    return runtime.text(std::move(out), value.is_markup());
  }
  const auto& items = value.list().items;
  uint64_t total = 0;
  if (__builtin_mul_overflow(items.size() * sizeof(Value), times, &total)) total = UINT64_MAX;
  runtime.require_bytes(total);
  std::vector<Value> out;
  if (!items.empty()) {
    out.reserve(items.size() * times);
    for (uint64_t i = 0; i < times; ++i) out.insert(out.end(), items.begin(), items.end());
  }
  return value.is(Kind::list) ? runtime.list(std::move(out)) : runtime.tuple(std::move(out));
}

Value add_strings(Runtime& runtime, const Value& a, const Value& b) {
  const bool markup = a.is_markup() || b.is_markup();
  const Value left = markup ? escape_html(runtime, a) : a;
  const Value right = markup ? escape_html(runtime, b) : b;
  const Text& first = left.string().text;
  const Text& second = right.string().text;
  // Before the copy is made: one doubling too many must not take the memory first.
  runtime.require_bytes(first.cost() + second.cost());
  Text out;
  out.reserve(first.size() + second.size());
  out.append(first);
  out.append(second);
  return runtime.text(std::move(out), markup);
}

bool equal_sequences(Runtime& runtime, const std::vector<Value>& a, const std::vector<Value>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!equal(runtime, a[i], b[i])) return false;
  }
  return true;
}

bool equal_dicts(Runtime& runtime, const Dict& a, const Dict& b) {
  if (a.size() != b.size()) return false;
  for (const Dict::Entry& entry : a.entries()) {
    if (!entry.live) continue;
    const Value* other = b.find(entry.key);
    if (other == nullptr || !equal(runtime, entry.value, *other)) return false;
  }
  return true;
}

bool equal_ranges(const Range& a, const Range& b) {
  if (a.size != b.size) return false;
  return a.size == 0 || (a.start == b.start && (a.size == 1 || a.step == b.step));
}

}  // namespace

bool truth(const Value& value) {
  switch (value.kind) {
    case Kind::undefined:
    case Kind::none:
      return false;
    case Kind::boolean:
      return value.boolean;
    case Kind::integer:
      return value.integer != 0;
    case Kind::real:
      return value.real != 0;
    default: {
      int64_t length = 0;
      return !find_length(value, length) || length != 0;
    }
  }
}

int compare_numbers(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) {
    const int64_t left = a.as_integer();
    const int64_t right = b.as_integer();
    return left < right ? -1 : (left > right ? 1 : 0);
  }
  if (a.kind == Kind::real && b.kind == Kind::real) {
    return a.real < b.real ? -1 : (a.real > b.real ? 1 : 0);
  }
  if (a.kind == Kind::real) return -compare_numbers(b, a);
  // An integer against a real, exactly: a conversion to double could round.
  const int64_t left = a.as_integer();
  const double right = b.real;
  if (right >= 0x1p63) return -1;
  if (right < -0x1p63) return 1;
  const double whole = std::floor(right);
  const auto right_floor = static_cast<int64_t>(whole);
  if (left != right_floor) return left < right_floor ? -1 : 1;
  return right > whole ? -1 : 0;
}

namespace {
bool is_nan(const Value& value) { return value.kind == Kind::real && std::isnan(value.real); }
}  // namespace

bool equal(Runtime& runtime, const Value& a, const Value& b) {
  runtime.step();
  if (a.is_number() && b.is_number()) {
    return !is_nan(a) && !is_nan(b) && compare_numbers(a, b) == 0;
  }
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case Kind::undefined:
    case Kind::none:
      return true;
    case Kind::string:
      if (a.bytes().size() != b.bytes().size()) return false;
      runtime.work(a.bytes().size());
      return a.bytes() == b.bytes();
    case Kind::list:
    case Kind::tuple: {
      if (a.object == b.object) return true;
      const Nested nested(runtime, k_value_weight);
      return equal_sequences(runtime, a.list().items, b.list().items);
    }
    case Kind::dict: {
      if (a.object == b.object) return true;
      const Nested nested(runtime, k_value_weight);
      return equal_dicts(runtime, a.dict(), b.dict());
    }
    case Kind::range:
      return equal_ranges(a.range(), b.range());
    case Kind::view: {
      if (a.object == b.object) return true;
      // Values never equal; keys and items do as sets.
      if (a.view().part != b.view().part || a.view().part == View::Part::values) return false;
      const Nested nested(runtime, k_value_weight);
      if (a.view().part == View::Part::items) {
        return equal_dicts(runtime, *a.view().dict, *b.view().dict);
      }
      if (a.view().dict->size() != b.view().dict->size()) return false;
      for (const Dict::Entry& entry : a.view().dict->entries()) {
        if (entry.live && b.view().dict->find(entry.key) == nullptr) return false;
      }
      return true;
    }
    case Kind::function:
      return a.function == b.function;
    case Kind::method:
      return a.method().method == b.method().method &&
             a.method().self.kind == b.method().self.kind &&
             a.method().self.object == b.method().self.object;
    default:
      return a.object == b.object;
  }
}

bool ordered(Runtime& runtime, CompareOp op, const Value& a, const Value& b) {
  runtime.step();
  require_defined(runtime, a);
  require_defined(runtime, b);
  if (a.is_number() && b.is_number()) {
    return !is_nan(a) && !is_nan(b) && holds(op, compare_numbers(a, b));
  }
  if (a.is_string() && b.is_string()) {
    runtime.work(std::min(a.bytes().size(), b.bytes().size()));
    // UTF-8 sorts as its code points do.
    return holds(op, a.bytes().compare(b.bytes()));
  }
  if (a.is_sequence() && a.kind == b.kind) {
    const Nested nested(runtime, k_value_weight);
    const auto& left = a.list().items;
    const auto& right = b.list().items;
    for (size_t i = 0; i < left.size() && i < right.size(); ++i) {
      if (!equal(runtime, left[i], right[i])) return ordered(runtime, op, left[i], right[i]);
    }
    return holds(op, left.size() < right.size() ? -1 : (left.size() > right.size() ? 1 : 0));
  }
  runtime.fail("'{}' not supported between instances of '{}' and '{}'", symbol(op), type_name(a),
               type_name(b));
}

bool contains(Runtime& runtime, const Value& container, const Value& item) {
  switch (container.kind) {
    case Kind::string:
      if (!item.is_string()) {
        runtime.fail("'in <string>' requires string as left operand, not {}", type_name(item));
      }
      runtime.work(container.bytes().size());
      return find_bytes(container.bytes(), item.bytes(), 0) != std::string::npos;
    case Kind::dict:
      require_hashable(runtime, item);
      return container.dict().find(item) != nullptr;
    case Kind::range: {
      if (!item.is_number()) return false;
      const Range& range = container.range();
      if (range.size == 0 || (item.kind == Kind::real && item.real != std::floor(item.real))) {
        return false;
      }
      const Value first = Value::of(range.start);
      const Value last = Value::of(range.at(range.size - 1));
      const bool up = range.step > 0;
      if (compare_numbers(item, up ? first : last) < 0) return false;
      if (compare_numbers(item, up ? last : first) > 0) return false;
      const int64_t number =
          item.kind == Kind::real ? static_cast<int64_t>(item.real) : item.as_integer();
      int64_t index = 0;
      return range.find(number, index);
    }
    case Kind::view:
      if (container.view().part == View::Part::keys) {
        require_hashable(runtime, item);
        return container.view().dict->find(item) != nullptr;
      }
      [[fallthrough]];
    default: {
      // Identity counts as equality: not-a-number is in a list that holds it.
      const auto matches = [&](const Value& candidate) {
        return (is_nan(candidate) && is_nan(item)) || equal(runtime, candidate, item);
      };
      if (container.is_sequence()) {
        const auto& items = container.list().items;
        return std::any_of(items.begin(), items.end(), matches);
      }
      if (!can_iterate(container)) {
        runtime.fail("argument of type '{}' is not iterable", type_name(container));
      }
      Iterator* iterator = iterate(runtime, container);
      Value candidate;
      while (iterator->next(runtime, candidate)) {
        if (matches(candidate)) return true;
      }
      return false;
    }
  }
}

bool compare(Runtime& runtime, CompareOp op, const Value& a, const Value& b) {
  switch (op) {
    case CompareOp::eq:
      return equal(runtime, a, b);
    case CompareOp::ne:
      return !equal(runtime, a, b);
    case CompareOp::in:
      return contains(runtime, b, a);
    case CompareOp::not_in:
      return !contains(runtime, b, a);
    default:
      return ordered(runtime, op, a, b);
  }
}

Value binary(Runtime& runtime, BinaryOp op, const Value& a, const Value& b) {
  // A format string takes an undefined value as an argument, as str() does.
  if (op == BinaryOp::mod && a.is_string()) return format_percent(runtime, a, b);
  require_defined(runtime, a);
  require_defined(runtime, b);
  if (a.is_integral() && b.is_integral()) {
    return integer_binary(runtime, op, a.as_integer(), b.as_integer());
  }
  if (a.is_number() && b.is_number()) return real_binary(runtime, op, a.as_real(), b.as_real());
  if (op == BinaryOp::add) {
    if (a.is_string() && b.is_string()) return add_strings(runtime, a, b);
    if (a.is_sequence() && a.kind == b.kind) {
      const auto& first = a.list().items;
      const auto& second = b.list().items;
      runtime.require_bytes((first.size() + second.size()) * sizeof(Value));
      std::vector<Value> items;
      items.reserve(first.size() + second.size());
      items.insert(items.end(), first.begin(), first.end());
      items.insert(items.end(), second.begin(), second.end());
      return a.is(Kind::list) ? runtime.list(std::move(items)) : runtime.tuple(std::move(items));
    }
    if (a.is_string()) {
      runtime.fail("can only concatenate str (not \"{}\") to str", type_name(b));
    }
  }
  if (op == BinaryOp::mul) {
    const bool left = a.is_string() || a.is_sequence();
    const bool right = b.is_string() || b.is_sequence();
    if (left && b.is_integral()) return repeat(runtime, a, b.as_integer());
    if (right && a.is_integral()) return repeat(runtime, b, a.as_integer());
  }
  fail_operands(runtime, op, a, b);
}

Value negate(Runtime& runtime, const Value& value) {
  require_defined(runtime, value);
  if (value.is_integral()) return integer_binary(runtime, BinaryOp::sub, 0, value.as_integer());
  if (value.kind == Kind::real) return Value::of(-value.real);
  runtime.fail("bad operand type for unary -: '{}'", type_name(value));
}

Value positive(Runtime& runtime, const Value& value) {
  require_defined(runtime, value);
  if (value.is_integral()) return Value::of(value.as_integer());
  if (value.kind == Kind::real) return value;
  runtime.fail("bad operand type for unary +: '{}'", type_name(value));
}

bool is_hashable(Runtime& runtime, const Value& value) {
  switch (value.kind) {
    case Kind::list:
    case Kind::dict:
    case Kind::view:
      return false;
    case Kind::string:
      // What follows compares the key with a few others.
      runtime.work(value.bytes().size() * 8);
      return true;
    case Kind::tuple: {
      const Nested nested(runtime, k_value_weight);
      for (const Value& item : value.list().items) {
        runtime.step();
        if (!is_hashable(runtime, item)) return false;
      }
      return true;
    }
    default:
      return true;
  }
}

void require_hashable(Runtime& runtime, const Value& value) {
  if (!is_hashable(runtime, value)) runtime.fail("unhashable type: '{}'", type_name(value));
}

int64_t require_integer(Runtime& runtime, const Value& value, const char* what) {
  require_defined(runtime, value);
  if (!value.is_integral()) {
    runtime.fail("{}: expected an integer, found '{}'", what, type_name(value));
  }
  return value.as_integer();
}

void fail_undefined(Runtime& runtime, const Value& value) {
  runtime.fail("{}", undefined_message(value));
}

}  // namespace strata::text::jinja
