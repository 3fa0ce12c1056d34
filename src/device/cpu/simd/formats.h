// The block formats: how each element type's bytes become F32 vectors.
//
// A format is a struct with
//   k_elems, k_bytes      elements and bytes of a block
//   Scales                what a block's groups share
//   scales(block, s)      fills it
//   group(block, s, g, v) elements [32 g, 32 g + 32) of the block in ascending order
// Every value is the format's real value rounded once, so it equals the reference's: products of
// scales and quants fit F32's 24 bits, or are the last operation.
// Layouts: see tensor/types.h's source.
#pragma once

#include "device/cpu/simd/vec.h"

namespace strata::device::cpu {
namespace {

constexpr size_t k_group = 32;
constexpr size_t k_vectors = k_group / k_lanes;

inline const uint8_t* as_bytes(const std::byte* p) { return reinterpret_cast<const uint8_t*>(p); }
inline size_t smaller(size_t a, size_t b) { return a < b ? a : b; }
inline float half_at(const uint8_t* p) {
  uint16_t h;
  __builtin_memcpy(&h, p, sizeof h);
  return half_to_float(h);
}
inline uint32_t u32_at(const uint8_t* p) {
  uint32_t x;
  __builtin_memcpy(&x, p, sizeof x);
  return x;
}

inline uint64_t u64_at(const uint8_t* p) {
  uint64_t x;
  __builtin_memcpy(&x, p, sizeof x);
  return x;
}
inline uint64_t pair(uint32_t low, uint32_t high) {
  return low | static_cast<uint64_t>(high) << 32;
}
// Eight bytes below 64, each less 32, as signed bytes.
inline uint64_t less_32(uint64_t bytes) {
  constexpr uint64_t each = 0x0101010101010101u;
  return (bytes + (128 - 32) * each) ^ (128 * each);
}

// v = d * q
inline void scaled(B q, float d, V* v) {
  bytes_widen(q, v);
  for (size_t i = 0; i < k_vectors; ++i) v[i] = mul(v[i], set1(d));
}
// v = d * q + m
inline void scaled(B q, float d, float m, V* v) {
  bytes_widen(q, v);
  for (size_t i = 0; i < k_vectors; ++i) v[i] = fma(v[i], set1(d), set1(m));
}
// The halves of the group have their own scale.
inline void scaled_halves(B q, const float* d, V* v) {
  bytes_widen(q, v);
  for (size_t i = 0; i < k_vectors; ++i) v[i] = mul(v[i], set1(d[i / (k_vectors / 2)]));
}
inline void scaled_halves(B q, const float* d, const float* m, V* v) {
  bytes_widen(q, v);
  for (size_t i = 0; i < k_vectors; ++i) {
    v[i] = fma(v[i], set1(d[i / (k_vectors / 2)]), set1(m[i / (k_vectors / 2)]));
  }
}

struct OneScale {
  float d;
};
struct ScaleAndOffset {
  float d;
  float m;
};

struct Q4_0 {
  static constexpr size_t k_elems = 32, k_bytes = 18;
  using Scales = OneScale;
  static void scales(const uint8_t* b, Scales& s) { s.d = half_at(b); }
  static void group(const uint8_t* b, const Scales& s, size_t, V* v) {
    scaled(bytes_sub(bytes_and(bytes_split(b + 2), bytes_set1(15)), bytes_set1(8)), s.d, v);
  }
};

struct Q4_1 {
  static constexpr size_t k_elems = 32, k_bytes = 20;
  using Scales = ScaleAndOffset;
  static void scales(const uint8_t* b, Scales& s) { s = {half_at(b), half_at(b + 2)}; }
  static void group(const uint8_t* b, const Scales& s, size_t, V* v) {
    scaled(bytes_and(bytes_split(b + 4), bytes_set1(15)), s.d, s.m, v);
  }
};

struct Q5_0 {
  static constexpr size_t k_elems = 32, k_bytes = 22;
  using Scales = OneScale;
  static void scales(const uint8_t* b, Scales& s) { s.d = half_at(b); }
  static void group(const uint8_t* b, const Scales& s, size_t, V* v) {
    const B low = bytes_and(bytes_split(b + 6), bytes_set1(15));
    const B q = bytes_or(low, bytes_from_bits(u32_at(b + 2), 16));
    scaled(bytes_sub(q, bytes_set1(16)), s.d, v);
  }
};

struct Q5_1 {
  static constexpr size_t k_elems = 32, k_bytes = 24;
  using Scales = ScaleAndOffset;
  static void scales(const uint8_t* b, Scales& s) { s = {half_at(b), half_at(b + 2)}; }
  static void group(const uint8_t* b, const Scales& s, size_t, V* v) {
    const B low = bytes_and(bytes_split(b + 8), bytes_set1(15));
    scaled(bytes_or(low, bytes_from_bits(u32_at(b + 4), 16)), s.d, s.m, v);
  }
};

struct Q8_0 {
  static constexpr size_t k_elems = 32, k_bytes = 34;
  using Scales = OneScale;
  static void scales(const uint8_t* b, Scales& s) { s.d = half_at(b); }
  static void group(const uint8_t* b, const Scales& s, size_t, V* v) {
    scaled(bytes_load(b + 2), s.d, v);
  }
};

alignas(16) constexpr int8_t k_iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                 1,    13,   25,  38,  53,  69,  89,  113};
// Twice the values of MXFP4, to be whole.
alignas(16) constexpr int8_t k_mxfp4_values[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                                   0, -1, -2, -3, -4, -6, -8, -12};

struct Iq4Nl {
  static constexpr size_t k_elems = 32, k_bytes = 18;
  using Scales = OneScale;
  static void scales(const uint8_t* b, Scales& s) { s.d = half_at(b); }
  static void group(const uint8_t* b, const Scales& s, size_t, V* v) {
    const B index = bytes_and(bytes_split(b + 2), bytes_set1(15));
    scaled(bytes_lookup(k_iq4_values, index), s.d, v);
  }
};

struct Mxfp4 {
  static constexpr size_t k_elems = 32, k_bytes = 17;
  using Scales = OneScale;
  // 2^(e - 128): half of the format's scale, for the doubled values. Below e = 2 a subnormal; 255
  // stands for NaN.
  static void scales(const uint8_t* b, Scales& s) {
    const uint32_t e = b[0];
    const uint32_t bits = e == 255 ? 0x7FC00000u : e < 2 ? 0x00200000u << e : (e - 1) << 23;
    __builtin_memcpy(&s.d, &bits, sizeof bits);
  }
  static void group(const uint8_t* b, const Scales& s, size_t, V* v) {
    const B index = bytes_and(bytes_split(b + 1), bytes_set1(15));
    scaled(bytes_lookup(k_mxfp4_values, index), s.d, v);
  }
};

// Scales of 16 or 8 groups, widened.
struct ManyScales {
  float d[16];
};
struct ManyScalesAndOffsets {
  float d[16];
  float m[16];
};

struct Q2K {
  static constexpr size_t k_elems = 256, k_bytes = 84;
  using Scales = ManyScalesAndOffsets;
  static void scales(const uint8_t* b, Scales& s) {
    constexpr uint64_t nibbles = 0x0F0F0F0F0F0F0F0Fu;
    const uint64_t low = u64_at(b), high = u64_at(b + 8);
    widen_bytes(low & nibbles, high & nibbles, half_at(b + 80), s.d);
    widen_bytes((low >> 4) & nibbles, (high >> 4) & nibbles, -half_at(b + 82), s.m);
  }
  static void group(const uint8_t* b, const Scales& s, size_t g, V* v) {
    const B raw = bytes_load(b + 16 + g / 4 * 32);
    const B q = bytes_and(bytes_shr(raw, static_cast<unsigned>(g % 4 * 2)), bytes_set1(3));
    scaled_halves(q, s.d + 2 * g, s.m + 2 * g, v);
  }
};

struct Q3K {
  static constexpr size_t k_elems = 256, k_bytes = 110;
  using Scales = ManyScales;
  static void scales(const uint8_t* b, Scales& s) {
    const uint32_t a0 = u32_at(b + 96), a1 = u32_at(b + 100), top = u32_at(b + 104);
    constexpr uint32_t low = 0x0F0F0F0Fu, high = 0x30303030u;
    const uint64_t first = pair((a0 & low) | ((top << 4) & high), (a1 & low) | ((top << 2) & high));
    const uint64_t second =
        pair(((a0 >> 4) & low) | (top & high), ((a1 >> 4) & low) | ((top >> 2) & high));
    widen_bytes(less_32(first), less_32(second), half_at(b + 108), s.d);
  }
  static void group(const uint8_t* b, const Scales& s, size_t g, V* v) {
    const B raw = bytes_load(b + 32 + g / 4 * 32);
    const B low = bytes_and(bytes_shr(raw, static_cast<unsigned>(g % 4 * 2)), bytes_set1(3));
    const B bit = bytes_and(bytes_shr(bytes_load(b), static_cast<unsigned>(g)), bytes_set1(1));
    const B q = bytes_or(low, bytes_shl(bit, 2));
    scaled_halves(bytes_sub(q, bytes_set1(4)), s.d + 2 * g, v);
  }
};

// The packed 6-bit scales and offsets of Q4_K and Q5_K.
inline void k_scales(const uint8_t* b, ManyScalesAndOffsets& s) {
  const uint32_t x = u32_at(b + 4), y = u32_at(b + 8), z = u32_at(b + 12);
  const uint64_t d = pair(x & 0x3F3F3F3Fu, (z & 0x0F0F0F0Fu) | ((x >> 2) & 0x30303030u));
  const uint64_t m = pair(y & 0x3F3F3F3Fu, ((z >> 4) & 0x0F0F0F0Fu) | ((y >> 2) & 0x30303030u));
  widen_bytes(d, half_at(b), s.d);
  widen_bytes(m, -half_at(b + 2), s.m);
}

struct Q4K {
  static constexpr size_t k_elems = 256, k_bytes = 144;
  using Scales = ManyScalesAndOffsets;
  static void scales(const uint8_t* b, Scales& s) { k_scales(b, s); }
  static void group(const uint8_t* b, const Scales& s, size_t g, V* v) {
    const B raw = bytes_load(b + 16 + g / 2 * 32);
    const B q = bytes_and(bytes_shr(raw, static_cast<unsigned>(g % 2 * 4)), bytes_set1(15));
    scaled(q, s.d[g], s.m[g], v);
  }
};

struct Q5K {
  static constexpr size_t k_elems = 256, k_bytes = 176;
  using Scales = ManyScalesAndOffsets;
  static void scales(const uint8_t* b, Scales& s) { k_scales(b, s); }
  static void group(const uint8_t* b, const Scales& s, size_t g, V* v) {
    const B raw = bytes_load(b + 48 + g / 2 * 32);
    const B low = bytes_and(bytes_shr(raw, static_cast<unsigned>(g % 2 * 4)), bytes_set1(15));
    const B bit = bytes_and(bytes_shr(bytes_load(b + 16), static_cast<unsigned>(g)), bytes_set1(1));
    scaled(bytes_or(low, bytes_shl(bit, 4)), s.d[g], s.m[g], v);
  }
};

struct Q6K {
  static constexpr size_t k_elems = 256, k_bytes = 210;
  using Scales = ManyScales;
  static void scales(const uint8_t* b, Scales& s) {
    widen_bytes(u64_at(b + 192), u64_at(b + 200), half_at(b + 208), s.d);
  }
  static void group(const uint8_t* b, const Scales& s, size_t g, V* v) {
    const size_t n = g / 4, j = g % 4;
    const B raw = bytes_load(b + 64 * n + 32 * (j & 1));
    const B low = bytes_and(bytes_shr(raw, j < 2 ? 0 : 4), bytes_set1(15));
    const B top = bytes_shr(bytes_load(b + 128 + 32 * n), static_cast<unsigned>(2 * j));
    const B q = bytes_or(low, bytes_shl(bytes_and(top, bytes_set1(3)), 4));
    scaled_halves(bytes_sub(q, bytes_set1(32)), s.d + 2 * g, v);
  }
};

struct Iq4Xs {
  static constexpr size_t k_elems = 256, k_bytes = 136;
  using Scales = ManyScales;
  static void scales(const uint8_t* b, Scales& s) {
    // Four bytes of two nibbles, two bytes of eight pairs of bits: one byte for each.
    uint64_t low = u32_at(b + 4);
    low = (low | low << 16) & 0x0000FFFF0000FFFFu;
    low = (low | low << 8) & 0x00FF00FF00FF00FFu;
    low = (low | low << 4) & 0x0F0F0F0F0F0F0F0Fu;
    uint64_t high = u32_at(b) >> 16;
    high = (high | high << 24) & 0x000000FF000000FFu;
    high = (high | high << 12) & 0x000F000F000F000Fu;
    high = (high | high << 6) & 0x0303030303030303u;
    widen_bytes(less_32(low | high << 4), half_at(b), s.d);
  }
  static void group(const uint8_t* b, const Scales& s, size_t g, V* v) {
    const B index = bytes_and(bytes_split(b + 8 + 16 * g), bytes_set1(15));
    scaled(bytes_lookup(k_iq4_values, index), s.d[g], v);
  }
};

// Plain types: one element per block, no groups; read through the wrapper's loads.
struct F32 {
  using Element = float;
  static V load(const float* p) { return cpu::load(p); }
  static V load_part(const float* p, size_t n) { return cpu::load_part(p, n); }
  static void store_part(float* p, V v, size_t n) { cpu::store_part(p, v, n); }
};
struct F16 {
  using Element = uint16_t;
  static V load(const uint16_t* p) { return load_f16(p); }
  static V load_part(const uint16_t* p, size_t n) { return load_f16_part(p, n); }
  static void store_part(uint16_t* p, V v, size_t n) { store_f16_part(p, v, n); }
};
struct Bf16 {
  using Element = uint16_t;
  static V load(const uint16_t* p) { return load_bf16(p); }
  static V load_part(const uint16_t* p, size_t n) { return load_bf16_part(p, n); }
  static void store_part(uint16_t* p, V v, size_t n) { store_bf16_part(p, v, n); }
};

}  // namespace
}  // namespace strata::device::cpu
