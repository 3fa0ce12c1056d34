// Small formulas that several reference ops share, in double.
//
// Threads: pure functions.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "device/host_context.h"
#include "device/ops.h"

namespace strata::device::reference {

inline double activate(Activation kind, double x) {
  if (kind == Activation::silu) return x / (1.0 + std::exp(-x));
  // 0.5 x (1 + tanh u), written as x / (1 + e^(-2u)) so that nothing cancels for negative x.
  constexpr double root_two_over_pi = 0.79788456080286535588;
  return x / (1.0 + std::exp(-2.0 * root_two_over_pi * (x + 0.044715 * x * x * x)));
}

// Row `row` of a weight as F32.
inline std::vector<float> weight_row(const HostContext& context, WeightId id, uint64_t row) {
  const WeightSpec& spec = context.spec(id);
  std::vector<float> out(spec.dims[0]);
  dequantize(spec.type, context.weight(id) + row * row_bytes(spec.type, spec.dims[0]), out.data(),
             out.size());
  return out;
}

template <class A, class B>
double dot(const A* a, const B* b, uint64_t n) {
  double sum = 0;
  for (uint64_t i = 0; i < n; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

}  // namespace strata::device::reference
