// exp, tanh and the activations, lane by lane: the same function for a vector and for its tail.
#pragma once

#include "device/cpu/simd/vec.h"

namespace strata::device::cpu {
namespace {

// e^x within one unit in the last place or so. Overflow gives infinity, underflow passes through
// the subnormals to zero, NaN stays NaN. Reduction by ln 2 in two parts whose first is short
// enough for n * ln2_high to be exact; Taylor polynomial of degree 7 on |r| <= ln(2) / 2, whose
// error is below 6e-9.
inline V exp(V x) {
  const V clamped = min(set1(90.0f), max(set1(-105.0f), x));
  const V magic = set1(0x1.8p23f);  // adding it rounds to a whole number
  const V n = sub(add(mul(clamped, set1(1.44269504f)), magic), magic);
  V r = fma(n, set1(-0.693359375f), clamped);
  r = fma(n, set1(2.12194440e-4f), r);
  V p = set1(1.0f / 5040);
  p = fma(p, r, set1(1.0f / 720));
  p = fma(p, r, set1(1.0f / 120));
  p = fma(p, r, set1(1.0f / 24));
  p = fma(p, r, set1(1.0f / 6));
  p = fma(p, r, set1(0.5f));
  // 1 + (r + r^2 p): the last rounding is then nearly the only one.
  p = add(set1(1.0f), fma(mul(r, r), p, r));
  return scale_pow2(p, n);
}

// tanh x: near zero by its odd series (Cephes' coefficients for |x| < 0.625), else from exp.
inline V tanh(V x) {
  const V a = abs(x);
  const V z = mul(a, a);
  V p = set1(-5.70498872745e-3f);
  p = fma(p, z, set1(2.06390887954e-2f));
  p = fma(p, z, set1(-5.37397155531e-2f));
  p = fma(p, z, set1(1.33314422036e-1f));
  p = fma(p, z, set1(-3.33332819422e-1f));
  const V small = fma(mul(p, z), a, a);
  const V big = sub(set1(1.0f), div(set1(2.0f), add(exp(add(a, a)), set1(1.0f))));
  return copy_sign(select_less(a, set1(0.625f), small, big), x);
}

// scale / (1 + e^(-x)), from e^(-|x|): it never overflows, and keeps the small results far below
// zero.
inline V logistic(V x, V scale) {
  const V e = exp(sub(zero(), abs(x)));
  return div(mul(scale, select_less(x, zero(), e, set1(1.0f))), add(set1(1.0f), e));
}

inline V sigmoid(V x) { return logistic(x, set1(1.0f)); }

inline V silu(V x) { return logistic(x, x); }

// 0.5 x (1 + tanh u) = x / (1 + e^(-2u)), u = sqrt(2 / pi) (x + 0.044715 x^3).
inline V gelu_tanh(V x) {
  const V cubic = fma(mul(set1(0.044715f), mul(x, x)), x, x);
  return logistic(mul(set1(2 * 0.7978845608f), cubic), x);
}

}  // namespace
}  // namespace strata::device::cpu
