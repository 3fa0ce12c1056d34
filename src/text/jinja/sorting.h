// Sorting as Python's sorted() does it: stable, and it fails for what has no order.
#pragma once

#include <optional>
#include <vector>

#include "text/jinja/runtime.h"

namespace strata::text::jinja {

struct Keyed {
  std::vector<Value> key;
  Value item;
};

// With `as_lists` the keys are compared as lists, where what is equal needs no order; otherwise
// every key is one value.
void sort_keyed(Runtime& runtime, std::vector<Keyed>& items, bool reverse, bool as_lists = false);
// A string in lower case; anything else itself.
Value ignore_case(Runtime& runtime, const Value& value);

}  // namespace strata::text::jinja
