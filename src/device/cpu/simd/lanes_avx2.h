// Lines of packed weights: AVX2. See lanes_generic.h.
#pragma once

#include "device/cpu/packed.h"
#include "device/cpu/simd/vec.h"

namespace strata::device::cpu {
namespace {

constexpr size_t k_slices = k_panel_rows / k_lanes;
constexpr bool k_flip_signed = false;

// Tokens whose sums run side by side; whether those of a whole tile stay in registers.
constexpr size_t k_most_beside = 2;
// Integer sums that run at least side by side, if need be by splitting those of a token.
constexpr size_t k_most_chains = 1;
constexpr bool k_sums_in_registers = false;
// Panels and tokens whose sums run together where panels are unpacked; 1: one panel.
constexpr size_t k_square = 1;

using W = __m256i;

// Holds a line in a register: the compiler would rather read it from memory for each use.
STRATA_INLINE W w_kept(W w) {
  asm("" : "+x"(w));
  return w;
}
STRATA_INLINE W w_load(const uint8_t* line) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(line));
}
STRATA_INLINE void w_store(uint8_t* line, W w) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(line), w);
}
template <int shift>
STRATA_INLINE W w_pick(W w, uint8_t mask) {
  if constexpr (shift > 0) w = _mm256_srli_epi16(w, shift);
  if constexpr (shift < 0) w = _mm256_slli_epi16(w, -shift);
  return _mm256_and_si256(w, _mm256_set1_epi8(static_cast<char>(mask)));
}
STRATA_INLINE W w_or(W a, W b) { return _mm256_or_si256(a, b); }
STRATA_INLINE W w_lookup(const int8_t* table, W index) {
  const __m128i t = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
  return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(t), index);
}
STRATA_INLINE W w_flip(W w) { return w; }

STRATA_INLINE __m128i eight_bytes(const uint8_t* p) {
  return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
}
STRATA_INLINE V widen_u8(const uint8_t* p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(eight_bytes(p)));
}
STRATA_INLINE V widen_s8(const uint8_t* p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight_bytes(p)));
}
STRATA_INLINE V power_u8(const uint8_t* p) {
  const __m256i e = _mm256_cvtepu8_epi32(eight_bytes(p));
  const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
  const __m256i small = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
  const __m256i bits =
      _mm256_blendv_epi8(normal, small, _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e));
  const __m256i none = _mm256_cmpeq_epi32(e, _mm256_set1_epi32(255));
  return _mm256_castsi256_ps(_mm256_blendv_epi8(bits, _mm256_set1_epi32(0x7FC00000), none));
}
STRATA_INLINE V widen_f16(const uint8_t* p) {
  return load_f16(reinterpret_cast<const uint16_t*>(p));
}

struct Sums {
  __m256i total = _mm256_setzero_si256();
  __m256i pairs = _mm256_setzero_si256();  // 16-bit sums that cannot overflow yet

  template <int shift>
  STRATA_INLINE void start(const int32_t* x) {
    total = shift < 0 ? _mm256_setzero_si256()
                      : _mm256_slli_epi32(_mm256_set1_epi32(*x), shift < 0 ? 0 : shift);
  }
  // A product of two pairs is at most 2 * 127 * k_most: so many lines fit 16 bits.
  template <int k_most, bool k_signed, size_t k_line, size_t k_last>
  STRATA_INLINE void add(W w, const int8_t* x) {
    constexpr size_t k_fit = 32767 / (2 * 127 * k_most);
    static_assert(k_fit >= 1);
    int32_t four;
    __builtin_memcpy(&four, x, sizeof four);
    const __m256i xs = _mm256_set1_epi32(four);
    const __m256i products = k_signed
                                 ? _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(xs, w))
                                 : _mm256_maddubs_epi16(w, xs);
    pairs = k_line % k_fit == 0 ? products : _mm256_add_epi16(pairs, products);
    if constexpr (k_line % k_fit == k_fit - 1 || k_line == k_last) {
      total = _mm256_add_epi32(total, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
    }
  }
  STRATA_INLINE void join(const Sums& other) { total = _mm256_add_epi32(total, other.total); }
  STRATA_INLINE V value() const { return _mm256_cvtepi32_ps(total); }
};

STRATA_INLINE int32_t quantize_16(const float* x, float factor, int8_t* q) {
  const __m256i a = _mm256_cvtps_epi32(mul(load(x), set1(factor)));
  const __m256i b = _mm256_cvtps_epi32(mul(load(x + 8), set1(factor)));
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xD8);
  const __m128i bytes =
      _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(q), bytes);
  const __m256i four = _mm256_madd_epi16(words, _mm256_set1_epi16(1));
  __m128i s = _mm_add_epi32(_mm256_castsi256_si128(four), _mm256_extracti128_si256(four, 1));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4E));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0xB1));
  return _mm_cvtsi128_si32(s);
}

}  // namespace
}  // namespace strata::device::cpu
