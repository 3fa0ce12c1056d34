// Dot products of plain weights (F32, F16, BF16) with F32 activations.
//
// One order of addition for every shape: columns in chunks of k_chunk; within a chunk lane l of
// one accumulator takes columns l, l + k_lanes, ...; lanes are added by sum()'s tree; chunks in
// ascending order.
#pragma once

#include "device/cpu/kernels.h"
#include "device/cpu/simd/formats.h"

namespace strata::device::cpu {
namespace {

template <class F>
void dequantize_plain(const std::byte* weights, float* dst, size_t n) {
  const auto* from = reinterpret_cast<const typename F::Element*>(weights);
  size_t i = 0;
  for (; i + k_lanes <= n; i += k_lanes) store(dst + i, F::load(from + i));
  if (i < n) store_part(dst + i, F::load_part(from + i, n - i), n - i);
}

// Ends a chunk: out[0, R) (+)= the sums of R accumulators.
template <size_t R>
inline void finish(const V* acc, float* out, bool first) {
  if constexpr (R == 4) {
    if (first) {
      store_sum4(out, acc[0], acc[1], acc[2], acc[3]);
    } else {
      add_sum4(out, acc[0], acc[1], acc[2], acc[3]);
    }
  } else {
    static_assert(R == 1);
    const float s = sum(acc[0]);
    *out = first ? s : *out + s;
  }
}

// R rows of a plain type with one token.
template <class F, size_t R>
inline void dot_plain(const std::byte* w, size_t stride, const float* x, size_t n, float* out) {
  const typename F::Element* row[R];
  for (size_t r = 0; r < R; ++r) {
    row[r] = reinterpret_cast<const typename F::Element*>(w + r * stride);
  }
  for (size_t begin = 0; begin < n; begin += k_chunk) {
    const size_t end = smaller(n, begin + k_chunk);
    V acc[R];
    for (size_t r = 0; r < R; ++r) acc[r] = zero();
    size_t i = begin;
    for (; i + k_lanes <= end; i += k_lanes) {
      const V xv = load(x + i);
      for (size_t r = 0; r < R; ++r) acc[r] = fma(F::load(row[r] + i), xv, acc[r]);
    }
    if (i < end) {
      const V xv = load_part(x + i, end - i);
      for (size_t r = 0; r < R; ++r) {
        acc[r] = fma(F::load_part(row[r] + i, end - i), xv, acc[r]);
      }
    }
    finish<R>(acc, out, begin == 0);
  }
}

template <class F>
void dot_rows_plain(const std::byte* weights, size_t stride, size_t n_rows, const float* x,
                    size_t n, float* out) {
  size_t r = 0;
  for (; r + 4 <= n_rows; r += 4) dot_plain<F, 4>(weights + r * stride, stride, x, n, out + r);
  for (; r < n_rows; ++r) dot_plain<F, 1>(weights + r * stride, stride, x, n, out + r);
}

// k_block_rows rows x T tokens of accumulators over one chunk.
template <size_t T>
inline void strip_block(const float* w, size_t w_stride, const float* x, size_t x_stride, size_t n,
                        float* acc, bool first) {
  constexpr size_t R = k_block_rows;
  V a[T][R];
  for (size_t t = 0; t < T; ++t) {
    for (size_t r = 0; r < R; ++r) a[t][r] = zero();
  }
  for (size_t i = 0; i < n; i += k_lanes) {
    V xv[T];
    for (size_t t = 0; t < T; ++t) xv[t] = load(x + t * x_stride + i);
    for (size_t r = 0; r < R; ++r) {
      V wv = load(w + r * w_stride + i);
      keep(wv);
      for (size_t t = 0; t < T; ++t) a[t][r] = fma(wv, xv[t], a[t][r]);
    }
  }
  STRATA_UNROLL(4)
  for (size_t t = 0; t < T; ++t) {
    STRATA_UNROLL(4)
    for (size_t r = 0; r < R; r += 4) finish<4>(a[t] + r, acc + t * k_row_block + r, first);
  }
}

void strip(const float* w, size_t w_stride, const float* x, size_t x_stride, size_t n_tokens,
           size_t n, float* acc, bool first) {
  for (size_t t = 0; t < n_tokens; t += k_block_tokens) {
    for (size_t r = 0; r < k_strip_rows; r += k_block_rows) {
      const float* rows = w + r * w_stride;
      const float* tokens = x + t * x_stride;
      float* out = acc + t * k_row_block + r;
      switch (smaller(n_tokens - t, k_block_tokens)) {
        case 1:
          strip_block<1>(rows, w_stride, tokens, x_stride, n, out, first);
          break;
        case 2:
          strip_block<2>(rows, w_stride, tokens, x_stride, n, out, first);
          break;
        default:
          strip_block<k_block_tokens>(rows, w_stride, tokens, x_stride, n, out, first);
      }
    }
  }
}

}  // namespace
}  // namespace strata::device::cpu
