// 16-bit reals: IEEE binary16 (1 sign, 5 exponent, 10 fraction bits) and bfloat16.
#include <bit>

#include "tensor/types.h"

namespace strata {

float f16_to_f32(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 0x1Fu;
  const uint32_t fraction = half & 0x3FFu;
  if (exponent == 0x1F) {
    const uint32_t quiet = fraction != 0 ? 0x00400000u : 0;
    return std::bit_cast<float>(sign | 0x7F800000u | quiet | fraction << 13);
  }
  if (exponent == 0) {
    // Zero or subnormal: the fraction counts units of 2^-24, exactly.
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | (exponent + (127 - 15)) << 23 | fraction << 13);
}

uint16_t f32_to_f16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000u;
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) {
    return static_cast<uint16_t>(sign | 0x7E00u | (magnitude >> 13 & 0x3FFu));
  }
  // 65520, halfway between the largest value and the next power, rounds to infinity.
  if (magnitude >= 0x477FF000u) return static_cast<uint16_t>(sign | 0x7C00u);
  uint32_t dropped_bits = 13;
  uint32_t kept = magnitude;
  uint32_t base = 0;
  if (magnitude >= 0x38800000u) {
    base = ((magnitude >> 23) - (127 - 15)) << 10;
    kept &= 0x007FFFFFu;
  } else {
    // Below 2^-14: a subnormal that counts units of 2^-24. The full significand is shifted down.
    const uint32_t exponent = magnitude >> 23;
    if (exponent < 102) return static_cast<uint16_t>(sign);  // below half a unit
    kept = (magnitude & 0x007FFFFFu) | 0x00800000u;
    dropped_bits = 126 - exponent;
  }
  const uint32_t half_unit = 1u << (dropped_bits - 1);
  const uint32_t dropped = kept & ((half_unit << 1) - 1);
  uint32_t out = base + (kept >> dropped_bits);
  // A carry out of the fraction runs into the exponent, which is the right next value.
  if (dropped > half_unit || (dropped == half_unit && (out & 1) != 0)) ++out;
  return static_cast<uint16_t>(sign | out);
}

uint16_t f32_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<uint16_t>(bits >> 16 | 0x40u);
  return static_cast<uint16_t>((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

}  // namespace strata
