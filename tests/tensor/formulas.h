// A second implementation of every block format: one element at a time, in double, straight from
// the published formulas.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "tensor/types.h"

namespace strata::test {

struct Bytes {
  const uint8_t* at;
  unsigned operator[](size_t i) const { return at[i]; }
  unsigned u16(size_t i) const { return at[i] | static_cast<unsigned>(at[i + 1]) << 8; }
  int i8(size_t i) const { return at[i] < 128 ? at[i] : at[i] - 256; }
  double f16(size_t i) const {
    const unsigned bits = u16(i);
    const int exponent = static_cast<int>(bits >> 10 & 31);
    const int fraction = static_cast<int>(bits & 1023);
    const double sign = (bits >> 15) != 0 ? -1 : 1;
    if (exponent == 31) return fraction != 0 ? NAN : sign * HUGE_VAL;
    return sign *
           (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(fraction + 1024, exponent - 25));
  }
  // Quant of element `e` of a 32-block in split order whose quants begin at `from`.
  int split(size_t from, size_t e) const {
    return static_cast<int>(e < 16 ? at[from + e] & 15 : at[from + e - 16] >> 4);
  }
  int bit(size_t from, size_t index) const { return at[from + index / 8] >> (index % 8) & 1; }
};

inline constexpr double k_iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                            1,    13,   25,  38,  53,  69,  89,  113};

inline double mxfp4_value(int q) {
  // 1 sign, 2 exponent, 1 fraction bits, bias 1.
  const int exponent = q >> 1 & 3;
  const int fraction = q & 1;
  const double magnitude =
      exponent == 0 ? fraction * 0.5 : std::ldexp(1 + fraction * 0.5, exponent - 1);
  return (q & 8) != 0 ? -magnitude : magnitude;
}

// Scale (first) or minimum of sub-block `s` in the twelve bytes of Q4_K and Q5_K.
inline int k_scale(const Bytes& b, size_t from, size_t s, bool minimum) {
  if (s < 4) return static_cast<int>(b[from + s + (minimum ? 4 : 0)] & 63);
  if (!minimum) return static_cast<int>((b[from + s + 4] & 15) | (b[from + s - 4] >> 6) << 4);
  return static_cast<int>((b[from + s + 4] >> 4) | (b[from + s] >> 6) << 4);
}

// Value of element `e` of the block at `src`.
inline double element_value(ElementType type, const uint8_t* src, size_t e) {
  const Bytes b{src};
  const size_t n = e / 128;
  const size_t j = e % 128 / 32;
  const size_t l = e % 32;
  const size_t s16 = e / 16;
  const size_t s32 = e / 32;
  switch (type) {
    case ElementType::q4_0:
      return b.f16(0) * (b.split(2, e) - 8);
    case ElementType::q4_1:
      return b.f16(0) * b.split(4, e) + b.f16(2);
    case ElementType::q5_0:
      return b.f16(0) * (b.split(6, e) + 16 * b.bit(2, e) - 16);
    case ElementType::q5_1:
      return b.f16(0) * (b.split(8, e) + 16 * b.bit(4, e)) + b.f16(2);
    case ElementType::q8_0:
      return b.f16(0) * b.i8(2 + e);
    case ElementType::q2_k: {
      const int q = static_cast<int>(b[16 + 32 * n + l] >> (2 * j) & 3);
      return b.f16(80) * (b[s16] & 15) * q - b.f16(82) * (b[s16] >> 4);
    }
    case ElementType::q3_k: {
      const int low = static_cast<int>(b[32 + 32 * n + l] >> (2 * j) & 3);
      const int q = low - ((b[l] >> (4 * n + j) & 1) != 0 ? 0 : 4);
      const unsigned scale_low = s16 < 8 ? b[96 + s16] & 15 : b[96 + s16 - 8] >> 4;
      const unsigned scale_high = b[96 + 8 + s16 % 4] >> (2 * (s16 / 4)) & 3;
      return b.f16(108) * (static_cast<int>(scale_low + 16 * scale_high) - 32) * q;
    }
    case ElementType::q4_k: {
      const unsigned byte = b[16 + 32 * (s32 / 2) + l];
      const int q = static_cast<int>(s32 % 2 == 0 ? byte & 15 : byte >> 4);
      return b.f16(0) * k_scale(b, 4, s32, false) * q - b.f16(2) * k_scale(b, 4, s32, true);
    }
    case ElementType::q5_k: {
      const unsigned byte = b[48 + 32 * (s32 / 2) + l];
      const int low = static_cast<int>(s32 % 2 == 0 ? byte & 15 : byte >> 4);
      const int q = low + 16 * static_cast<int>(b[16 + l] >> s32 & 1);
      return b.f16(0) * k_scale(b, 4, s32, false) * q - b.f16(2) * k_scale(b, 4, s32, true);
    }
    case ElementType::q6_k: {
      const unsigned byte = b[64 * n + 32 * (j & 1) + l];
      const unsigned low = j < 2 ? byte & 15 : byte >> 4;
      const unsigned up = b[128 + 32 * n + l] >> (2 * j) & 3;
      return b.f16(208) * b.i8(192 + s16) * (static_cast<int>(low | up << 4) - 32);
    }
    case ElementType::iq4_nl:
      return b.f16(0) * k_iq4_values[b.split(2, e)];
    case ElementType::iq4_xs: {
      const unsigned low = b[4 + s32 / 2] >> (4 * (s32 % 2)) & 15;
      const unsigned high = b.u16(2) >> (2 * s32) & 3;
      return b.f16(0) * (static_cast<int>(low | high << 4) - 32) *
             k_iq4_values[b.split(8 + 16 * s32, l)];
    }
    case ElementType::mxfp4:
      if (b[0] == 255) return NAN;
      return std::ldexp(mxfp4_value(b.split(1, e)), static_cast<int>(b[0]) - 127);
    default:
      throw std::logic_error("not a block format");
  }
}

// Byte offsets of the F16 numbers in a block; -1 for none.
struct ScalePlaces {
  int first = -1;
  int second = -1;
};
inline ScalePlaces scale_places(ElementType type) {
  switch (type) {
    case ElementType::q4_1:
    case ElementType::q5_1:
    case ElementType::q4_k:
    case ElementType::q5_k:
      return {0, 2};
    case ElementType::q2_k:
      return {80, 82};
    case ElementType::q3_k:
      return {108, -1};
    case ElementType::q6_k:
      return {208, -1};
    case ElementType::mxfp4:
      return {};
    default:
      return {0, -1};
  }
}

}  // namespace strata::test
