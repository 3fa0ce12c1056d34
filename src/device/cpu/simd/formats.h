// The plain element types: how their bytes become F32 vectors, and back. Types of blocks are in
// packed_formats.h (weights) and cache_formats.h.
#pragma once

#include "device/cpu/simd/vec.h"

namespace strata::device::cpu {
namespace {

inline const uint8_t* as_bytes(const std::byte* p) { return reinterpret_cast<const uint8_t*>(p); }
inline size_t smaller(size_t a, size_t b) { return a < b ? a : b; }
inline float half_at(const uint8_t* p) {
  uint16_t h;
  __builtin_memcpy(&h, p, sizeof h);
  return half_to_float(h);
}

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
