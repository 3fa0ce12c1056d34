// Vector wrapper: four lanes of the compiler's portable vectors, for any processor.
//
// Purpose: the vocabulary that the kernels are written in. Each instruction set has a header with
// the same names (vec_avx2.h, vec_avx512.h); this one is the plainest and says what they mean.
// Everything has internal linkage: the same names are compiled with other flags elsewhere.
// `_part` functions touch the first n elements only (0 < n <= k_lanes) and read zeros beyond.
// Threads: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strata::device::cpu {
namespace {

constexpr size_t k_lanes = 4;
// Register block of the strip kernel: rows x tokens of accumulators.
constexpr size_t k_block_rows = 4;
constexpr size_t k_block_tokens = 2;

typedef float V __attribute__((vector_size(16)));
typedef int32_t I __attribute__((vector_size(16)));

inline V from_bits(I i) {
  V v;
  __builtin_memcpy(&v, &i, sizeof v);
  return v;
}
inline I to_bits(V v) {
  I i;
  __builtin_memcpy(&i, &v, sizeof i);
  return i;
}
inline I iset1(int32_t x) { return I{x, x, x, x}; }

// Holds a value in a register: loading it anew for every use would cost more than the arithmetic.
inline void keep(V&) {}
inline V zero() { return V{}; }
inline V set1(float x) { return V{x, x, x, x}; }
inline V load(const float* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
inline V load_part(const float* p, size_t n) {
  V v{};
  __builtin_memcpy(&v, p, n * sizeof(float));
  return v;
}
inline void store(float* p, V v) { __builtin_memcpy(p, &v, sizeof v); }
inline void store_part(float* p, V v, size_t n) { __builtin_memcpy(p, &v, n * sizeof(float)); }
inline V add(V a, V b) { return a + b; }
inline V sub(V a, V b) { return a - b; }
inline V mul(V a, V b) { return a * b; }
inline V div(V a, V b) { return a / b; }
// a * b + c, rounded once where the processor can.
inline V fma(V a, V b, V c) { return a * b + c; }
// a < b ? yes : no, lane by lane; false when unordered.
inline V select_less(V a, V b, V yes, V no) {
  const I less = a < b;
  return from_bits((to_bits(yes) & less) | (to_bits(no) & ~less));
}
// The second operand when unordered: what is not a number passes through from there.
inline V max(V a, V b) { return select_less(b, a, a, b); }
inline V min(V a, V b) { return select_less(a, b, a, b); }
inline V abs(V a) { return from_bits(to_bits(a) & iset1(0x7FFFFFFF)); }
inline V copy_sign(V magnitude, V sign) {
  return from_bits(to_bits(magnitude) | (to_bits(sign) & iset1(INT32_MIN)));
}
// x * 2^n, n whole and |n| <= 250. In two steps, so that results may be subnormal and 2^n itself
// need not be a number of the type.
inline V scale_pow2(V x, V n) {
  const I whole = __builtin_convertvector(n, I);
  const I half = whole >> 1;
  const V a = from_bits((half + iset1(127)) << 23);
  const V b = from_bits((whole - half + iset1(127)) << 23);
  return x * a * b;
}

// The sum of the lanes in a fixed order; four at once give the same bits as one.
inline float sum(V a) { return (a[0] + a[2]) + (a[1] + a[3]); }
inline void store_sum4(float* p, V a, V b, V c, V d) {
  p[0] = sum(a);
  p[1] = sum(b);
  p[2] = sum(c);
  p[3] = sum(d);
}
inline void add_sum4(float* p, V a, V b, V c, V d) {
  p[0] += sum(a);
  p[1] += sum(b);
  p[2] += sum(c);
  p[3] += sum(d);
}
inline float max_lane(V a) {
  float top = a[0];
  for (size_t i = 1; i < k_lanes; ++i) top = top > a[i] ? top : a[i];
  return top;
}

// Sum of squares in double, lanes by index.
struct Squares {
  double lane[4] = {0, 0, 0, 0};
};
inline void add_squares(Squares& s, V v) {
  for (size_t i = 0; i < k_lanes; ++i) {
    s.lane[i] += static_cast<double>(v[i]) * static_cast<double>(v[i]);
  }
}
inline double total(const Squares& s) { return (s.lane[0] + s.lane[2]) + (s.lane[1] + s.lane[3]); }

inline float bits_to_float(uint32_t bits) {
  float f;
  __builtin_memcpy(&f, &bits, sizeof f);
  return f;
}
inline uint32_t float_to_bits(float f) {
  uint32_t bits;
  __builtin_memcpy(&bits, &f, sizeof bits);
  return bits;
}

inline float half_to_float(uint16_t h) {
  const uint32_t sign = (h & 0x8000u) << 16;
  const uint32_t magnitude = (h & 0x7FFFu) << 13;
  if (magnitude >= 0x0F800000u) return bits_to_float(sign | 0x70000000u | magnitude);
  return bits_to_float(sign | float_to_bits(bits_to_float(magnitude) * 0x1p112f));
}
// To nearest even; too large becomes infinite, a NaN stays one.
inline uint16_t float_to_half(float f) {
  const uint32_t bits = float_to_bits(f);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) {
    return static_cast<uint16_t>(sign | 0x7E00u | ((magnitude >> 13) & 0x3FFu));
  }
  if (magnitude >= 0x477FF000u) return static_cast<uint16_t>(sign | 0x7C00u);
  if (magnitude < 0x38800000u) {
    // Subnormal: the addition rounds at the place of the last bit.
    const float rounded = bits_to_float(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (float_to_bits(rounded) - 0x3F000000u));
  }
  const uint32_t rounded = magnitude + 0x0FFFu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}
inline uint16_t float_to_bfloat(float f) {
  const uint32_t bits = float_to_bits(f);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

inline V load_f16_part(const uint16_t* p, size_t n) {
  V v{};
  for (size_t i = 0; i < n; ++i) {
    uint16_t h;
    __builtin_memcpy(&h, p + i, sizeof h);
    v[i] = half_to_float(h);
  }
  return v;
}
inline V load_bf16_part(const uint16_t* p, size_t n) {
  V v{};
  for (size_t i = 0; i < n; ++i) {
    uint16_t h;
    __builtin_memcpy(&h, p + i, sizeof h);
    v[i] = bits_to_float(static_cast<uint32_t>(h) << 16);
  }
  return v;
}
inline V load_f16(const uint16_t* p) { return load_f16_part(p, k_lanes); }
inline V load_bf16(const uint16_t* p) { return load_bf16_part(p, k_lanes); }
// Finite values stay finite: what is too large becomes the largest value of the type.
inline V saturate(V v, float largest) {
  const V bounded = min(set1(largest), max(set1(-largest), v));
  return select_less(abs(v), set1(__builtin_inff()), bounded, v);
}
inline void store_f16_part(uint16_t* p, V v, size_t n) {
  v = saturate(v, 65504.0f);
  for (size_t i = 0; i < n; ++i) p[i] = float_to_half(v[i]);
}
inline void store_bf16_part(uint16_t* p, V v, size_t n) {
  v = saturate(v, 0x1.FEp127f);
  for (size_t i = 0; i < n; ++i) p[i] = float_to_bfloat(v[i]);
}

// k_lanes signed bytes; k_lanes nibbles (shift 0: the low ones, 4: the high ones) less 8.
inline V widen_lanes(const uint8_t* p) {
  V v;
  for (size_t i = 0; i < k_lanes; ++i) v[i] = static_cast<float>(static_cast<int8_t>(p[i]));
  return v;
}
inline V widen_nibbles(const uint8_t* p, unsigned shift) {
  V v;
  for (size_t i = 0; i < k_lanes; ++i) v[i] = static_cast<float>(((p[i] >> shift) & 15) - 8);
  return v;
}

inline void prefetch(const void* p) { __builtin_prefetch(p); }
inline void prefetch_second(const void* p) { __builtin_prefetch(p, 0, 2); }

}  // namespace
}  // namespace strata::device::cpu
