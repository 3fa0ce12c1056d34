// Vector wrapper: AVX2, FMA, F16C. See vec_generic.h for what every function means.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace strata::device::cpu {
namespace {

constexpr size_t k_lanes = 8;
constexpr size_t k_block_rows = 4;
constexpr size_t k_block_tokens = 3;

using V = __m256;

inline __m256i mask_of(size_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

inline void keep(V& v) { asm("" : "+x"(v)); }
inline V zero() { return _mm256_setzero_ps(); }
inline V set1(float x) { return _mm256_set1_ps(x); }
inline V load(const float* p) { return _mm256_loadu_ps(p); }
inline V load_part(const float* p, size_t n) { return _mm256_maskload_ps(p, mask_of(n)); }
inline void store(float* p, V v) { _mm256_storeu_ps(p, v); }
inline void store_part(float* p, V v, size_t n) { _mm256_maskstore_ps(p, mask_of(n), v); }
inline V add(V a, V b) { return _mm256_add_ps(a, b); }
inline V sub(V a, V b) { return _mm256_sub_ps(a, b); }
inline V mul(V a, V b) { return _mm256_mul_ps(a, b); }
inline V div(V a, V b) { return _mm256_div_ps(a, b); }
inline V fma(V a, V b, V c) { return _mm256_fmadd_ps(a, b, c); }
inline V max(V a, V b) { return _mm256_max_ps(a, b); }
inline V min(V a, V b) { return _mm256_min_ps(a, b); }
inline V abs(V a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
inline V copy_sign(V magnitude, V sign) {
  return _mm256_or_ps(magnitude, _mm256_and_ps(sign, _mm256_set1_ps(-0.0f)));
}
inline V select_less(V a, V b, V yes, V no) {
  return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
}
// In two steps, so that results may be subnormal and 2^n itself need not be a number of the type.
inline V scale_pow2(V x, V n) {
  const __m256i whole = _mm256_cvtps_epi32(n);
  const __m256i half = _mm256_srai_epi32(whole, 1);
  const __m256i rest = _mm256_sub_epi32(whole, half);
  const __m256i bias = _mm256_set1_epi32(127);
  const V a = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23));
  const V b = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23));
  return _mm256_mul_ps(_mm256_mul_ps(x, a), b);
}

// ((0+2)+(1+3)) + ((4+6)+(5+7)).
inline __m128 sum4(V a, V b, V c, V d) {
  const V ab = _mm256_add_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
  const V cd = _mm256_add_ps(_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
  const V all = _mm256_add_ps(_mm256_shuffle_ps(ab, cd, _MM_SHUFFLE(1, 0, 1, 0)),
                              _mm256_shuffle_ps(ab, cd, _MM_SHUFFLE(3, 2, 3, 2)));
  return _mm_add_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1));
}
inline void store_sum4(float* p, V a, V b, V c, V d) { _mm_storeu_ps(p, sum4(a, b, c, d)); }
inline void add_sum4(float* p, V a, V b, V c, V d) {
  _mm_storeu_ps(p, _mm_add_ps(_mm_loadu_ps(p), sum4(a, b, c, d)));
}
inline float sum(V a) { return _mm_cvtss_f32(sum4(a, a, a, a)); }
inline float max_lane(V a) {
  __m128 q = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  q = _mm_max_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_max_ss(q, _mm_shuffle_ps(q, q, 1)));
}

struct Squares {
  __m256d low = _mm256_setzero_pd();
  __m256d high = _mm256_setzero_pd();
};
inline void add_squares(Squares& s, V v) {
  const __m256d a = _mm256_cvtps_pd(_mm256_castps256_ps128(v));
  const __m256d b = _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
  s.low = _mm256_fmadd_pd(a, a, s.low);
  s.high = _mm256_fmadd_pd(b, b, s.high);
}
inline double total(const Squares& s) {
  const __m256d four = _mm256_add_pd(s.low, s.high);
  const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
  return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

inline __m128i load_16_bits(const uint16_t* p, size_t n) {
  alignas(16) uint16_t part[8] = {};
  __builtin_memcpy(part, p, n * 2);
  return _mm_load_si128(reinterpret_cast<const __m128i*>(part));
}
inline void store_16_bits(uint16_t* p, __m128i bits, size_t n) {
  if (n == 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bits);
  } else {
    alignas(16) uint16_t part[8];
    _mm_store_si128(reinterpret_cast<__m128i*>(part), bits);
    __builtin_memcpy(p, part, n * 2);
  }
}
inline V load_f16(const uint16_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
inline V load_f16_part(const uint16_t* p, size_t n) { return _mm256_cvtph_ps(load_16_bits(p, n)); }
inline V widen_bf16(__m128i bits) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
inline V load_bf16(const uint16_t* p) {
  return widen_bf16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
inline V load_bf16_part(const uint16_t* p, size_t n) { return widen_bf16(load_16_bits(p, n)); }
inline V saturate(V v, float largest) {
  const V bounded = min(set1(largest), max(set1(-largest), v));
  return select_less(abs(v), set1(__builtin_inff()), bounded, v);
}
inline void store_f16_part(uint16_t* p, V v, size_t n) {
  v = saturate(v, 65504.0f);
  store_16_bits(p, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC), n);
}
inline void store_bf16_part(uint16_t* p, V v, size_t n) {
  v = saturate(v, 0x1.FEp127f);
  const __m256i bits = _mm256_castps_si256(v);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF)));
  const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
  const __m256i top = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, nan), 16);
  const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(top, top), 0x08);
  store_16_bits(p, _mm256_castsi256_si128(packed), n);
}
inline float half_to_float(uint16_t h) { return _cvtsh_ss(h); }

inline V widen_lanes(const uint8_t* p) {
  const __m128i raw = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(raw));
}
inline V widen_nibbles(const uint8_t* p, unsigned shift) {
  const __m128i raw = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  const __m128i low =
      _mm_and_si128(_mm_srli_epi16(raw, static_cast<int>(shift)), _mm_set1_epi8(15));
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_sub_epi8(low, _mm_set1_epi8(8))));
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
