// Scores and weighted sums over rows of the cache, in place, for several queries at once.
//
// Per score: lane l of one accumulator takes dimensions l, l + k_lanes, ...; then sum()'s tree. Per
// output dimension: one chain over the positions, ascending. Neither depends on how many queries
// or positions a call holds.
#pragma once

#include "device/cpu/simd/cache_formats.h"

namespace strata::device::cpu {
namespace {

// Q queries x 4 keys.
template <class F, size_t Q>
inline void score_block(const float* q, size_t q_stride, const std::byte* const* k, size_t dim,
                        float* out, size_t out_stride) {
  V a[Q][4];
  STRATA_UNROLL(8)
  for (size_t i = 0; i < Q; ++i) {
    STRATA_UNROLL(8)
    for (size_t j = 0; j < 4; ++j) a[i][j] = zero();
  }
  size_t d = 0;
  for (; d + k_lanes <= dim; d += k_lanes) {
    V key[4];
    STRATA_UNROLL(8)
    for (size_t j = 0; j < 4; ++j) key[j] = F::load(k[j], d);
    STRATA_UNROLL(8)
    for (size_t i = 0; i < Q; ++i) {
      const V query = load(q + i * q_stride + d);
      STRATA_UNROLL(8)
      for (size_t j = 0; j < 4; ++j) a[i][j] = fma(query, key[j], a[i][j]);
    }
  }
  if (d < dim) {
    V key[4];
    STRATA_UNROLL(8)
    for (size_t j = 0; j < 4; ++j) key[j] = F::load_part(k[j], d, dim - d);
    STRATA_UNROLL(8)
    for (size_t i = 0; i < Q; ++i) {
      const V query = load_part(q + i * q_stride + d, dim - d);
      STRATA_UNROLL(8)
      for (size_t j = 0; j < 4; ++j) a[i][j] = fma(query, key[j], a[i][j]);
    }
  }
  STRATA_UNROLL(8)
  for (size_t i = 0; i < Q; ++i) {
    store_sum4(out + i * out_stride, a[i][0], a[i][1], a[i][2], a[i][3]);
  }
}

// Asks for a row of the cache that will be needed soon.
inline void prefetch_row(const void* row, size_t bytes) {
  for (size_t at = 0; at < bytes; at += 64) prefetch(static_cast<const char*>(row) + at);
}
constexpr size_t k_rows_ahead = 12;

template <class F>
void scores(const float* q, size_t q_stride, size_t n_q, const std::byte* const* k, size_t n_k,
            size_t dim, float* out, size_t out_stride) {
  constexpr size_t most = k_lanes == 16 ? 4 : 2;  // queries that the registers hold
  for (size_t j = 0; j < n_k; j += 4) {
    const size_t n_keys = smaller(4, n_k - j);
    const std::byte* keys[4];
    for (size_t i = 0; i < 4; ++i) keys[i] = k[j + smaller(i, n_keys - 1)];
    for (size_t i = j + k_rows_ahead; i < smaller(j + k_rows_ahead + 4, n_k); ++i) {
      prefetch_row(k[i], F::bytes(dim));
    }
    for (size_t i = 0; i < n_q; i += most) {
      const size_t n = smaller(most, n_q - i);
      const float* query = q + i * q_stride;
      // Fewer than four keys go by way of a block of their own.
      float block[most * 4];
      float* to = n_keys == 4 ? out + i * out_stride + j : block;
      const size_t to_stride = n_keys == 4 ? out_stride : 4;
      switch (n) {
        case 1:
          score_block<F, 1>(query, q_stride, keys, dim, to, to_stride);
          break;
        case 2:
          score_block<F, 2>(query, q_stride, keys, dim, to, to_stride);
          break;
        case 3:
          if constexpr (most > 2) score_block<F, 3>(query, q_stride, keys, dim, to, to_stride);
          break;
        default:
          score_block<F, most>(query, q_stride, keys, dim, to, to_stride);
      }
      for (size_t r = 0; r < n && n_keys < 4; ++r) {
        __builtin_memcpy(out + (i + r) * out_stride + j, block + r * 4, n_keys * sizeof(float));
      }
    }
  }
}

// Q queries x N vectors of dimensions; the last vector has `last` elements.
template <class F, size_t Q, size_t N>
inline void weigh_block(const float* p, size_t p_stride, const std::byte* const* v, size_t n_v,
                        size_t d, size_t last, float* acc, size_t acc_stride) {
  V a[Q][N];
  STRATA_UNROLL(8)
  for (size_t i = 0; i < Q; ++i) {
    float* row = acc + i * acc_stride + d;
    STRATA_UNROLL(8)
    for (size_t n = 0; n + 1 < N; ++n) a[i][n] = load(row + n * k_lanes);
    a[i][N - 1] = load_part(row + (N - 1) * k_lanes, last);
  }
  for (size_t j = 0; j < n_v; ++j) {
    const std::byte* row = v[j];
    if (j + k_rows_ahead < n_v) {
      prefetch_row(v[j + k_rows_ahead] + F::bytes(d), F::bytes(N * k_lanes));
    }
    V value[N];
    STRATA_UNROLL(8)
    for (size_t n = 0; n + 1 < N; ++n) value[n] = F::load(row, d + n * k_lanes);
    value[N - 1] = last == k_lanes ? F::load(row, d + (N - 1) * k_lanes)
                                   : F::load_part(row, d + (N - 1) * k_lanes, last);
    STRATA_UNROLL(8)
    for (size_t i = 0; i < Q; ++i) {
      const V weight = set1(p[i * p_stride + j]);
      STRATA_UNROLL(8)
      for (size_t n = 0; n < N; ++n) a[i][n] = fma(weight, value[n], a[i][n]);
    }
  }
  STRATA_UNROLL(8)
  for (size_t i = 0; i < Q; ++i) {
    float* row = acc + i * acc_stride + d;
    STRATA_UNROLL(8)
    for (size_t n = 0; n + 1 < N; ++n) store(row + n * k_lanes, a[i][n]);
    store_part(row + (N - 1) * k_lanes, a[i][N - 1], last);
  }
}

template <class F, size_t Q>
inline void weigh_queries(const float* p, size_t p_stride, const std::byte* const* v, size_t n_v,
                          size_t dim, float* acc, size_t acc_stride) {
  constexpr size_t most = Q == 1 ? 8 : k_lanes == 16 ? 4 : 2;  // vectors that the registers hold
  size_t d = 0;
  for (; d + most * k_lanes <= dim; d += most * k_lanes) {
    weigh_block<F, Q, most>(p, p_stride, v, n_v, d, k_lanes, acc, acc_stride);
  }
  if (most > 4 && d + 4 * k_lanes <= dim) {
    weigh_block<F, Q, 4>(p, p_stride, v, n_v, d, k_lanes, acc, acc_stride);
    d += 4 * k_lanes;
  }
  for (; d < dim; d += k_lanes) {
    weigh_block<F, Q, 1>(p, p_stride, v, n_v, d, smaller(k_lanes, dim - d), acc, acc_stride);
  }
}

template <class F>
void weigh(const float* p, size_t p_stride, size_t n_q, const std::byte* const* v, size_t n_v,
           size_t dim, float* acc, size_t acc_stride) {
  size_t i = 0;
  for (; i + 4 <= n_q; i += 4) {
    weigh_queries<F, 4>(p + i * p_stride, p_stride, v, n_v, dim, acc + i * acc_stride, acc_stride);
  }
  for (; i + 2 <= n_q; i += 2) {
    weigh_queries<F, 2>(p + i * p_stride, p_stride, v, n_v, dim, acc + i * acc_stride, acc_stride);
  }
  for (; i < n_q; ++i) {
    weigh_queries<F, 1>(p + i * p_stride, p_stride, v, n_v, dim, acc + i * acc_stride, acc_stride);
  }
}

}  // namespace
}  // namespace strata::device::cpu
