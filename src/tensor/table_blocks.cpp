// Blocks whose four-bit quants index a table of values; quants lie in split order, as in the
// legacy formats.
#include <bit>

#include "tensor/blocks.h"

namespace strata::blocks {
namespace {

// The values of IQ4_NL and IQ4_XS, denser near zero.
constexpr float k_nonlinear[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                   1,    13,   25,  38,  53,  69,  89,  113};

// E2M1: 1 sign, 2 exponent, 1 fraction bits.
constexpr float k_e2m1[16] = {0,     0.5f,  1,  1.5f,  2,  3,  4,  6,
                              -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

void dequantize_run(const uint8_t* qs, const float (&table)[16], float scale, float* dst) {
  for (size_t j = 0; j < 16; ++j) {
    dst[j] = scale * table[qs[j] & 15];
    dst[j + 16] = scale * table[qs[j] >> 4];
  }
}

// 2^(e - 127) of an exponent byte (E8M0). 2^-127 is subnormal; 255 stands for NaN.
float exponent_value(uint8_t e) {
  if (e == 0) return 0x1p-127f;
  if (e == 255) return std::bit_cast<float>(0x7FC00000u);
  return std::bit_cast<float>(static_cast<uint32_t>(e) << 23);
}

}  // namespace

void dequantize_iq4_nl(const uint8_t* src, float* dst, size_t blocks) {
  for (size_t b = 0; b < blocks; ++b, src += 18, dst += 32) {
    dequantize_run(src + 2, k_nonlinear, load_f16(src), dst);
  }
}

void dequantize_iq4_xs(const uint8_t* src, float* dst, size_t blocks) {
  for (size_t b = 0; b < blocks; ++b, src += 136) {
    const float d = load_f16(src);
    const uint16_t scales_high = load_u16(src + 2);
    const uint8_t* scales_low = src + 4;
    const uint8_t* qs = src + 8;
    for (size_t s = 0; s < 8; ++s, dst += 32) {
      const int low = scales_low[s / 2] >> (4 * (s % 2)) & 15;
      const int high = scales_high >> (2 * s) & 3;
      const float scale = d * static_cast<float>((low | high << 4) - 32);
      dequantize_run(qs + 16 * s, k_nonlinear, scale, dst);
    }
  }
}

void dequantize_mxfp4(const uint8_t* src, float* dst, size_t blocks) {
  for (size_t b = 0; b < blocks; ++b, src += 17, dst += 32) {
    dequantize_run(src + 1, k_e2m1, exponent_value(src[0]), dst);
  }
}

}  // namespace strata::blocks
