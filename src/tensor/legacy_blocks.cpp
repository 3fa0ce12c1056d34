// Blocks of 32 elements with one scale, and one minimum where the name ends in 1. Four-bit quants
// lie in split order: byte j holds element j in its low half and element j + 16 in its high half.
#include "tensor/blocks.h"

namespace strata::blocks {
namespace {

constexpr size_t k_elems = 32;
constexpr size_t k_half = k_elems / 2;

}  // namespace

void dequantize_q4_0(const uint8_t* src, float* dst, size_t blocks) {
  for (size_t b = 0; b < blocks; ++b, src += 18, dst += k_elems) {
    const float d = load_f16(src);
    const uint8_t* qs = src + 2;
    for (size_t j = 0; j < k_half; ++j) {
      dst[j] = d * static_cast<float>((qs[j] & 15) - 8);
      dst[j + k_half] = d * static_cast<float>((qs[j] >> 4) - 8);
    }
  }
}

void dequantize_q4_1(const uint8_t* src, float* dst, size_t blocks) {
  for (size_t b = 0; b < blocks; ++b, src += 20, dst += k_elems) {
    const float d = load_f16(src);
    const float m = load_f16(src + 2);
    const uint8_t* qs = src + 4;
    for (size_t j = 0; j < k_half; ++j) {
      dst[j] = d * static_cast<float>(qs[j] & 15) + m;
      dst[j + k_half] = d * static_cast<float>(qs[j] >> 4) + m;
    }
  }
}

void dequantize_q5_0(const uint8_t* src, float* dst, size_t blocks) {
  for (size_t b = 0; b < blocks; ++b, src += 22, dst += k_elems) {
    const float d = load_f16(src);
    const uint32_t qh = load_u32(src + 2);
    const uint8_t* qs = src + 6;
    for (size_t j = 0; j < k_half; ++j) {
      const int low = (qs[j] & 15) | static_cast<int>(qh >> j & 1) << 4;
      const int high = (qs[j] >> 4) | static_cast<int>(qh >> (j + k_half) & 1) << 4;
      dst[j] = d * static_cast<float>(low - 16);
      dst[j + k_half] = d * static_cast<float>(high - 16);
    }
  }
}

void dequantize_q5_1(const uint8_t* src, float* dst, size_t blocks) {
  for (size_t b = 0; b < blocks; ++b, src += 24, dst += k_elems) {
    const float d = load_f16(src);
    const float m = load_f16(src + 2);
    const uint32_t qh = load_u32(src + 4);
    const uint8_t* qs = src + 8;
    for (size_t j = 0; j < k_half; ++j) {
      const int low = (qs[j] & 15) | static_cast<int>(qh >> j & 1) << 4;
      const int high = (qs[j] >> 4) | static_cast<int>(qh >> (j + k_half) & 1) << 4;
      dst[j] = d * static_cast<float>(low) + m;
      dst[j + k_half] = d * static_cast<float>(high) + m;
    }
  }
}

void dequantize_q8_0(const uint8_t* src, float* dst, size_t blocks) {
  for (size_t b = 0; b < blocks; ++b, src += 34, dst += k_elems) {
    const float d = load_f16(src);
    for (size_t j = 0; j < k_elems; ++j) {
      dst[j] = d * static_cast<float>(static_cast<int8_t>(src[2 + j]));
    }
  }
}

}  // namespace strata::blocks
