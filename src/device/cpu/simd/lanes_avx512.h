// Lines of packed weights: AVX-512 with VNNI. See lanes_generic.h.
#pragma once

#include "device/cpu/packed.h"
#include "device/cpu/simd/vec.h"

namespace strata::device::cpu {
namespace {

constexpr size_t k_slices = 1;
static_assert(k_lanes == k_panel_rows);
// The dot product multiplies unsigned weights with signed activations.
constexpr bool k_flip_signed = true;

// Tokens whose sums run side by side; whether those of a whole tile stay in registers.
constexpr size_t k_most_beside = 4;
// Integer sums that run at least side by side, if need be by splitting those of a token.
constexpr size_t k_most_chains = 4;
constexpr bool k_sums_in_registers = true;
// Panels and tokens whose sums run together where panels are unpacked; 1: one panel.
constexpr size_t k_square = 4;

using W = __m512i;

// Holds a line in a register: the compiler would rather read it from memory for each use.
STRATA_INLINE W w_kept(W w) {
  asm("" : "+v"(w));
  return w;
}
STRATA_INLINE W w_load(const uint8_t* line) { return _mm512_loadu_si512(line); }
STRATA_INLINE void w_store(uint8_t* line, W w) { _mm512_storeu_si512(line, w); }
template <int shift>
STRATA_INLINE W w_pick(W w, uint8_t mask) {
  if constexpr (shift > 0) w = _mm512_srli_epi16(w, shift);
  if constexpr (shift < 0) w = _mm512_slli_epi16(w, -shift);
  return _mm512_and_si512(w, _mm512_set1_epi8(static_cast<char>(mask)));
}
STRATA_INLINE W w_or(W a, W b) { return _mm512_or_si512(a, b); }
STRATA_INLINE W w_lookup(const int8_t* table, W index) {
  const __m128i t = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
  return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(t), index);
}
STRATA_INLINE W w_flip(W w) { return _mm512_xor_si512(w, _mm512_set1_epi8(-128)); }

STRATA_INLINE __m128i sixteen_bytes(const uint8_t* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}
STRATA_INLINE V widen_u8(const uint8_t* p) {
  return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(sixteen_bytes(p)));
}
STRATA_INLINE V widen_s8(const uint8_t* p) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(sixteen_bytes(p)));
}
STRATA_INLINE V power_u8(const uint8_t* p) {
  const __m512i e = _mm512_cvtepu8_epi32(sixteen_bytes(p));
  __m512i bits = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
  bits = _mm512_mask_sllv_epi32(bits, _mm512_cmplt_epi32_mask(e, _mm512_set1_epi32(2)),
                                _mm512_set1_epi32(0x00200000), e);
  bits = _mm512_mask_mov_epi32(bits, _mm512_cmpeq_epi32_mask(e, _mm512_set1_epi32(255)),
                               _mm512_set1_epi32(0x7FC00000));
  return _mm512_castsi512_ps(bits);
}
STRATA_INLINE V widen_f16(const uint8_t* p) {
  return load_f16(reinterpret_cast<const uint16_t*>(p));
}

struct Sums {
  __m512i total = _mm512_setzero_si512();

  template <int shift>
  STRATA_INLINE void start(const int32_t* x) {
    total = shift < 0 ? _mm512_setzero_si512()
                      : _mm512_slli_epi32(_mm512_set1_epi32(*x), shift < 0 ? 0 : shift);
  }
  template <int k_most, bool k_signed, size_t k_line, size_t k_last>
  STRATA_INLINE void add(W w, const int8_t* x) {
    int32_t four;
    __builtin_memcpy(&four, x, sizeof four);
    total = _mm512_dpbusd_epi32(total, w, _mm512_set1_epi32(four));
  }
  STRATA_INLINE void join(const Sums& other) { total = _mm512_add_epi32(total, other.total); }
  STRATA_INLINE V value() const { return _mm512_cvtepi32_ps(total); }
};

STRATA_INLINE int32_t quantize_16(const float* x, float factor, int8_t* q) {
  const __m512i levels = _mm512_cvtps_epi32(mul(load(x), set1(factor)));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(q), _mm512_cvtsepi32_epi8(levels));
  return _mm512_reduce_add_epi32(levels);
}

}  // namespace
}  // namespace strata::device::cpu
