// Exponential and logarithm that give the same bits wherever they are compiled.
//
// Purpose: C libraries differ in the last bit of exp and log, and a bit is enough to draw another
// token. These use only operations that IEEE 754 fixes (+, -, *, /), in a fixed order.
// Accuracy: within 2 units in the last place (exp), 4 (log).
// Not for: arguments outside what is said below.
// Threads: pure functions.
#pragma once

#include <bit>
#include <cstdint>

namespace strata::text {

inline constexpr double k_ln2_high = 0x1.62e42fefa3800p-1;  // ln 2, its last 11 bits zero
inline constexpr double k_ln2_low = 0x1.ef35793c76730p-45;  // the rest

// exp(x) for x <= 700; results below the smallest normal number are 0.
inline double stable_exp(double x) {
  const double bounded = x > -708.0 ? x : -708.0;
  // x = k ln 2 + r, |r| <= ln 2 / 2. Adding 1.5 * 2^52 rounds to a whole number, which then stands
  // in the low bits.
  constexpr double round = 0x1.8p52;
  const double shifted = bounded * 0x1.71547652b82fep0 + round;
  const double k = shifted - round;
  const double r = (bounded - k * k_ln2_high) - k * k_ln2_low;
  // Taylor series up to r^13 / 13!; what is left out is below 2^-56 of the result.
  double p = 1.0 / 6227020800.0;
  p = p * r + 1.0 / 479001600.0;
  p = p * r + 1.0 / 39916800.0;
  p = p * r + 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  p = p * (r * r) + r + 1.0;
  const double power = std::bit_cast<double>((std::bit_cast<uint64_t>(shifted) + 1023) << 52);
  return x > -708.0 ? p * power : 0.0;
}

// log(x) for normal x > 0.
inline double stable_log(double x) {
  // x = 2^k m with m in [sqrt(1/2), sqrt(2)).
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  int64_t k = static_cast<int64_t>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0x000fffffffffffffu) | 0x3ff0000000000000u);
  if (m > 0x1.6a09e667f3bcdp0) {
    m *= 0.5;
    ++k;
  }
  // log m = 2 atanh(s) = 2 (s + s^3/3 + s^5/5 + ...), s = (m - 1) / (m + 1), |s| < 0.172.
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  double p = 1.0 / 21.0;
  p = p * z + 1.0 / 19.0;
  p = p * z + 1.0 / 17.0;
  p = p * z + 1.0 / 15.0;
  p = p * z + 1.0 / 13.0;
  p = p * z + 1.0 / 11.0;
  p = p * z + 1.0 / 9.0;
  p = p * z + 1.0 / 7.0;
  p = p * z + 1.0 / 5.0;
  p = p * z + 1.0 / 3.0;
  const double tail = 2.0 * s * z * p + static_cast<double>(k) * k_ln2_low;
  return static_cast<double>(k) * k_ln2_high + (2.0 * s + tail);
}

}  // namespace strata::text
