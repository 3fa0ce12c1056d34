// Iterators made of functions, and those of the built-in types.
#pragma once

#include <utility>

#include "text/jinja/runtime.h"

namespace strata::text::jinja {

// An iterator that calls F(runtime, out) -> bool for every item.
template <class F>
struct FunctionIterator final : Iterator {
  explicit FunctionIterator(F function) : step(std::move(function)) {}
  bool next(Runtime& runtime, Value& out) override {
    runtime.step();
    return step(runtime, out);
  }
  F step;
};

template <class F>
Iterator* make_iterator(Runtime& runtime, F step) {
  return runtime.make<FunctionIterator<F>>(0, std::move(step));
}

// The iterator of `source`, to be consumed by another iterator: fails when too many are stacked.
struct Stacked {
  Iterator* iterator;
  uint32_t depth;
};
Stacked stack_on(Runtime& runtime, const Value& source);

}  // namespace strata::text::jinja
