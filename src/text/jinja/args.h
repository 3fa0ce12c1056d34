// Binds the arguments of a filter, test, function or method to its parameters.
//
// Errors: Failure for too many, too few, unknown or doubled arguments, as Python has them.
#pragma once

#include <initializer_list>

#include "text/jinja/operators.h"
#include "text/jinja/runtime.h"

namespace strata::text::jinja {

class Params {
 public:
  static constexpr size_t k_max = 6;

  // A parameter with an empty name can only be given by position.
  Params(Runtime& runtime, const char* callee, const CallArgs& args,
         std::initializer_list<const char*> names, size_t required = 0);

  bool given(size_t index) const { return given_[index]; }
  // None when it was not given.
  const Value& operator[](size_t index) const { return values_[index]; }
  bool given_and_not_none(size_t index) const { return given_[index] && !values_[index].is_none(); }
  Value value_or(size_t index, const Value& fallback) const {
    return given_[index] ? values_[index] : fallback;
  }
  bool truth_or(size_t index, bool fallback) const {
    return given_[index] ? truth(values_[index]) : fallback;
  }
  int64_t integer_or(size_t index, int64_t fallback) const;
  int64_t integer(size_t index) const;
  // A string, or a Failure.
  const String& string(size_t index) const;

 private:
  Runtime& runtime_;
  const char* callee_;
  Value values_[k_max];
  bool given_[k_max] = {};
};

}  // namespace strata::text::jinja
