// Rows of the cache as F32 vectors, and back: one struct per element type, with
//   bytes(n)               bytes of n elements from a row's beginning, n a multiple of the block
//   load(row, d)           elements [d, d + k_lanes); d is a multiple of k_lanes
//   load_part(row, d, n)   the first n of them, zeros beyond
//   store_row(from, to, n) a row, bit for bit as the tensor room's quantize() writes it
#pragma once

#include "device/cpu/simd/formats.h"

namespace strata::device::cpu {
namespace {

template <class F>
struct PlainCache {
  using Element = typename F::Element;

  static size_t bytes(size_t n) { return n * sizeof(Element); }
  static V load(const std::byte* row, size_t d) {
    return F::load(reinterpret_cast<const Element*>(row) + d);
  }
  static V load_part(const std::byte* row, size_t d, size_t n) {
    return F::load_part(reinterpret_cast<const Element*>(row) + d, n);
  }
  static void store_row(const float* from, std::byte* to, size_t n) {
    auto* out = reinterpret_cast<Element*>(to);
    for (size_t i = 0; i < n; i += k_lanes) {
      const size_t count = smaller(k_lanes, n - i);
      const V v = count == k_lanes ? cpu::load(from + i) : cpu::load_part(from + i, count);
      F::store_part(out + i, v, count);
    }
  }
};

constexpr size_t k_cache_block = 32;

// Scale of a block: as F16, and what values are multiplied by to get quants. A scale that F16
// rounds to zero makes everything zero; the largest F16 is the largest scale.
inline float store_scale(uint8_t* to, float d) {
  uint16_t half;
  store_f16_part(&half, set1(d), 1);
  if ((half & 0x7FFF) == 0) half = 0;
  __builtin_memcpy(to, &half, sizeof half);
  if (half == 0) return 0;
  constexpr float most = 65504;
  return 1.0f / (d > most ? most : d < -most ? -most : d);
}

// The element of largest magnitude, the first of equals; NaN when some element is not finite.
inline float extreme(const float* x) {
  float out = 0;
  float nothing = 0;
  for (size_t i = 0; i < k_cache_block; ++i) {
    nothing += x[i] * 0.0f;
    if (__builtin_fabsf(x[i]) > __builtin_fabsf(out)) out = x[i];
  }
  return out + nothing;
}

constexpr uint16_t k_half_nan = 0x7E00;
// A block whose values are no numbers: the fault stays visible.
inline void store_nothing(uint8_t* block, int quants, size_t n) {
  __builtin_memcpy(block, &k_half_nan, sizeof k_half_nan);
  __builtin_memset(block + 2, quants, n);
}

struct Q8Cache {
  static size_t bytes(size_t n) { return n / k_cache_block * 34; }
  static V load(const std::byte* row, size_t d) {
    const uint8_t* block = as_bytes(row) + bytes(d);
    return mul(widen_lanes(block + 2 + d % k_cache_block), set1(half_at(block)));
  }
  static V load_part(const std::byte* row, size_t d, size_t) { return load(row, d); }
  static void store_row(const float* from, std::byte* to, size_t n) {
    auto* block = reinterpret_cast<uint8_t*>(to);
    for (size_t i = 0; i < n; i += k_cache_block, block += 34) {
      const float* x = from + i;
      const float most = extreme(x);
      if (most != most) {
        store_nothing(block, 0, 32);
        continue;
      }
      const float inverse = store_scale(block, __builtin_fabsf(most) / 127.0f);
      for (size_t j = 0; j < k_cache_block; ++j) {
        // To nearest, halves away from zero. A scale at F16's end may leave more than 127.
        const float v = x[j] * inverse;
        const float y = v > 127.0f ? 127.0f : v < -127.0f ? -127.0f : v;
        const auto whole = static_cast<int32_t>(y);
        const float rest = y - static_cast<float>(whole);
        block[2 + j] = static_cast<uint8_t>(whole + (rest >= 0.5f) - (rest <= -0.5f));
      }
    }
  }
};

struct Q4Cache {
  static size_t bytes(size_t n) { return n / k_cache_block * 18; }
  static V load(const std::byte* row, size_t d) {
    const uint8_t* block = as_bytes(row) + bytes(d);
    const unsigned shift = d % 32 < 16 ? 0 : 4;
    return mul(widen_nibbles(block + 2 + d % 16, shift), set1(half_at(block)));
  }
  static V load_part(const std::byte* row, size_t d, size_t) { return load(row, d); }
  static void store_row(const float* from, std::byte* to, size_t n) {
    auto* block = reinterpret_cast<uint8_t*>(to);
    for (size_t i = 0; i < n; i += k_cache_block, block += 18) {
      const float* x = from + i;
      const float most = extreme(x);
      if (most != most) {
        store_nothing(block, 0x88, 16);
        continue;
      }
      const float inverse = store_scale(block, most / -8.0f);
      const auto quant = [=](float v) {
        const float y = v * inverse + 8.5f;
        return static_cast<int32_t>(y > 15.0f ? 15.0f : y < 0.0f ? 0.0f : y);
      };
      for (size_t j = 0; j < 16; ++j) {
        block[2 + j] = static_cast<uint8_t>(quant(x[j]) | quant(x[j + 16]) << 4);
      }
    }
  }
};

}  // namespace
}  // namespace strata::device::cpu
