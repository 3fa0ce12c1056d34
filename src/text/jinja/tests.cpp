// The tests a template can name after `is`.
#include <algorithm>
#include <iterator>

#include "text/jinja/args.h"
#include "text/jinja/filters.h"
#include "text/jinja/operators.h"
#include "text/jinja/str.h"
#include "text/jinja/unicode.h"

namespace strata::text::jinja {
namespace {

// A test without arguments.
template <bool (*Holds)(const Value&)>
bool plain(Runtime& runtime, const Value& subject, const CallArgs& args) {
  const Params params(runtime, "the test", args, {});
  return Holds(subject);
}

bool is_defined(const Value& value) { return !value.is_undefined(); }
bool is_undefined(const Value& value) { return value.is_undefined(); }
bool is_none(const Value& value) { return value.is_none(); }
bool is_boolean(const Value& value) { return value.is(Kind::boolean); }
bool is_true(const Value& value) { return value.is(Kind::boolean) && value.boolean; }
bool is_false(const Value& value) { return value.is(Kind::boolean) && !value.boolean; }
bool is_integer(const Value& value) { return value.is(Kind::integer); }
bool is_real(const Value& value) { return value.is(Kind::real); }
bool is_number(const Value& value) { return value.is_number(); }
bool is_string(const Value& value) { return value.is_string(); }
bool is_mapping(const Value& value) { return value.is(Kind::dict); }
bool is_escaped(const Value& value) { return value.is_markup(); }

// What has a length and items.
bool is_sequence(const Value& value) {
  switch (value.kind) {
    case Kind::undefined:
    case Kind::string:
    case Kind::list:
    case Kind::tuple:
    case Kind::dict:
    case Kind::range:
      return true;
    default:
      return false;
  }
}

// Every cased character has the wanted case, and there is one.
bool cased_as(Runtime& runtime, const Value& subject, bool (*wanted)(uint32_t)) {
  const Text text = to_text(runtime, subject);
  runtime.work(text.size() * 4);
  bool any = false;
  size_t length = 0;
  for (size_t at = 0; at < text.size(); at += length) {
    const uint32_t c = code_point_at(text.bytes(), at, length);
    if (!is_cased(c)) continue;
    if (!wanted(c)) return false;
    any = true;
  }
  return any;
}

bool test_lower(Runtime& runtime, const Value& subject, const CallArgs& args) {
  const Params params(runtime, "lower", args, {});
  return cased_as(runtime, subject, is_lower);
}

bool test_upper(Runtime& runtime, const Value& subject, const CallArgs& args) {
  const Params params(runtime, "upper", args, {});
  return cased_as(runtime, subject, is_upper);
}

bool rest_equals(Runtime& runtime, const Value& subject, const Value& divisor, int64_t wanted) {
  const Value rest = binary(runtime, BinaryOp::mod, subject, divisor);
  return equal(runtime, rest, Value::of(wanted));
}

bool test_odd(Runtime& runtime, const Value& subject, const CallArgs& args) {
  const Params params(runtime, "odd", args, {});
  return rest_equals(runtime, subject, Value::of(int64_t{2}), 1);
}

bool test_even(Runtime& runtime, const Value& subject, const CallArgs& args) {
  const Params params(runtime, "even", args, {});
  return rest_equals(runtime, subject, Value::of(int64_t{2}), 0);
}

bool test_divisibleby(Runtime& runtime, const Value& subject, const CallArgs& args) {
  const Params params(runtime, "divisibleby", args, {"num"}, 1);
  return rest_equals(runtime, subject, params[0], 0);
}

bool test_sameas(Runtime& runtime, const Value& subject, const CallArgs& args) {
  const Params params(runtime, "sameas", args, {"other"}, 1);
  const Value& other = params[0];
  if (subject.kind != other.kind) return false;
  switch (subject.kind) {
    case Kind::undefined:
    case Kind::none:
    case Kind::boolean:
    case Kind::integer:
    case Kind::real:
    case Kind::string:
      return equal(runtime, subject, other);
    default:
      return subject.object == other.object;
  }
}

bool test_filter(Runtime& runtime, const Value& subject, const CallArgs& args) {
  const Params params(runtime, "filter", args, {});
  require_hashable(runtime, subject);
  return subject.is_string() && find_filter(subject.bytes()) != nullptr;
}

bool test_test(Runtime& runtime, const Value& subject, const CallArgs& args) {
  const Params params(runtime, "test", args, {});
  require_hashable(runtime, subject);
  return subject.is_string() && find_test(subject.bytes()) != nullptr;
}

template <CompareOp Op>
bool test_compare(Runtime& runtime, const Value& subject, const CallArgs& args) {
  const Params params(runtime, "the test", args, {""}, 1);
  return compare(runtime, Op, subject, params[0]);
}

bool test_in(Runtime& runtime, const Value& subject, const CallArgs& args) {
  const Params params(runtime, "in", args, {"seq"}, 1);
  return contains(runtime, params[0], subject);
}

// Sorted by name.
constexpr TestDef k_tests[] = {
    {"!=", test_compare<CompareOp::ne>},
    {"<", test_compare<CompareOp::lt>},
    {"<=", test_compare<CompareOp::le>},
    {"==", test_compare<CompareOp::eq>},
    {">", test_compare<CompareOp::gt>},
    {">=", test_compare<CompareOp::ge>},
    {"boolean", plain<is_boolean>},
    {"callable", plain<is_callable>},
    {"defined", plain<is_defined>},
    {"divisibleby", test_divisibleby},
    {"eq", test_compare<CompareOp::eq>},
    {"equalto", test_compare<CompareOp::eq>},
    {"escaped", plain<is_escaped>},
    {"even", test_even},
    {"false", plain<is_false>},
    {"filter", test_filter},
    {"float", plain<is_real>},
    {"ge", test_compare<CompareOp::ge>},
    {"greaterthan", test_compare<CompareOp::gt>},
    {"gt", test_compare<CompareOp::gt>},
    {"in", test_in},
    {"integer", plain<is_integer>},
    {"iterable", plain<can_iterate>},
    {"le", test_compare<CompareOp::le>},
    {"lessthan", test_compare<CompareOp::lt>},
    {"lower", test_lower},
    {"lt", test_compare<CompareOp::lt>},
    {"mapping", plain<is_mapping>},
    {"ne", test_compare<CompareOp::ne>},
    {"none", plain<is_none>},
    {"number", plain<is_number>},
    {"odd", test_odd},
    {"sameas", test_sameas},
    {"sequence", plain<is_sequence>},
    {"string", plain<is_string>},
    {"test", test_test},
    {"true", plain<is_true>},
    {"undefined", plain<is_undefined>},
    {"upper", test_upper},
};

}  // namespace

const TestDef* find_test(std::string_view name) {
  const auto* found = std::lower_bound(
      std::begin(k_tests), std::end(k_tests), name,
      [](const TestDef& def, std::string_view v) { return std::string_view(def.name) < v; });
  return found != std::end(k_tests) && name == found->name ? found : nullptr;
}

}  // namespace strata::text::jinja
