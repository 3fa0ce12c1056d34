// Vector wrapper: AVX-512 (F, BW, DQ, VL). See vec_generic.h for what every function means.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace strata::device::cpu {
namespace {

constexpr size_t k_lanes = 16;
constexpr size_t k_block_rows = 8;  // register block of the strip kernel
constexpr size_t k_block_tokens = 3;

using V = __m512;
using I = __m512i;

inline __mmask16 mask_of(size_t n) { return static_cast<__mmask16>((1u << n) - 1); }

inline void keep(V& v) { asm("" : "+v"(v)); }
inline V zero() { return _mm512_setzero_ps(); }
inline V set1(float x) { return _mm512_set1_ps(x); }
inline V load(const float* p) { return _mm512_loadu_ps(p); }
inline V load_part(const float* p, size_t n) { return _mm512_maskz_loadu_ps(mask_of(n), p); }
inline void store(float* p, V v) { _mm512_storeu_ps(p, v); }
inline void store_part(float* p, V v, size_t n) { _mm512_mask_storeu_ps(p, mask_of(n), v); }
inline V add(V a, V b) { return _mm512_add_ps(a, b); }
inline V sub(V a, V b) { return _mm512_sub_ps(a, b); }
inline V mul(V a, V b) { return _mm512_mul_ps(a, b); }
inline V div(V a, V b) { return _mm512_div_ps(a, b); }
inline V fma(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }
inline V max(V a, V b) { return _mm512_max_ps(a, b); }
inline V min(V a, V b) { return _mm512_min_ps(a, b); }
inline V abs(V a) { return _mm512_abs_ps(a); }
inline V copy_sign(V magnitude, V sign) {
  return _mm512_or_ps(magnitude, _mm512_and_ps(sign, _mm512_set1_ps(-0.0f)));
}
inline V select_less(V a, V b, V yes, V no) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), no, yes);
}
inline V scale_pow2(V x, V n) { return _mm512_scalef_ps(x, n); }

// Eight lanes: i and i + 8 added; then ((0+2)+(1+3)) + ((4+6)+(5+7)).
inline __m256 halves(V a) {
  return _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
}
inline __m128 sum4(V a, V b, V c, V d) {
  const __m256 ha = halves(a), hb = halves(b), hc = halves(c), hd = halves(d);
  const __m256 ab = _mm256_add_ps(_mm256_unpacklo_ps(ha, hb), _mm256_unpackhi_ps(ha, hb));
  const __m256 cd = _mm256_add_ps(_mm256_unpacklo_ps(hc, hd), _mm256_unpackhi_ps(hc, hd));
  const __m256 all = _mm256_add_ps(_mm256_shuffle_ps(ab, cd, _MM_SHUFFLE(1, 0, 1, 0)),
                                   _mm256_shuffle_ps(ab, cd, _MM_SHUFFLE(3, 2, 3, 2)));
  return _mm_add_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1));
}
inline void store_sum4(float* p, V a, V b, V c, V d) { _mm_storeu_ps(p, sum4(a, b, c, d)); }
inline void add_sum4(float* p, V a, V b, V c, V d) {
  _mm_storeu_ps(p, _mm_add_ps(_mm_loadu_ps(p), sum4(a, b, c, d)));
}
inline float sum(V a) { return _mm_cvtss_f32(sum4(a, a, a, a)); }
inline float max_lane(V a) {
  const __m256 h = _mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
  __m128 q = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
  q = _mm_max_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_max_ss(q, _mm_shuffle_ps(q, q, 1)));
}

// Sum of squares in double, lanes by index.
struct Squares {
  __m512d low = _mm512_setzero_pd();
  __m512d high = _mm512_setzero_pd();
};
inline void add_squares(Squares& s, V v) {
  const __m512d a = _mm512_cvtps_pd(_mm512_castps512_ps256(v));
  const __m512d b = _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1));
  s.low = _mm512_fmadd_pd(a, a, s.low);
  s.high = _mm512_fmadd_pd(b, b, s.high);
}
inline double total(const Squares& s) {
  const __m512d both = _mm512_add_pd(s.low, s.high);
  const __m256d four = _mm256_add_pd(_mm512_castpd512_pd256(both), _mm512_extractf64x4_pd(both, 1));
  const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
  return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

// Half and bfloat16.
inline V load_f16(const uint16_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline V load_f16_part(const uint16_t* p, size_t n) {
  return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask_of(n), p));
}
inline V widen_bf16(__m256i bits) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}
inline V load_bf16(const uint16_t* p) {
  return widen_bf16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline V load_bf16_part(const uint16_t* p, size_t n) {
  return widen_bf16(_mm256_maskz_loadu_epi16(mask_of(n), p));
}
// Finite values stay finite: what is too large becomes the largest value of the type.
inline V saturate(V v, float largest) {
  const V bounded = min(set1(largest), max(set1(-largest), v));
  return select_less(abs(v), set1(__builtin_inff()), bounded, v);
}
inline void store_f16_part(uint16_t* p, V v, size_t n) {
  v = saturate(v, 65504.0f);
  _mm256_mask_storeu_epi16(p, mask_of(n),
                           _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
inline void store_bf16_part(uint16_t* p, V v, size_t n) {
  v = saturate(v, 0x1.FEp127f);
  const __m512i bits = _mm512_castps_si512(v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)));
  const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
  const __m512i chosen =
      _mm512_mask_blend_epi32(_mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), rounded, quiet);
  _mm256_mask_storeu_epi16(p, mask_of(n), _mm512_cvtepi32_epi16(_mm512_srli_epi32(chosen, 16)));
}
inline float half_to_float(uint16_t h) { return _cvtsh_ss(h); }

// k_lanes signed bytes; k_lanes nibbles (shift 0: the low ones, 4: the high ones) less 8.
inline V widen_lanes(const uint8_t* p) {
  const __m128i raw = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(raw));
}
inline V widen_nibbles(const uint8_t* p, unsigned shift) {
  const __m128i raw = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  const __m128i low =
      _mm_and_si128(_mm_srli_epi16(raw, static_cast<int>(shift)), _mm_set1_epi8(15));
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_sub_epi8(low, _mm_set1_epi8(8))));
}

// In assembly: GCC 12 takes a function that does nothing but prefetch for one without effect, and
// leaves out calls of it.
inline void prefetch(const void* p) {
  asm volatile("prefetcht0 %0" : : "m"(*static_cast<const char*>(p)));
}
// Into the second cache only.
inline void prefetch_second(const void* p) {
  asm volatile("prefetcht1 %0" : : "m"(*static_cast<const char*>(p)));
}

}  // namespace
}  // namespace strata::device::cpu
