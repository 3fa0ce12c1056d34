// Blocks of 256 elements: sub-blocks of 16 or 32 whose small integer scales (and minima) are
// multiplied by one F16 scale (and one F16 minimum) per block.
#include "tensor/blocks.h"

namespace strata::blocks {
namespace {

constexpr size_t k_elems = 256;

// Scale and minimum, 6 bits each, of sub-block `s` (0 to 7) out of the 12 bytes that Q4_K and Q5_K
// share: the first four lie in the low bits, the last four are put together from two places.
struct ScaleMin {
  float scale;
  float min;
};
ScaleMin scale_min(const uint8_t* packed, size_t s) {
  int scale = 0;
  int min = 0;
  if (s < 4) {
    scale = packed[s] & 63;
    min = packed[s + 4] & 63;
  } else {
    scale = (packed[s + 4] & 15) | (packed[s - 4] >> 6) << 4;
    min = (packed[s + 4] >> 4) | (packed[s] >> 6) << 4;
  }
  return {static_cast<float>(scale), static_cast<float>(min)};
}

}  // namespace

void dequantize_q2_k(const uint8_t* src, float* dst, size_t blocks) {
  for (size_t b = 0; b < blocks; ++b, src += 84) {
    const uint8_t* scales = src;
    const uint8_t* qs = src + 16;
    const float d = load_f16(src + 80);
    const float dmin = load_f16(src + 82);
    for (size_t s = 0; s < k_elems / 16; ++s) {
      const float scale = d * static_cast<float>(scales[s] & 15);
      const float min = dmin * static_cast<float>(scales[s] >> 4);
      // 128 elements share 32 bytes, two bits of each per run of 32.
      const uint8_t* bytes = qs + 32 * (s / 8) + 16 * (s % 2);
      const size_t shift = 2 * (s % 8 / 2);
      for (size_t l = 0; l < 16; ++l) {
        *dst++ = scale * static_cast<float>(bytes[l] >> shift & 3) - min;
      }
    }
  }
}

void dequantize_q3_k(const uint8_t* src, float* dst, size_t blocks) {
  for (size_t b = 0; b < blocks; ++b, src += 110) {
    const uint8_t* hmask = src;
    const uint8_t* qs = src + 32;
    const uint8_t* packed = src + 96;
    const float d = load_f16(src + 108);
    for (size_t s = 0; s < k_elems / 16; ++s) {
      const int low = s < 8 ? packed[s] & 15 : packed[s - 8] >> 4;
      const int high = packed[8 + s % 4] >> (2 * (s / 4)) & 3;
      const float scale = d * static_cast<float>((low | high << 4) - 32);
      const uint8_t* bytes = qs + 32 * (s / 8) + 16 * (s % 2);
      const uint8_t* high_bits = hmask + 16 * (s % 2);
      const size_t shift = 2 * (s % 8 / 2);
      const size_t high_shift = s / 2;
      for (size_t l = 0; l < 16; ++l) {
        const int q = (bytes[l] >> shift & 3) - ((high_bits[l] >> high_shift & 1) != 0 ? 0 : 4);
        *dst++ = scale * static_cast<float>(q);
      }
    }
  }
}

void dequantize_q4_k(const uint8_t* src, float* dst, size_t blocks) {
  for (size_t b = 0; b < blocks; ++b, src += 144) {
    const float d = load_f16(src);
    const float dmin = load_f16(src + 2);
    const uint8_t* qs = src + 16;
    for (size_t s = 0; s < k_elems / 32; ++s) {
      const ScaleMin packed = scale_min(src + 4, s);
      const float scale = d * packed.scale;
      const float min = dmin * packed.min;
      const uint8_t* bytes = qs + 32 * (s / 2);
      const size_t shift = 4 * (s % 2);
      for (size_t l = 0; l < 32; ++l) {
        *dst++ = scale * static_cast<float>(bytes[l] >> shift & 15) - min;
      }
    }
  }
}

void dequantize_q5_k(const uint8_t* src, float* dst, size_t blocks) {
  for (size_t b = 0; b < blocks; ++b, src += 176) {
    const float d = load_f16(src);
    const float dmin = load_f16(src + 2);
    const uint8_t* qh = src + 16;
    const uint8_t* qs = src + 48;
    for (size_t s = 0; s < k_elems / 32; ++s) {
      const ScaleMin packed = scale_min(src + 4, s);
      const float scale = d * packed.scale;
      const float min = dmin * packed.min;
      const uint8_t* bytes = qs + 32 * (s / 2);
      const size_t shift = 4 * (s % 2);
      for (size_t l = 0; l < 32; ++l) {
        const int q = (bytes[l] >> shift & 15) | (qh[l] >> s & 1) << 4;
        *dst++ = scale * static_cast<float>(q) - min;
      }
    }
  }
}

void dequantize_q6_k(const uint8_t* src, float* dst, size_t blocks) {
  for (size_t b = 0; b < blocks; ++b, src += 210) {
    const uint8_t* ql = src;
    const uint8_t* qh = src + 128;
    const uint8_t* scales = src + 192;
    const float d = load_f16(src + 208);
    for (size_t s = 0; s < k_elems / 16; ++s) {
      const float scale = d * static_cast<float>(static_cast<int8_t>(scales[s]));
      const size_t run = s % 8 / 2;  // of 32 elements in the half block
      const uint8_t* low_bits = ql + 64 * (s / 8) + 32 * (run % 2) + 16 * (s % 2);
      const uint8_t* high_bits = qh + 32 * (s / 8) + 16 * (s % 2);
      const size_t shift = run < 2 ? 0 : 4;
      for (size_t l = 0; l < 16; ++l) {
        const int q = (low_bits[l] >> shift & 15) | (high_bits[l] >> (2 * run) & 3) << 4;
        *dst++ = scale * static_cast<float>(q - 32);
      }
    }
  }
}

}  // namespace strata::blocks
