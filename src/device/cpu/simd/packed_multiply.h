// Panels of packed weights times tiles of quantised activations.
//
// One order of addition for every shape: for each group of 32 columns (or each half, when halves
// have their own scales) the products of levels are summed as integers, without rounding;
//   acc = fma(float(sum) * scale_w, d_x, acc), then acc = fma(min_w, sum_x, acc)
// in ascending order of columns, each row and token for itself. So neither the number of tokens nor
// unpacking nor a cut of the columns into several calls changes a bit.
#pragma once

#include "device/cpu/kernels.h"
#include "device/cpu/simd/packed_formats.h"

namespace strata::device::cpu {
namespace {

// Where the activations of some tokens are, a block of 32 columns at a time: [t] is token t's.
// In a tile, k_slots tokens side by side.
struct InTile {
  const XBlock* at;
  STRATA_INLINE const XBlock& operator[](size_t t) const { return at[t]; }
  STRATA_INLINE InTile from(size_t t) const { return {at + t}; }
  STRATA_INLINE void next() { at += k_slots; }
};
// In rows of their own, blocks one after another.
struct InRows {
  const XBlock* const* rows;
  size_t block;
  STRATA_INLINE const XBlock& operator[](size_t t) const { return rows[t][block]; }
  STRATA_INLINE InRows from(size_t t) const { return {rows + t, block}; }
  STRATA_INLINE void next() { ++block; }
};

// Tokens whose integer sums run side by side, to hide the latency of each.
template <size_t T>
constexpr size_t k_beside = T < k_most_beside ? T : k_most_beside;

// Chains that a token's integer sum is split into, where too few tokens run side by side.
template <size_t Q>
constexpr size_t k_chains = Q >= k_most_chains ? 1 : k_most_chains / Q;

template <class F, size_t k_line, size_t k_end, size_t Q, class X>
STRATA_INLINE void add_lines(const W* line, X x, Sums (*sums)[k_chains<Q>]) {
  if constexpr (k_line < k_end) {
    constexpr size_t k_begin = k_end - 8 / F::k_scales;
    STRATA_UNROLL(4)
    for (size_t q = 0; q < Q; ++q) {
      sums[q][k_line % k_chains<Q>]
          .template add<F::k_most, F::k_signed, k_line - k_begin, k_end - 1 - k_begin>(
              line[k_line], x[q].q + 4 * k_line);
    }
    add_lines<F, k_line + 1, k_end, Q>(line, x, sums);
  }
}

// What a sum starts at, as a power of two times -(sum of q).
template <class F>
constexpr int k_start = F::k_signed ? (k_flip_signed ? 7 : -1) : F::k_offset;

template <class F, size_t k_scale, size_t Q, class X>
STRATA_INLINE void add_scale(const Group<F::k_scales>& w, X x, V* acc) {
  constexpr size_t k_lines = 8 / F::k_scales;
  Sums sums[Q][k_chains<Q>];
  STRATA_UNROLL(4)
  for (size_t q = 0; q < Q; ++q) {
    sums[q][0].template start<k_start<F>>(F::k_scales == 1 ? &x[q].minus
                                                           : x[q].minus_half + k_scale);
    STRATA_UNROLL(4)
    for (size_t c = 1; c < k_chains<Q>; ++c) sums[q][c].template start<-1>(nullptr);
  }
  add_lines<F, k_scale * k_lines, (k_scale + 1) * k_lines, Q>(w.line, x, sums);
  STRATA_UNROLL(4)
  for (size_t q = 0; q < Q; ++q) {
    STRATA_UNROLL(4)
    for (size_t c = 1; c < k_chains<Q>; ++c) sums[q][0].join(sums[q][c]);
    acc[q] = fma(mul(sums[q][0].value(), w.scale[k_scale]), set1(x[q].d), acc[q]);
    if constexpr (F::k_minima) {
      acc[q] =
          fma(w.min[k_scale], set1(F::k_scales == 1 ? x[q].sum : x[q].half_sum[k_scale]), acc[q]);
    }
  }
}

// Panels are asked for so far ahead that memory and arithmetic work at the same time; a few lines
// with each group, since many at once would fill the queue of misses. Panels follow one another, so
// this runs into the next one.
constexpr size_t k_ahead = 5120;
template <class F>
constexpr size_t k_group_bytes = F::k_bytes* k_x_columns / F::k_columns;

// A slice of a panel with T tokens; out[t * stride + row].
template <class F, size_t T, class X>
void multiply_slice(const uint8_t* p, size_t n_blocks, X x, float* out, size_t stride, bool first,
                    size_t slice) {
  constexpr size_t Q = k_beside<T>;
  V acc[T];
  STRATA_UNROLL(16)
  for (size_t t = 0; t < T; ++t) acc[t] = first ? zero() : load(out + t * stride);
  for (size_t b = 0; b < n_blocks; ++b, p += F::k_bytes) {
    typename F::Head head;
    F::head(p, slice, head);
    for (size_t g = 0; g < F::k_columns / k_x_columns; ++g, x.next()) {
      if constexpr (F::k_streamed) {
        STRATA_UNROLL(16)
        for (size_t i = 0; i < k_group_bytes<F>; i += 64) {
          prefetch(p + k_ahead + k_group_bytes<F> * g + i);
        }
      }
      Group<F::k_scales> w;
      F::group(p, head, g, slice, w);
      const auto add_tokens = [&](size_t t) STRATA_LAMBDA_INLINE {
        add_scale<F, 0, Q>(w, x.from(t), acc + t);
        if constexpr (F::k_scales == 2) add_scale<F, 1, Q>(w, x.from(t), acc + t);
      };
      if constexpr (k_sums_in_registers) {
        STRATA_UNROLL(16)
        for (size_t t = 0; t < T; t += Q) add_tokens(t);
      } else {
        STRATA_UNROLL(1)
        for (size_t t = 0; t < T; t += Q) add_tokens(t);
      }
    }
  }
  STRATA_UNROLL(16)
  for (size_t t = 0; t < T; ++t) store(out + t * stride, acc[t]);
}

template <class F, size_t T, class X>
void multiply_tokens(const uint8_t* p, size_t n_columns, X x, float* out, size_t stride,
                     bool first) {
  for (size_t slice = 0; slice < k_slices; ++slice) {
    multiply_slice<F, T>(p, n_columns / F::k_columns, x, out + k_lanes * slice, stride, first,
                         slice);
  }
}

STRATA_INLINE const uint8_t* panel_bytes(const std::byte* p) {
  return reinterpret_cast<const uint8_t*>(p);
}

// For up to k_slots tokens straight from the panel. Works on 1, 2, 4, 8 or 16 of them: what
// lies beyond n_tokens in the tile and in `out` must be there, but need not mean anything.
template <class F>
void multiply_packed(const std::byte* panel, size_t n_columns, const XBlock* x, size_t n_tokens,
                     float* out, size_t stride) {
  const uint8_t* p = panel_bytes(panel);
  const InTile tile{x};
  if (n_tokens == 1) return multiply_tokens<F, 1>(p, n_columns, tile, out, stride, true);
  if (n_tokens == 2) return multiply_tokens<F, 2>(p, n_columns, tile, out, stride, true);
  if (n_tokens <= 4) return multiply_tokens<F, 4>(p, n_columns, tile, out, stride, true);
  if (n_tokens <= 8) return multiply_tokens<F, 8>(p, n_columns, tile, out, stride, true);
  multiply_tokens<F, 16>(p, n_columns, tile, out, stride, true);
}

template <class F>
void unpack_panel(const std::byte* panel, size_t n_columns, std::byte* to) {
  for (size_t slice = 0; slice < k_slices; ++slice) {
    const uint8_t* p = panel_bytes(panel);
    auto* out = reinterpret_cast<uint8_t*>(to);
    for (size_t b = 0; b < n_columns / F::k_columns; ++b, p += F::k_bytes) {
      typename F::Head head;
      F::head(p, slice, head);
      for (size_t g = 0; g < F::k_columns / k_x_columns; ++g, out += Unpacked<F>::k_bytes) {
        STRATA_UNROLL(16)
        for (size_t i = 0; i < k_group_bytes<F>; i += 64) {
          prefetch(p + k_ahead + k_group_bytes<F> * g + i);
        }
        Group<F::k_scales> w;
        F::group(p, head, g, slice, w);
        Unpacked<F>::store_group(out, slice, w);
      }
    }
  }
}

template <class F, size_t k_line, size_t k_end, size_t P, size_t T, class X>
STRATA_INLINE void add_panel_lines(const uint8_t* p, size_t panel, X x, Sums (*sums)[T]) {
  if constexpr (k_line < k_end) {
    constexpr size_t k_begin = k_end - 8 / F::k_scales;
    W w[P];
    STRATA_UNROLL(16)
    for (size_t i = 0; i < P; ++i) w[i] = w_load(line_at(p + i * panel, k_line, 0));
    STRATA_UNROLL(16)
    for (size_t t = 0; t < T; ++t) {
      STRATA_UNROLL(16)
      for (size_t i = 0; i < P; ++i) {
        sums[i][t].template add<F::k_most, F::k_signed, k_line - k_begin, k_end - 1 - k_begin>(
            w[i], x[t].q + 4 * k_line);
      }
    }
    add_panel_lines<F, k_line + 1, k_end, P, T>(p, panel, x, sums);
  }
}

template <class F, size_t k_scale, size_t P, size_t T, class X>
STRATA_INLINE void add_panel_scale(const uint8_t* p, size_t panel, X x, V (*acc)[T]) {
  constexpr size_t k_lines = 8 / F::k_scales;
  Sums sums[P][T];
  STRATA_UNROLL(16)
  for (size_t t = 0; t < T; ++t) {
    STRATA_UNROLL(16)
    for (size_t i = 0; i < P; ++i) {
      sums[i][t].template start<k_start<F>>(F::k_scales == 1 ? &x[t].minus
                                                             : x[t].minus_half + k_scale);
    }
  }
  add_panel_lines<F, k_scale * k_lines, (k_scale + 1) * k_lines, P, T>(p, panel, x, sums);
  STRATA_UNROLL(16)
  for (size_t t = 0; t < T; ++t) {
    const V d = set1(x[t].d);
    const V sum = set1(F::k_scales == 1 ? x[t].sum : x[t].half_sum[k_scale]);
    STRATA_UNROLL(16)
    for (size_t i = 0; i < P; ++i) {
      const V scale = load(F::floats(p + i * panel, k_scale, 0));
      acc[i][t] = fma(mul(sums[i][t].value(), scale), d, acc[i][t]);
      if constexpr (F::k_minima) {
        acc[i][t] = fma(load(F::floats(p + i * panel, F::k_scales + k_scale, 0)), sum, acc[i][t]);
      }
    }
  }
}

// P unpacked panels, `panel` bytes apart, with T tokens: a line and an activation are loaded once
// for many products, so that loads keep up with the dot products.
template <class F, size_t P, size_t T, class X>
void multiply_square(const uint8_t* p, size_t panel, size_t n_groups, X x, float* out,
                     size_t stride, bool first) {
  V acc[P][T];
  STRATA_UNROLL(16)
  for (size_t t = 0; t < T; ++t) {
    STRATA_UNROLL(16)
    for (size_t i = 0; i < P; ++i) {
      acc[i][t] = first ? zero() : load(out + t * stride + k_panel_rows * i);
    }
  }
  for (size_t g = 0; g < n_groups; ++g, p += F::k_bytes, x.next()) {
    add_panel_scale<F, 0, P, T>(p, panel, x, acc);
    if constexpr (F::k_scales == 2) add_panel_scale<F, 1, P, T>(p, panel, x, acc);
  }
  STRATA_UNROLL(16)
  for (size_t t = 0; t < T; ++t) {
    STRATA_UNROLL(16)
    for (size_t i = 0; i < P; ++i) store(out + t * stride + k_panel_rows * i, acc[i][t]);
  }
}

// In squares of panels and tokens, what is left of the panels one by one.
template <class F, size_t T, class X>
STRATA_INLINE void multiply_all(const std::byte* blocks, size_t n_panels, size_t n_columns, X x,
                                size_t n_tokens, float* out, size_t stride, bool first) {
  const uint8_t* p = panel_bytes(blocks);
  const size_t n_groups = n_columns / k_x_columns;
  const size_t panel = n_groups * Unpacked<F>::k_bytes;
  size_t i = 0;
  static_assert(k_square_panels % k_square == 0);
  if constexpr (k_square > 1) {
    for (; i + k_square <= n_panels; i += k_square, p += k_square * panel) {
      for (size_t t = 0; t < n_tokens; t += k_square) {
        multiply_square<Unpacked<F>, k_square, k_square>(
            p, panel, n_groups, x.from(t), out + t * stride + k_panel_rows * i, stride, first);
      }
    }
  }
  for (; i < n_panels; ++i, p += panel) {
    for (size_t t = 0; t < n_tokens; t += T) {
      multiply_tokens<Unpacked<F>, T>(p, n_columns, x.from(t), out + t * stride + k_panel_rows * i,
                                      stride, first);
    }
  }
}

template <class F>
void multiply_unpacked(const std::byte* blocks, size_t n_panels, size_t n_columns, const XBlock* x,
                       float* out, size_t stride, bool first) {
  multiply_all<F, k_slots>(blocks, n_panels, n_columns, InTile{x}, k_slots, out, stride, first);
}

template <class F>
void multiply_rows(const std::byte* blocks, size_t n_panels, size_t n_columns,
                   const XBlock* const* x, size_t block, size_t n_tokens, float* out, size_t stride,
                   bool first) {
  static_assert(k_row_group % k_square == 0);
  multiply_all<F, k_row_group>(blocks, n_panels, n_columns, InRows{x, block}, n_tokens, out, stride,
                               first);
}

// One row of a panel as F32.
template <class F>
void dequantize_row(const std::byte* panel, size_t row, size_t n_columns, float* to) {
  const uint8_t* p = panel_bytes(panel);
  const size_t slice = row / k_lanes, lane = row % k_lanes;
  alignas(64) uint8_t lines[Unpacked<F>::k_bytes];
  for (size_t b = 0; b < n_columns / F::k_columns; ++b, p += F::k_bytes) {
    typename F::Head head;
    F::head(p, slice, head);
    for (size_t g = 0; g < F::k_columns / k_x_columns; ++g, to += k_x_columns) {
      Group<F::k_scales> w;
      F::group(p, head, g, slice, w);
      Unpacked<F>::store_group(lines, slice, w);
      for (size_t c = 0; c < k_x_columns; ++c) {
        const uint8_t byte = line_at(lines, c / 4, slice)[4 * lane + c % 4];
        int32_t level = byte;
        if (F::k_signed) {
          level = static_cast<int8_t>(k_flip_signed ? byte ^ 128 : byte);
        } else if (F::k_offset >= 0) {
          level -= 1 << (F::k_offset & 31);
        }
        const size_t s = c * F::k_scales / k_x_columns;
        const float product =
            static_cast<float>(level) * Unpacked<F>::floats(lines, s, slice)[lane];
        to[c] = F::k_minima ? product + Unpacked<F>::floats(lines, F::k_scales + s, slice)[lane]
                            : product;
      }
    }
  }
}

// 32-blocks of activations, `step` blocks apart. A value that is not finite makes its block NaN.
void quantize_row(const float* x, size_t n, XBlock* to, size_t step) {
  for (size_t at = 0; at < n; at += k_x_columns, x += k_x_columns, to += step) {
    V top = zero(), poison = zero();
    for (size_t i = 0; i < k_x_columns; i += k_lanes) {
      const V v = load(x + i);
      top = max(abs(v), top);
      poison = fma(v, zero(), poison);
    }
    const float most = max_lane(top);
    // What is too small to divide by counts as zero.
    const bool tiny = most < 0x1p-120f;
    const float d = (tiny ? 0.0f : most / 127.0f) + sum(poison);
    const float factor = tiny ? 0.0f : 127.0f / most;
    // Of what is not a number the sums are any: they wrap.
    uint32_t sums[2];
    for (size_t h = 0; h < 2; ++h) {
      sums[h] = static_cast<uint32_t>(quantize_16(x + 16 * h, factor, to->q + 16 * h));
      to->minus_half[h] = static_cast<int32_t>(0 - sums[h]);
      to->half_sum[h] = d * static_cast<float>(static_cast<int32_t>(sums[h]));
    }
    to->d = d;
    to->minus = static_cast<int32_t>(0 - (sums[0] + sums[1]));
    to->sum = d * static_cast<float>(static_cast<int32_t>(sums[0] + sums[1]));
  }
}

template <class F>
constexpr PackedKernels k_packed{multiply_packed<F>, unpack_panel<F>,   multiply_unpacked<F>,
                                 multiply_rows<F>,   dequantize_row<F>, Unpacked<F>::k_bytes};

}  // namespace
}  // namespace strata::device::cpu
