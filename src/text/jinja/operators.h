// Python's operators over template values.
//
// Errors: Failure where Python raises (wrong types, division by zero) and where an integer would
// leave 64 bits.
#pragma once

#include "text/jinja/runtime.h"

namespace strata::text::jinja {

enum class BinaryOp : uint8_t { add, sub, mul, div, floor_div, mod, pow };
enum class CompareOp : uint8_t { eq, ne, lt, le, gt, ge, in, not_in };

bool truth(const Value& value);
// Exact, also between integers and reals. Not for not-a-number.
int compare_numbers(const Value& a, const Value& b);
bool equal(Runtime& runtime, const Value& a, const Value& b);
// a < b and the like; fails for types that have no order.
bool ordered(Runtime& runtime, CompareOp op, const Value& a, const Value& b);
inline bool less(Runtime& runtime, const Value& a, const Value& b) {
  return ordered(runtime, CompareOp::lt, a, b);
}
bool contains(Runtime& runtime, const Value& container, const Value& item);
bool compare(Runtime& runtime, CompareOp op, const Value& a, const Value& b);
Value binary(Runtime& runtime, BinaryOp op, const Value& a, const Value& b);
Value negate(Runtime& runtime, const Value& value);
Value positive(Runtime& runtime, const Value& value);

// Whether the value can be the key of a dict. Costs what looking it up will.
bool is_hashable(Runtime& runtime, const Value& value);
void require_hashable(Runtime& runtime, const Value& value);

// len(): fails where Python has none. find_length() says so instead.
int64_t length_of(Runtime& runtime, const Value& value);
bool find_length(const Value& value, int64_t& length);

// iter(): fails for what cannot be walked. can_iterate() says so instead.
Iterator* iterate(Runtime& runtime, const Value& value);
bool can_iterate(const Value& value);
// All items. A list gives a copy.
std::vector<Value> items_of(Runtime& runtime, const Value& value);
// reversed(): nullptr where Python has none.
Iterator* iterate_reversed(Runtime& runtime, const Value& value);

// An integer argument; booleans count. Fails with `what` in the message.
int64_t require_integer(Runtime& runtime, const Value& value, const char* what);

[[noreturn]] void fail_undefined(Runtime& runtime, const Value& value);
inline void require_defined(Runtime& runtime, const Value& value) {
  if (value.is_undefined()) fail_undefined(runtime, value);
}

}  // namespace strata::text::jinja
