// Groups of keys and values as the cache holds them where it holds integers (attention_tiles.h):
// how a row gets in, and how the steps of a group are read.
//
// Included by attention_tiles.avx512vnni.cpp only.
#pragma once

#include "device/cpu/simd/attention_tiles_avx512.h"

namespace strata::device::cpu {
namespace {

// What an integer of a row stands for, and what makes integers of it.
struct Step {
  uint16_t stored;  // as BF16
  float inverse;    // 0 where there are no integers
};

// A step of at least `step`; NaN where that is no number.
inline Step step_from(float step) {
  if (!(step < __builtin_inff())) return {0x7FC0, 0};
  uint32_t bits;
  __builtin_memcpy(&bits, &step, sizeof bits);
  bits = (bits + 0xFFFF) & 0xFFFF0000;
  __builtin_memcpy(&step, &bits, sizeof step);
  return {static_cast<uint16_t>(bits >> 16), 1.0f / step};
}

// Elements in steps; zeros where there are no integers.
inline V in_steps(const float* x, Step step) {
  const __mmask16 some = step.inverse > 0 ? 0xFFFF : 0;
  return _mm512_maskz_mul_ps(some, load(x), set1(step.inverse));
}

// Greatest magnitude, compared as integers, so that what is no number is the greatest.
inline float greatest_of(const float* row, size_t dim) {
  I most = _mm512_setzero_si512();
  for (size_t d = 0; d < dim; d += k_lanes) {
    most = max_words(most, _mm512_castps_si512(abs(load(row + d))));
  }
  const int bits = _mm512_reduce_max_epi32(most);
  float out;
  __builtin_memcpy(&out, &bits, sizeof out);
  return out;
}

// Integers nearest to y; in the lanes of `hiding` the nearest whose lowest bit is that of `bits`.
inline I integers_hiding(V y, __mmask16 hiding, __mmask16 bits) {
  const V lowest = _mm512_maskz_mov_ps(bits, set1(1.0f));
  const V halves = _mm512_roundscale_ps(mul(sub(y, lowest), set1(0.5f)),
                                        _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  return _mm512_cvtps_epi32(_mm512_mask_mov_ps(y, hiding, fma(halves, set1(2.0f), lowest)));
}

void store_key(const float* row, size_t dim, int16_t* group, size_t position) {
  const float greatest = greatest_of(row, dim);
  Step step{0, 0};
  if (!(greatest <= k_nothing)) {
    // The norm in units of the greatest: no square overflows.
    V squares = zero();
    for (size_t d = 0; d < dim; d += k_lanes) {
      const V x = div(load(row + d), set1(greatest));
      squares = fma(x, x, squares);
    }
    const float of_norm = __builtin_sqrtf(sum(squares)) * (1.0f / k_most_product);
    constexpr float of_greatest = 1.0f / k_unit_norm;
    step = step_from(greatest * (of_norm < of_greatest ? of_greatest : of_norm));
  }
  // Vectors 0 to 7 of the group hide bits 8 to 15 in their first dimension, 0 to 7 in the second.
  // Dimensions lie as the packing instruction leaves them: four of the first vector of lanes, four
  // of the second, ...
  const uint32_t bits =
      _pdep_u32(step.stored & 0xFFu, 0xAAAA) | _pdep_u32(step.stored >> 8, 0x5555);
  auto first_bits = static_cast<__mmask16>(_pext_u32(bits, 0x0F0F));
  auto second_bits = static_cast<__mmask16>(_pext_u32(bits, 0xF0F0));
  __mmask16 hiding = 0x00FF;
  for (size_t d = 0; d < dim; d += k_tile_dims) {
    const I first = integers_hiding(in_steps(row + d, step), hiding, first_bits);
    const I second = integers_hiding(in_steps(row + d + k_lanes, step), hiding, second_bits);
    alignas(64) uint32_t pairs[k_lanes];
    _mm512_store_si512(pairs, _mm512_packs_epi32(first, second));
    int16_t* to = group + d * k_group_keys + position * 2;
    for (size_t i = 0; i < k_lanes; ++i) __builtin_memcpy(to + i * 32, pairs + i, sizeof *pairs);
    hiding = first_bits = second_bits = 0;
  }
}

void store_value(const float* row, size_t dim, int16_t* group, size_t position) {
  const float greatest = greatest_of(row, dim);
  Step step{0, 0};
  if (!(greatest <= k_nothing)) step = step_from(greatest * (1.0f / k_most_value));
  // Dimension i hides bit i.
  auto bits = static_cast<__mmask16>(step.stored);
  __mmask16 hiding = 0xFFFF;
  // Of each pair of integers the position's own: the other may be written at the same time.
  const auto own = static_cast<__mmask32>(position % 2 == 0 ? 0x55555555u : 0xAAAAAAAAu);
  int16_t* to = group + position / 2 * 2 * dim;
  for (size_t d = 0; d < dim; d += k_lanes) {
    const I x = integers_hiding(in_steps(row + d, step), hiding, bits);
    _mm512_mask_storeu_epi16(to + d * 2, own,
                             _mm512_mask_blend_epi16(0xAAAAAAAA, x, _mm512_slli_epi32(x, 16)));
    hiding = bits = 0;
  }
}

void key_scales(const int16_t* const* groups, size_t n_groups, float* scales) {
  const I lowest = _mm512_set1_epi32(0x00010001);
  constexpr int a_or_b_and_c = 0xF8;
  for (size_t g = 0; g < n_groups; ++g) {
    I bits = _mm512_setzero_si512();
    STRATA_UNROLL(8)
    for (size_t i = 8; i-- > 0;) {
      bits = _mm512_ternarylogic_epi32(_mm512_slli_epi32(bits, 1), load_int(groups[g] + i * 32),
                                       lowest, a_or_b_and_c);
    }
    bits = _mm512_ternarylogic_epi32(_mm512_slli_epi32(bits, 24), bits,
                                     _mm512_set1_epi32(0x00FF0000), a_or_b_and_c);
    store(scales + g * k_group_keys, _mm512_castsi512_ps(bits));
  }
}

void value_scales(const int16_t* const* groups, size_t n_groups, size_t dim, float* scales) {
  // The first position's integers, then the second's.
  alignas(64) static constexpr uint16_t apart[32] = {0,  2,  4,  6,  8,  10, 12, 14, 16, 18, 20,
                                                     22, 24, 26, 28, 30, 1,  3,  5,  7,  9,  11,
                                                     13, 15, 17, 19, 21, 23, 25, 27, 29, 31};
  const I order = _mm512_load_si512(apart);
  const I lowest = _mm512_set1_epi16(1);
  for (size_t g = 0; g < n_groups; ++g) {
    alignas(32) uint32_t steps[k_tile_positions / 2];
    STRATA_UNROLL(8)
    for (size_t i = 0; i < k_tile_positions / 2; ++i) {
      steps[i] = _mm512_test_epi16_mask(
          _mm512_permutexvar_epi16(order, load_int(groups[g] + i * 2 * dim)), lowest);
    }
    store(scales + g * k_tile_positions,
          widen_bf16(_mm256_load_si256(reinterpret_cast<const __m256i*>(steps))));
  }
}

}  // namespace
}  // namespace strata::device::cpu
