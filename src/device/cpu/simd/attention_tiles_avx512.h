// The kernels of cpu/attention_tiles.h for AVX-512 with VNNI: 32 products of 16-bit integers per
// instruction, summed in 32 bits.
//
// Included by attention_tiles.avx512vnni.cpp only.
#pragma once

#include "device/cpu/attention_tiles.h"
#include "device/cpu/simd/cache_formats.h"
#include "device/cpu/simd/math.h"

namespace strata::device::cpu {
namespace {

constexpr size_t k_group_keys = k_tile_positions;
constexpr float k_nothing = 1e-30f;  // what is smaller counts as zero
// Rows of the cache are asked for so many positions before they are needed.
constexpr size_t k_tile_ahead = 32;

inline I load_int(const int16_t* p) { return _mm512_loadu_si512(p); }
inline void store_int(int16_t* p, I v) { _mm512_storeu_si512(p, v); }

// sums + the products of two pairs of 16-bit integers per lane. In assembly, since GCC 12 copies
// the sums around when it is given the intrinsic.
inline void multiply_add(I& sums, I a, I b) {
  asm("vpdpwssd %2, %1, %0" : "+v"(sums) : "v"(a), "v"(b));
}

// Elements [d, d + 16) of a row of `dim`, zeros beyond.
template <class F>
inline V load_dims(const std::byte* row, size_t d, size_t dim) {
  if (d + k_lanes <= dim) return F::load(row, d);
  return d < dim ? F::load_part(row, d, dim - d) : zero();
}

// 32 numbers as 16-bit integers. The order within the 32 is the packing instruction's: four of a,
// four of b, the next four of a, ...; scores do not mind, and values are unpacked the same way.
inline I to_integers(V a, V b) {
  return _mm512_packs_epi32(_mm512_cvtps_epi32(a), _mm512_cvtps_epi32(b));
}

// Lane i of the result: all lanes of a[i] joined.
template <class Join>
inline V reduce16(V* a, Join join) {
  STRATA_UNROLL(8)
  for (size_t i = 0; i < 8; ++i) {
    const V x = a[2 * i], y = a[2 * i + 1];
    a[i] = join(_mm512_unpacklo_ps(x, y), _mm512_unpackhi_ps(x, y));
  }
  STRATA_UNROLL(4)
  for (size_t i = 0; i < 4; ++i) {
    const V x = a[2 * i], y = a[2 * i + 1];
    a[i] = join(_mm512_shuffle_ps(x, y, 0x44), _mm512_shuffle_ps(x, y, 0xEE));
  }
  STRATA_UNROLL(2)
  for (size_t i = 0; i < 2; ++i) {
    const V x = a[2 * i], y = a[2 * i + 1];
    a[i] = join(_mm512_shuffle_f32x4(x, y, 0x88), _mm512_shuffle_f32x4(x, y, 0xDD));
  }
  return join(_mm512_shuffle_f32x4(a[0], a[1], 0x88), _mm512_shuffle_f32x4(a[0], a[1], 0xDD));
}

// 16 rows of 16 words become 16 columns.
inline void transpose16(I* r) {
  I t[16];
  STRATA_UNROLL(8)
  for (size_t i = 0; i < 8; ++i) {
    t[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
  }
  I u[16];  // u[4 i + c], lane l: column 4 l + c of rows 4 i to 4 i + 3
  STRATA_UNROLL(4)
  for (size_t i = 0; i < 4; ++i) {
    u[4 * i] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
    u[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
    u[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
    u[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
  }
  STRATA_UNROLL(4)
  for (size_t c = 0; c < 4; ++c) {
    const I even_low = _mm512_shuffle_i32x4(u[c], u[4 + c], 0x88);
    const I even_high = _mm512_shuffle_i32x4(u[8 + c], u[12 + c], 0x88);
    const I odd_low = _mm512_shuffle_i32x4(u[c], u[4 + c], 0xDD);
    const I odd_high = _mm512_shuffle_i32x4(u[8 + c], u[12 + c], 0xDD);
    r[c] = _mm512_shuffle_i32x4(even_low, even_high, 0x88);
    r[8 + c] = _mm512_shuffle_i32x4(even_low, even_high, 0xDD);
    r[4 + c] = _mm512_shuffle_i32x4(odd_low, odd_high, 0x88);
    r[12 + c] = _mm512_shuffle_i32x4(odd_low, odd_high, 0xDD);
  }
}

// What to multiply rows by so that their greatest magnitude becomes `most`, and what an integer
// stands for then. A row that is not finite stands for NaN.
inline V scales_of(V greatest, float most, float* by) {
  const __mmask16 some = _mm512_cmp_ps_mask(greatest, set1(k_nothing), _CMP_GT_OQ);
  const __mmask16 bad = _mm512_cmp_ps_mask(greatest, set1(__builtin_inff()), _CMP_NLT_UQ);
  store(by, _mm512_maskz_div_ps(some, set1(most), greatest));
  return _mm512_mask_blend_ps(bad, mul(greatest, set1(1.0f / most)), set1(__builtin_nanf("")));
}

inline I max_words(I a, I b) { return _mm512_max_epi32(a, b); }
inline I max_halves(I a, I b) { return _mm512_max_epu16(a, b); }

template <I (*join)(I, I)>
inline I reduce16(I* rows) {
  V a[16];
  for (size_t i = 0; i < 16; ++i) a[i] = _mm512_castsi512_ps(rows[i]);
  return _mm512_castps_si512(reduce16(a, [](V x, V y) {
    return _mm512_castsi512_ps(join(_mm512_castps_si512(x), _mm512_castps_si512(y)));
  }));
}

// Greatest magnitudes of 16 rows, compared as integers, so that what is no number is the greatest.
template <class F>
struct Greatest {
  static I of(const std::byte* row, size_t dim) {
    I most = _mm512_setzero_si512();
    for (size_t d = 0; d < dim; d += k_lanes) {
      most = max_words(most, _mm512_castps_si512(abs(load_dims<F>(row, d, dim))));
    }
    return most;
  }
  static V join(I* rows) { return _mm512_castsi512_ps(reduce16<max_words>(rows)); }
};

// Types of 16 bits need not be converted for that.
struct GreatestHalf {
  static I of(const std::byte* row, size_t dim) {
    const I magnitude = _mm512_set1_epi16(0x7FFF);
    I most = _mm512_setzero_si512();
    size_t d = 0;
    for (; d + 32 <= dim; d += 32) {
      most = max_halves(most, _mm512_and_si512(_mm512_loadu_si512(row + 2 * d), magnitude));
    }
    if (d < dim) {
      const auto some = static_cast<__mmask32>((uint64_t{1} << (dim - d)) - 1);
      const I rest = _mm512_maskz_loadu_epi16(some, row + 2 * d);
      most = max_halves(most, _mm512_and_si512(rest, magnitude));
    }
    return most;
  }
  static __m256i join_bits(I* rows) {
    const I both = reduce16<max_halves>(rows);
    return _mm512_cvtepi32_epi16(max_halves(both, _mm512_srli_epi32(both, 16)));
  }
};
template <>
struct Greatest<PlainCache<F16>> : GreatestHalf {
  static V join(I* rows) { return _mm512_cvtph_ps(join_bits(rows)); }
};
template <>
struct Greatest<PlainCache<Bf16>> : GreatestHalf {
  static V join(I* rows) { return widen_bf16(join_bits(rows)); }
};

// The steps of 16 rows, and what to multiply them by.
template <class F>
[[gnu::always_inline]] inline V scales_of_rows(const std::byte* const* rows, size_t dim, float most,
                                               float* by) {
  I greatest[k_tile_positions];
  STRATA_UNROLL(16)
  for (size_t i = 0; i < k_tile_positions; ++i) greatest[i] = Greatest<F>::of(rows[i], dim);
  return scales_of(Greatest<F>::join(greatest), most, by);
}

template <class F>
[[gnu::always_inline]] inline I load_integers(const std::byte* row, size_t d, size_t dim, V by) {
  return to_integers(mul(load_dims<F>(row, d, dim), by),
                     mul(load_dims<F>(row, d + k_lanes, dim), by));
}

inline void prefetch_rows(const std::byte* const* rows, size_t n, size_t bytes) {
  for (size_t i = 0; i < n; ++i) {
    for (size_t at = 0; at < bytes; at += 64) prefetch(rows[i] + at);
  }
}

template <class F>
[[gnu::always_inline]] inline void pack_keys_of(const std::byte* const* rows, size_t n, size_t dim,
                                                int16_t* tile, float* scales) {
  const float room = k_most_product / __builtin_sqrtf(static_cast<float>(dim));
  const float most = room < k_unit_norm ? room : k_unit_norm;
  for (size_t j = 0; j < n; j += k_group_keys) {
    if (j + k_tile_ahead < n) prefetch_rows(rows + j + k_tile_ahead, k_group_keys, F::bytes(dim));
    alignas(64) float by[k_group_keys];
    store(scales + j, scales_of_rows<F>(rows + j, dim, most, by));
    for (size_t d = 0; d < dim; d += k_tile_dims, tile += 16 * 32) {
      I r[k_group_keys];
      STRATA_UNROLL(16)
      for (size_t i = 0; i < k_group_keys; ++i) {
        r[i] = load_integers<F>(rows[j + i], d, dim, set1(by[i]));
      }
      transpose16(r);
      STRATA_UNROLL(16)
      for (size_t i = 0; i < k_group_keys; ++i) store_int(tile + i * 32, r[i]);
    }
  }
}

template <class F>
[[gnu::always_inline]] inline void pack_values_of(const std::byte* const* rows, size_t n,
                                                  size_t dim, int16_t* tile, float* scales) {
  for (size_t j = 0; j < n; j += k_tile_positions) {
    if (j + k_tile_ahead < n) {
      prefetch_rows(rows + j + k_tile_ahead, k_tile_positions, F::bytes(dim));
    }
    alignas(64) float by[k_tile_positions];
    store(scales + j, scales_of_rows<F>(rows + j, dim, k_most_value, by));
    STRATA_UNROLL(2)
    for (size_t i = 0; i < k_tile_positions; i += 2) {
      const V fa = set1(by[i]), fb = set1(by[i + 1]);
      STRATA_UNROLL(4)
      for (size_t d = 0; d < dim; d += k_tile_dims, tile += 64) {
        const I a = load_integers<F>(rows[j + i], d, dim, fa);
        const I b = load_integers<F>(rows[j + i + 1], d, dim, fb);
        store_int(tile, _mm512_unpacklo_epi16(a, b));
        store_int(tile + 32, _mm512_unpackhi_epi16(a, b));
      }
    }
  }
}

// Usual sizes of heads are compiled on their own.
template <class F>
void pack_keys(const std::byte* const* rows, size_t n, size_t dim, int16_t* tile, float* scales) {
  if (dim == 64) return pack_keys_of<F>(rows, n, 64, tile, scales);
  if (dim == 128) return pack_keys_of<F>(rows, n, 128, tile, scales);
  pack_keys_of<F>(rows, n, dim, tile, scales);
}

template <class F>
void pack_values(const std::byte* const* rows, size_t n, size_t dim, int16_t* tile, float* scales) {
  if (dim == 64) return pack_values_of<F>(rows, n, 64, tile, scales);
  if (dim == 128) return pack_values_of<F>(rows, n, 128, tile, scales);
  pack_values_of<F>(rows, n, dim, tile, scales);
}

float pack_query(const float* row, size_t dim, int16_t* to) {
  using Row = PlainCache<F32>;
  const auto* bytes = reinterpret_cast<const std::byte*>(row);
  V squares = zero();
  for (size_t d = 0; d < dim; d += k_lanes) {
    const V x = load_dims<Row>(bytes, d, dim);
    squares = fma(x, x, squares);
  }
  const float norm = __builtin_sqrtf(sum(squares));
  const float by = norm > k_nothing ? k_unit_norm / norm : 0;
  for (size_t d = 0; d < dim; d += k_tile_dims) {
    store_int(to + d, load_integers<Row>(bytes, d, dim, set1(by)));
  }
  return norm * 0.0f == 0.0f ? norm / k_unit_norm : __builtin_nanf("");
}

// Q queries x K groups of 16 keys. Of each group of `ahead` `lines` are asked for.
template <size_t Q, size_t K>
inline void score_groups(const int16_t* q, const int16_t* const* keys, const float* scales,
                         size_t dim, float* out, const std::byte* const* ahead, size_t lines) {
  I a[Q][K];
  STRATA_UNROLL(8)
  for (size_t i = 0; i < Q; ++i) {
    STRATA_UNROLL(4)
    for (size_t k = 0; k < K; ++k) a[i][k] = _mm512_setzero_si512();
  }
  for (size_t d = 0; d < dim; d += 2) {
    I key[K];
    STRATA_UNROLL(4)
    for (size_t k = 0; k < K; ++k) key[k] = load_int(keys[k] + d * k_group_keys);
    if (d / 2 < lines) {
      STRATA_UNROLL(4)
      for (size_t k = 0; k < K; ++k) prefetch(ahead[k] + d / 2 * 64);
    }
    STRATA_UNROLL(8)
    for (size_t i = 0; i < Q; ++i) {
      int32_t pair;
      __builtin_memcpy(&pair, q + i * dim + d, sizeof pair);
      const I query = _mm512_set1_epi32(pair);
      STRATA_UNROLL(4)
      for (size_t k = 0; k < K; ++k) multiply_add(a[i][k], query, key[k]);
    }
  }
  STRATA_UNROLL(8)
  for (size_t i = 0; i < Q; ++i) {
    STRATA_UNROLL(4)
    for (size_t k = 0; k < K; ++k) {
      store(out + i * k_tile_stride + k * k_group_keys,
            mul(_mm512_cvtepi32_ps(a[i][k]), load(scales + k * k_group_keys)));
    }
  }
}

template <size_t Q, size_t K>
inline void score_queries(const TileQueries& q, size_t first, const RangeTile& tile, size_t begin,
                          size_t end, const GroupsAhead& ahead) {
  const int16_t* rows = q.rows + first * tile.dim_k;
  float* out = q.scores + first * k_tile_stride;
  const std::byte* const* next = ahead.keys;
  const size_t lines = first == 0 ? ahead.key_lines : 0;
  size_t j = begin;
  for (; j + K * k_group_keys <= end; j += K * k_group_keys, next += K) {
    score_groups<Q, K>(rows, tile.keys + j / k_group_keys, tile.key_scales + j, tile.dim_k, out + j,
                       next, lines);
  }
  for (; j < end; j += k_group_keys, ++next) {
    score_groups<Q, 1>(rows, tile.keys + j / k_group_keys, tile.key_scales + j, tile.dim_k, out + j,
                       next, lines);
  }
}

// 2^x for x <= 0 or little more; polynomial on |f| <= 1/2 with relative error 2e-7.
inline V exp2(V x) {
  const V n = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const V f = sub(x, n);
  V p = set1(0.00133813025f);
  p = fma(p, f, set1(0.00966636851f));
  p = fma(p, f, set1(0.0555038101f));
  p = fma(p, f, set1(0.240223490f));
  p = fma(p, f, set1(0.693147181f));
  p = fma(p, f, set1(1.0f));
  return scale_pow2(p, n);
}

struct AllLanes {};

inline V keep_lanes(AllLanes, V v) { return v; }
inline V keep_lanes(__mmask16 mask, V v) { return _mm512_maskz_mov_ps(mask, v); }
inline V or_lowest(AllLanes, V v) { return v; }
inline V or_lowest(__mmask16 mask, V v) {
  return _mm512_mask_blend_ps(mask, set1(-__builtin_inff()), v);
}

// Calls f(first position of a vector, its lanes within [begin, end)), in ascending order.
template <class Function>
[[gnu::always_inline]] inline void for_vectors(size_t begin, size_t end, Function f) {
  if (begin >= end) return;
  size_t v = begin / k_lanes * k_lanes;
  if (v < begin) {
    auto mask = static_cast<__mmask16>(~mask_of(begin - v));
    if (v + k_lanes > end) mask = static_cast<__mmask16>(mask & mask_of(end - v));
    f(v, mask);
    v += k_lanes;
  }
  for (; v + k_lanes <= end; v += k_lanes) f(v, AllLanes{});
  if (v < end) f(v, mask_of(end - v));
}

// Scores of a query to the tile's units: the greatest of them times the factor that is left.
inline float top_score(const TileQueries& q, size_t i, float* factor) {
  float* scores = q.scores + i * k_tile_stride;
  *factor = q.factors[i];
  if (q.softcap > 0) {
    const V by = set1(q.softcap);
    const V scale = set1(*factor);
    for_vectors(q.begin[i], q.end[i], [&](size_t v, auto) {
      store(scores + v, mul(by, tanh(div(mul(load(scores + v), scale), by))));
    });
    *factor = 1.44269504f;
  }
  if (q.begin[i] >= q.end[i]) return -__builtin_inff();
  V best = set1(-__builtin_inff());
  for_vectors(q.begin[i], q.end[i],
              [&](size_t v, auto lanes) { best = max(or_lowest(lanes, load(scores + v)), best); });
  return max_lane(best) * *factor;
}

// Scores of the queries to integer weights over positions [begin, end).
inline void weigh_scores(const TileQueries& q, const RangeTile& tile, size_t begin, size_t end,
                         const TilePartial& out) {
  float factors[k_tile_queries];
  for (size_t i = 0; i < q.n; ++i) out.top[i] = top_score(q, i, factors + i);
  for (size_t i = 0; i < q.n; ++i) {
    float* scores = q.scores + i * k_tile_stride;
    const float* value_scales = tile.value_scales;
    const V factor = set1(factors[i]);
    const V top = set1(out.top[i]);
    V total = zero(), weights = zero(), most = zero();
    for_vectors(q.begin[i], q.end[i], [&](size_t v, auto lanes) {
      const V e = keep_lanes(lanes, exp2(_mm512_fmsub_ps(load(scores + v), factor, top)));
      const V weight = keep_lanes(lanes, mul(e, load(value_scales + v)));
      total = add(total, e);
      weights = add(weights, weight);
      most = max(weight, most);
      store(scores + v, weight);
    });
    out.sum[i] = sum(total);
    const float of_most = max_lane(most) * (1.0f / k_most_weight);
    const float of_all = sum(weights) * (1.0f / k_most_weights);
    out.unit[i] = of_most > of_all ? of_most : of_all;  // NaN when the sum is
  }
  for (size_t i = 0; i < q.n; ++i) {
    const float* scores = q.scores + i * k_tile_stride;
    int16_t* to = q.weights + i * k_tile_stride;
    const size_t from = q.begin[i] < q.end[i] ? q.begin[i] / k_lanes * k_lanes : end;
    const size_t until = smaller(end, (q.end[i] + k_lanes - 1) / k_lanes * k_lanes);
    const V factor = set1(out.unit[i] > k_nothing ? 1.0f / out.unit[i] : 0.0f);
    const auto store_weights = [&](size_t v, I weights) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + v), _mm512_cvtsepi32_epi16(weights));
    };
    size_t v = begin;
    for (; v < from; v += k_lanes) store_weights(v, _mm512_setzero_si512());
    for (; v < until; v += k_lanes) {
      store_weights(v, _mm512_cvtps_epi32(mul(load(scores + v), factor)));
    }
    for (; v < end; v += k_lanes) store_weights(v, _mm512_setzero_si512());
  }
}

// Q queries x D vectors of 16 dimensions from `first` on. `ahead` as for scores.
template <size_t Q, size_t D>
inline void mix_block(const int16_t* weights, const int16_t* const* values, size_t first,
                      size_t dim, size_t begin, size_t end, float* out,
                      const std::byte* const* ahead, size_t lines) {
  I a[Q][D];
  STRATA_UNROLL(4)
  for (size_t i = 0; i < Q; ++i) {
    STRATA_UNROLL(8)
    for (size_t n = 0; n < D; ++n) a[i][n] = _mm512_setzero_si512();
  }
  for (size_t g = begin; g < end; g += k_tile_positions, ++ahead) {
    const int16_t* row = values[g / k_tile_positions] + first * 2;
    for (size_t j = 0; j < k_tile_positions; j += 2, row += dim * 2) {
      I value[D];
      STRATA_UNROLL(8)
      for (size_t n = 0; n < D; ++n) value[n] = load_int(row + n * 32);
      if (const size_t line = first / 2 + j / 2 * D; line < lines) {
        STRATA_UNROLL(8)
        for (size_t n = 0; n < D; ++n) prefetch(*ahead + (line + n) * 64);
      }
      STRATA_UNROLL(4)
      for (size_t i = 0; i < Q; ++i) {
        int32_t pair;
        __builtin_memcpy(&pair, weights + i * k_tile_stride + g + j, sizeof pair);
        const I weight = _mm512_set1_epi32(pair);
        STRATA_UNROLL(8)
        for (size_t n = 0; n < D; ++n) multiply_add(a[i][n], weight, value[n]);
      }
    }
  }
  STRATA_UNROLL(4)
  for (size_t i = 0; i < Q; ++i) {
    STRATA_UNROLL(8)
    for (size_t n = 0; n < D; ++n) {
      store(out + i * dim + n * k_lanes, _mm512_cvtepi32_ps(a[i][n]));
    }
  }
}

template <size_t Q>
inline void mix_queries(const TileQueries& q, size_t first, const RangeTile& tile, size_t begin,
                        size_t end, float* acc, const GroupsAhead& ahead) {
  const int16_t* weights = q.weights + first * k_tile_stride;
  float* out = acc + first * tile.dim_v;
  const size_t lines = first == 0 ? ahead.value_lines : 0;
  size_t d = 0;
  for (; d + 4 * k_lanes <= tile.dim_v; d += 4 * k_lanes) {
    mix_block<Q, 4>(weights, tile.values, d, tile.dim_v, begin, end, out + d, ahead.values, lines);
  }
  for (; d < tile.dim_v; d += 2 * k_lanes) {
    mix_block<Q, 2>(weights, tile.values, d, tile.dim_v, begin, end, out + d, ahead.values, lines);
  }
}

void attend_tile(const TileQueries& q, const RangeTile& tile, size_t begin, size_t end,
                 const TilePartial& out, const GroupsAhead& ahead) {
  size_t i = 0;
  for (; i + 8 <= q.n; i += 8) score_queries<8, 2>(q, i, tile, begin, end, ahead);
  for (; i + 4 <= q.n; i += 4) score_queries<4, 4>(q, i, tile, begin, end, ahead);
  for (; i + 2 <= q.n; i += 2) score_queries<2, 4>(q, i, tile, begin, end, ahead);
  for (; i < q.n; ++i) score_queries<1, 4>(q, i, tile, begin, end, ahead);
  weigh_scores(q, tile, begin, end, out);
  i = 0;
  for (; i + 4 <= q.n; i += 4) mix_queries<4>(q, i, tile, begin, end, out.acc, ahead);
  for (; i + 2 <= q.n; i += 2) mix_queries<2>(q, i, tile, begin, end, out.acc, ahead);
  for (; i < q.n; ++i) mix_queries<1>(q, i, tile, begin, end, out.acc, ahead);
}

// 2^(a - top), 1 where they are equal: one or both may be -infinity.
inline V weight_of(V a, V top) {
  const __mmask16 equal = _mm512_cmp_ps_mask(a, top, _CMP_EQ_OQ);
  return _mm512_mask_blend_ps(equal, exp2(max(set1(-1000.0f), sub(a, top))), set1(1.0f));
}

void merge_tile(const TilePartial& part, size_t part_stride, size_t n, size_t dim, float* top,
                float* sum, float* const* acc) {
  for (size_t first = 0; first < n; first += k_lanes) {
    const size_t count = smaller(k_lanes, n - first);
    const V old_top = load_part(top + first, count);
    const V new_top = load_part(part.top + first, count);
    const V greater = max(old_top, new_top);
    const V fa = weight_of(old_top, greater);
    const V fb = weight_of(new_top, greater);
    store_part(top + first, greater, count);
    const V old_sum = load_part(sum + first, count);
    store_part(sum + first, fma(load_part(part.sum + first, count), fb, mul(old_sum, fa)), count);
    alignas(64) float by_old[k_lanes];
    alignas(64) float by_new[k_lanes];
    store(by_old, fa);
    store(by_new, mul(fb, load_part(part.unit + first, count)));
    for (size_t i = 0; i < count; ++i) {
      const V a = set1(by_old[i]), b = set1(by_new[i]);
      const float* from = part.acc + (first + i) * part_stride;
      float* to = acc[first + i];
      size_t d = 0;
      for (; d + k_lanes <= dim; d += k_lanes) {
        store(to + d, fma(load(from + d), b, mul(load(to + d), a)));
      }
      if (d < dim) {
        store_part(to + d, fma(load(from + d), b, mul(load_part(to + d, dim - d), a)), dim - d);
      }
    }
  }
}

void finish_row(float* row, size_t dim, float top, float sum, float sink) {
  const V a = set1(top);
  const V b = set1(sink);
  const V greater = max(b, a);
  const V fa = weight_of(a, greater);
  const V rest = sink == -__builtin_inff() ? zero() : weight_of(b, greater);
  const V total = fma(set1(sum), fa, rest);
  const V factor = div(fa, total);
  size_t d = 0;
  for (; d + k_lanes <= dim; d += k_lanes) store(row + d, mul(load(row + d), factor));
  if (d < dim) store_part(row + d, mul(load_part(row + d, dim - d), factor), dim - d);
}

}  // namespace
}  // namespace strata::device::cpu
