// Whether a row's scales and values are finite, from the bits of its exponents.
#include <initializer_list>

#include "tensor/blocks.h"

namespace strata {
namespace {

bool finite_f16(uint16_t bits) { return (bits & 0x7C00) != 0x7C00; }
bool finite_bf16(uint16_t bits) { return (bits & 0x7F80) != 0x7F80; }
bool finite_f32(uint32_t bits) { return (bits & 0x7F800000u) != 0x7F800000u; }

// Every F16 scale that lies at one of `places` in a block. Quants and sub-scales are integers too
// small to carry a finite F16 scale out of the F32 range.
bool finite_scales(const uint8_t* src, uint64_t blocks, size_t block_bytes,
                   std::initializer_list<size_t> places) {
  for (uint64_t b = 0; b < blocks; ++b, src += block_bytes) {
    for (const size_t at : places) {
      if (!finite_f16(blocks::load_u16(src + at))) return false;
    }
  }
  return true;
}

// 255 stands for NaN; 253 and 254 carry some quants out of the F32 range.
bool finite_mxfp4(const uint8_t* src, uint64_t blocks) {
  constexpr uint8_t k_safe_exponent = 252;  // 6 * 2^125 < 2^128
  for (uint64_t b = 0; b < blocks; ++b, src += 17) {
    if (src[0] <= k_safe_exponent) continue;
    if (src[0] == 255) return false;
    float values[32];
    blocks::dequantize_mxfp4(src, values, 1);
    for (const float value : values) {
      uint32_t bits;
      std::memcpy(&bits, &value, sizeof bits);
      if (!finite_f32(bits)) return false;
    }
  }
  return true;
}

}  // namespace

bool all_finite(ElementType type, const void* src, size_t elems) {
  const auto* bytes = static_cast<const uint8_t*>(src);
  const size_t block_bytes = info(type).block_bytes;
  const uint64_t count = row_bytes(type, elems) / block_bytes;
  switch (type) {
    case ElementType::f32:
      for (size_t i = 0; i < elems; ++i) {
        if (!finite_f32(blocks::load_u32(bytes + 4 * i))) return false;
      }
      return true;
    case ElementType::f16:
      return finite_scales(bytes, count, block_bytes, {0});
    case ElementType::bf16:
      for (size_t i = 0; i < elems; ++i) {
        if (!finite_bf16(blocks::load_u16(bytes + 2 * i))) return false;
      }
      return true;
    case ElementType::q4_0:
    case ElementType::q5_0:
    case ElementType::q8_0:
    case ElementType::iq4_nl:
    case ElementType::iq4_xs:
      return finite_scales(bytes, count, block_bytes, {0});
    case ElementType::q4_1:
    case ElementType::q5_1:
    case ElementType::q4_k:
    case ElementType::q5_k:
      return finite_scales(bytes, count, block_bytes, {0, 2});
    case ElementType::q2_k:
      return finite_scales(bytes, count, block_bytes, {80, 82});
    case ElementType::q3_k:
      return finite_scales(bytes, count, block_bytes, {108});
    case ElementType::q6_k:
      return finite_scales(bytes, count, block_bytes, {208});
    case ElementType::mxfp4:
      return finite_mxfp4(bytes, count);
  }
  return false;
}

}  // namespace strata
