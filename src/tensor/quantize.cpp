// Reference encoders.
#include <algorithm>
#include <cmath>

#include "tensor/blocks.h"

namespace strata::blocks {
namespace {

constexpr size_t k_elems = 32;
constexpr float k_f16_max = 65504;
constexpr uint16_t k_f16_nan = 0x7E00;
constexpr uint16_t k_bf16_max = 0x7F7F;

void store_u16(uint8_t* to, uint16_t value) { std::memcpy(to, &value, sizeof value); }

bool all_finite_values(const float* src) {
  return std::all_of(src, src + k_elems, [](float x) { return std::isfinite(x); });
}

// The element of largest magnitude, the first of equals.
float extreme(const float* src) {
  float out = 0;
  for (size_t j = 0; j < k_elems; ++j) {
    if (std::fabs(src[j]) > std::fabs(out)) out = src[j];
  }
  return out;
}

// A scale that F16 can hold, and what to multiply values by to get quants. Where the scale rounds
// to zero, so does everything: the inverse is zero too.
struct Scale {
  uint16_t stored = 0;
  float inverse = 0;
};
Scale make_scale(float d) {
  const float clamped = std::clamp(d, -k_f16_max, k_f16_max);
  const uint16_t stored = f32_to_f16(clamped);
  if ((stored & 0x7FFF) == 0) return {};
  return {stored, 1.0f / clamped};
}

}  // namespace

void quantize_q8_0(const float* src, uint8_t* dst, size_t blocks) {
  for (size_t b = 0; b < blocks; ++b, src += k_elems, dst += 34) {
    if (!all_finite_values(src)) {
      std::memset(dst, 0, 34);
      store_u16(dst, k_f16_nan);
      continue;
    }
    const Scale scale = make_scale(std::fabs(extreme(src)) / 127.0f);
    store_u16(dst, scale.stored);
    for (size_t j = 0; j < k_elems; ++j) {
      const float q = std::clamp(std::round(src[j] * scale.inverse), -127.0f, 127.0f);
      dst[2 + j] = static_cast<uint8_t>(static_cast<int8_t>(q));
    }
  }
}

// The extreme element becomes quant 0, that is -8 scales: the side of the range that has one step
// more.
void quantize_q4_0(const float* src, uint8_t* dst, size_t blocks) {
  for (size_t b = 0; b < blocks; ++b, src += k_elems, dst += 18) {
    if (!all_finite_values(src)) {
      std::memset(dst, 0x88, 18);
      store_u16(dst, k_f16_nan);
      continue;
    }
    const Scale scale = make_scale(extreme(src) / -8.0f);
    store_u16(dst, scale.stored);
    const auto quant = [&](float x) {
      return static_cast<uint8_t>(std::clamp(x * scale.inverse + 8.5f, 0.0f, 15.0f));
    };
    for (size_t j = 0; j < k_elems / 2; ++j) {
      dst[2 + j] = static_cast<uint8_t>(quant(src[j]) | quant(src[j + k_elems / 2]) << 4);
    }
  }
}

void quantize_f16(const float* src, uint8_t* dst, size_t elems) {
  for (size_t i = 0; i < elems; ++i) {
    const float x = std::isfinite(src[i]) ? std::clamp(src[i], -k_f16_max, k_f16_max) : src[i];
    store_u16(dst + 2 * i, f32_to_f16(x));
  }
}

void quantize_bf16(const float* src, uint8_t* dst, size_t elems) {
  for (size_t i = 0; i < elems; ++i) {
    uint16_t bits = f32_to_bf16(src[i]);
    // The largest F32 values would round to infinity.
    if (std::isfinite(src[i]) && (bits & 0x7FFF) > k_bf16_max) --bits;
    store_u16(dst + 2 * i, bits);
  }
}

}  // namespace strata::blocks
