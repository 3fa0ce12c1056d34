// Lines of packed weights: portable. Says what the names of lanes_avx2.h and lanes_avx512.h mean.
//
// A slice is what k_lanes rows have of a panel: k_lanes * 4 bytes of a line, one lane of V for a
// scale. A kernel works on a panel slice by slice.
#pragma once

#include "device/cpu/packed.h"
#include "device/cpu/simd/vec.h"

namespace strata::device::cpu {
namespace {

constexpr size_t k_slices = k_panel_rows / k_lanes;
// Whether dot products want signed weights as they are, or with 128 added.
constexpr bool k_flip_signed = false;

// Tokens whose sums run side by side; whether those of a whole tile stay in registers.
constexpr size_t k_most_beside = 1;
// Integer sums that run at least side by side, if need be by splitting those of a token.
constexpr size_t k_most_chains = 1;
constexpr bool k_sums_in_registers = false;
// Panels and tokens whose sums run together where panels are unpacked; 1: one panel.
constexpr size_t k_square = 1;

struct W {
  uint8_t at[4 * k_lanes];
};

STRATA_INLINE W w_load(const uint8_t* line) {
  W w;
  __builtin_memcpy(w.at, line, sizeof w.at);
  return w;
}
// Holds a line in a register, where there are some.
STRATA_INLINE W w_kept(W w) { return w; }
STRATA_INLINE void w_store(uint8_t* line, W w) { __builtin_memcpy(line, w.at, sizeof w.at); }
// (each byte >> shift) & mask; a negative shift goes left.
template <int shift>
STRATA_INLINE W w_pick(W w, uint8_t mask) {
  for (uint8_t& b : w.at) {
    b = static_cast<uint8_t>((shift >= 0 ? b >> (shift & 7) : b << (-shift & 7)) & mask);
  }
  return w;
}
STRATA_INLINE W w_or(W a, W b) {
  for (size_t i = 0; i < sizeof a.at; ++i) a.at[i] |= b.at[i];
  return a;
}
STRATA_INLINE W w_lookup(const int8_t* table, W index) {
  for (uint8_t& b : index.at) b = static_cast<uint8_t>(table[b & 15]);
  return index;
}
STRATA_INLINE W w_flip(W w) { return w; }

// k_lanes bytes or halves as F32.
STRATA_INLINE V widen_u8(const uint8_t* p) {
  V v;
  for (size_t i = 0; i < k_lanes; ++i) v[i] = static_cast<float>(p[i]);
  return v;
}
STRATA_INLINE V widen_s8(const uint8_t* p) {
  V v;
  for (size_t i = 0; i < k_lanes; ++i) v[i] = static_cast<float>(static_cast<int8_t>(p[i]));
  return v;
}
// 2^(e - 128) for each of k_lanes exponents, subnormal below e = 2; NaN for 255.
STRATA_INLINE V power_u8(const uint8_t* p) {
  V v;
  for (size_t i = 0; i < k_lanes; ++i) {
    const uint32_t e = p[i];
    v[i] = bits_to_float(e == 255 ? 0x7FC00000u : e < 2 ? 0x00200000u << e : (e - 1) << 23);
  }
  return v;
}
STRATA_INLINE V widen_f16(const uint8_t* p) {
  return load_f16(reinterpret_cast<const uint16_t*>(p));
}

// The running 32-bit sums of one token. Lines are added in order 0, 1, ...; `k_most` is the largest
// magnitude of a weight, `k_signed` whether it may be negative.
struct Sums {
  int32_t total[k_lanes] = {};
  // Starts at x << shift; shift < 0: at zero.
  template <int shift>
  STRATA_INLINE void start(const int32_t* x) {
    const auto shifted = static_cast<int32_t>(static_cast<uint32_t>(*x) << (shift & 31));
    for (int32_t& sum : total) sum = shift < 0 ? 0 : shifted;
  }
  template <int k_most, bool k_signed, size_t k_line, size_t k_last>
  STRATA_INLINE void add(W w, const int8_t* x) {
    for (size_t i = 0; i < k_lanes; ++i) {
      for (size_t j = 0; j < 4; ++j) {
        const uint8_t byte = w.at[4 * i + j];
        total[i] += (k_signed ? static_cast<int8_t>(byte) : byte) * x[j];
      }
    }
  }
  void join(const Sums& other) {
    for (size_t i = 0; i < k_lanes; ++i) total[i] += other.total[i];
  }
  STRATA_INLINE V value() const {
    V v{};
    for (size_t i = 0; i < k_lanes; ++i) v[i] = static_cast<float>(total[i]);
    return v;
  }
};

// q[0, 16) = round(x * factor) to nearest even; returns their sum. |x * factor| < 2^22.
STRATA_INLINE int32_t quantize_16(const float* x, float factor, int8_t* q) {
  int32_t total = 0;
  for (size_t i = 0; i < 16; ++i) {
    const float magic = 12582912.0f;
    const float rounded = x[i] * factor + magic;
    const auto level = static_cast<int32_t>(float_to_bits(rounded) - 0x4B400000u);
    q[i] = static_cast<int8_t>(level);
    total += q[i];
  }
  return total;
}

}  // namespace
}  // namespace strata::device::cpu
