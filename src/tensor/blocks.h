// Internal to the tensor room: one dequantiser per block format.
//
// Each takes `blocks` consecutive blocks at `src` (no alignment needed) and writes their values.
// The scales and quants of every format are short enough that their product is exact in F32, so a
// value is rounded at most once, by the subtraction or addition of a minimum.
// Threads: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tensor/types.h"

namespace strata::blocks {

inline uint16_t load_u16(const uint8_t* from) {
  uint16_t out;
  std::memcpy(&out, from, sizeof out);
  return out;
}

inline uint32_t load_u32(const uint8_t* from) {
  uint32_t out;
  std::memcpy(&out, from, sizeof out);
  return out;
}

inline float load_f16(const uint8_t* from) { return f16_to_f32(load_u16(from)); }

// 32-element formats.
void dequantize_q4_0(const uint8_t* src, float* dst, size_t blocks);
void dequantize_q4_1(const uint8_t* src, float* dst, size_t blocks);
void dequantize_q5_0(const uint8_t* src, float* dst, size_t blocks);
void dequantize_q5_1(const uint8_t* src, float* dst, size_t blocks);
void dequantize_q8_0(const uint8_t* src, float* dst, size_t blocks);

// 256-element formats with two levels of scales.
void dequantize_q2_k(const uint8_t* src, float* dst, size_t blocks);
void dequantize_q3_k(const uint8_t* src, float* dst, size_t blocks);
void dequantize_q4_k(const uint8_t* src, float* dst, size_t blocks);
void dequantize_q5_k(const uint8_t* src, float* dst, size_t blocks);
void dequantize_q6_k(const uint8_t* src, float* dst, size_t blocks);

// Formats whose quants index a table of values.
void dequantize_iq4_nl(const uint8_t* src, float* dst, size_t blocks);
void dequantize_iq4_xs(const uint8_t* src, float* dst, size_t blocks);
void dequantize_mxfp4(const uint8_t* src, float* dst, size_t blocks);

// Encoders: see quantize() in types.h.
void quantize_q4_0(const float* src, uint8_t* dst, size_t blocks);
void quantize_q8_0(const float* src, uint8_t* dst, size_t blocks);
void quantize_f16(const float* src, uint8_t* dst, size_t elems);
void quantize_bf16(const float* src, uint8_t* dst, size_t elems);

}  // namespace strata::blocks
