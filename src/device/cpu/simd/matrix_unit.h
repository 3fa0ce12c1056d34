// Panels times tiles of activations on matrix units with 8-bit tiles (AMX).
//
// A group of 32 columns is one product of tiles: 16 tokens x 32 levels (the q of 16 XBlocks, 64
// bytes apart) with 8 lines of 16 rows x 4 levels. The tile of sums goes through memory into the
// vector registers, where it is scaled and added exactly as the other kernels do, so the same
// numbers come out. Levels are unpacked to signed bytes, offsets already taken off.
//
// The matrix unit is a type with
//   configure()                 once per call
//   product<set>(x, lines, out) out[token][row] of 32 columns; `set` 0 or 1: tiles to use in turns
//   half_product<set>(...)      of 16 columns
// so that the same code runs on a unit written out in plain code where there is none (tests).
#pragma once

#include "device/cpu/simd/packed_formats.h"

namespace strata::device::cpu {
namespace {

struct alignas(64) TileSums {
  int32_t at[k_slots][k_panel_rows];
};

// Signed levels without the format's offset.
template <class F>
STRATA_INLINE W signed_level(W line) {
  if constexpr (F::k_signed) return k_flip_signed ? w_flip(line) : line;
  if constexpr (F::k_offset >= 0) {
    return _mm512_sub_epi8(line, _mm512_set1_epi8(static_cast<char>(1 << (F::k_offset & 7))));
  }
  return line;
}

template <class F>
void unpack_panel_signed(const std::byte* panel, size_t n_columns, std::byte* to) {
  const auto* p = reinterpret_cast<const uint8_t*>(panel);
  auto* out = reinterpret_cast<uint8_t*>(to);
  for (size_t b = 0; b < n_columns / F::k_columns; ++b, p += F::k_bytes) {
    typename F::Head head;
    F::head(p, 0, head);
    for (size_t g = 0; g < F::k_columns / k_x_columns; ++g, out += Unpacked<F>::k_bytes) {
      Group<F::k_scales> w;
      F::group(p, head, g, 0, w);
      STRATA_UNROLL(8)
      for (size_t i = 0; i < 8; ++i) w.line[i] = signed_level<F>(w.line[i]);
      Unpacked<F>::store_group(out, 0, w);
    }
  }
}

template <class F, size_t k_scale>
STRATA_INLINE void scale_sums(const TileSums& sums, V scale, V min, const XBlock* x, V* acc) {
  STRATA_UNROLL(16)
  for (size_t t = 0; t < k_slots; ++t) {
    const V sum = _mm512_cvtepi32_ps(_mm512_load_si512(sums.at[t]));
    acc[t] = fma(mul(sum, scale), set1(x[t].d), acc[t]);
    if constexpr (F::k_minima) {
      acc[t] = fma(min, set1(F::k_scales == 1 ? x[t].sum : x[t].half_sum[k_scale]), acc[t]);
    }
  }
}

template <class Unit, class F, int set>
STRATA_INLINE void add_group(const uint8_t* p, const XBlock* x, TileSums* sums, V* acc) {
  const auto scale = [&](size_t i) { return load(Unpacked<F>::floats(p, i, 0)); };
  if constexpr (F::k_scales == 1) {
    Unit::template product<set>(x, p, sums[0]);
    scale_sums<F, 0>(sums[0], scale(0), F::k_minima ? scale(1) : zero(), x, acc);
  } else {
    Unit::template half_product<set>(x, p, 0, sums[0]);
    Unit::template half_product<set>(x, p, 1, sums[1]);
    scale_sums<F, 0>(sums[0], scale(0), F::k_minima ? scale(2) : zero(), x, acc);
    scale_sums<F, 1>(sums[1], scale(1), F::k_minima ? scale(3) : zero(), x, acc);
  }
}

template <class Unit, class F>
STRATA_INLINE void multiply_panel(const uint8_t* p, size_t n_groups, const XBlock* x, float* out,
                                  size_t stride, bool first) {
  V acc[k_slots];
  STRATA_UNROLL(16)
  for (size_t t = 0; t < k_slots; ++t) acc[t] = first ? zero() : load(out + t * stride);
  TileSums sums[4];
  size_t g = 0;
  for (; g + 2 <= n_groups; g += 2, p += 2 * Unpacked<F>::k_bytes, x += 2 * k_slots) {
    add_group<Unit, F, 0>(p, x, sums, acc);
    add_group<Unit, F, 1>(p + Unpacked<F>::k_bytes, x + k_slots, sums + 2, acc);
  }
  if (g < n_groups) add_group<Unit, F, 0>(p, x, sums, acc);
  STRATA_UNROLL(16)
  for (size_t t = 0; t < k_slots; ++t) store(out + t * stride, acc[t]);
}

template <class Unit, class F>
void multiply_tiles(const std::byte* blocks, size_t n_panels, size_t n_columns, const XBlock* x,
                    float* out, size_t stride, bool first) {
  Unit::configure();
  const auto* p = reinterpret_cast<const uint8_t*>(blocks);
  const size_t n_groups = n_columns / k_x_columns;
  for (size_t i = 0; i < n_panels; ++i, p += n_groups * Unpacked<F>::k_bytes) {
    multiply_panel<Unit, F>(p, n_groups, x, out + k_panel_rows * i, stride, first);
  }
}

// The unit wants tokens at one distance, so rows are gathered into a tile first.
template <class Unit, class F>
void multiply_gathered(const std::byte* blocks, size_t n_panels, size_t n_columns,
                       const XBlock* const* x, size_t block, size_t n_tokens, float* out,
                       size_t stride, bool first) {
  XBlock tile[k_chunk / k_x_columns * k_slots];
  float sums[k_slots * k_panel_rows];
  Unit::configure();
  const size_t n_groups = n_columns / k_x_columns;
  for (size_t at = 0; at < n_tokens; at += k_slots) {
    const size_t n = n_tokens - at < k_slots ? n_tokens - at : k_slots;
    for (size_t t = 0; t < k_slots; ++t) {
      const XBlock* from = x[at + (t < n ? t : n - 1)] + block;
      for (size_t g = 0; g < n_groups; ++g) tile[g * k_slots + t] = from[g];
    }
    const auto* p = reinterpret_cast<const uint8_t*>(blocks);
    for (size_t i = 0; i < n_panels; ++i, p += n_groups * Unpacked<F>::k_bytes) {
      float* to = out + at * stride + k_panel_rows * i;
      if (n == k_slots) {
        multiply_panel<Unit, F>(p, n_groups, tile, to, stride, first);
        continue;
      }
      for (size_t t = 0; t < k_slots; ++t) {
        store(sums + t * k_panel_rows, first || t >= n ? zero() : load(to + t * stride));
      }
      multiply_panel<Unit, F>(p, n_groups, tile, sums, k_panel_rows, false);
      for (size_t t = 0; t < n; ++t) store(to + t * stride, load(sums + t * k_panel_rows));
    }
  }
}

template <class Unit, class F>
constexpr MatrixKernels k_tiles{unpack_panel_signed<F>, multiply_tiles<Unit, F>,
                                multiply_gathered<Unit, F>};

// By format_index() of ops/support.h.
template <class Unit>
constexpr MatrixTable make_tile_table() {
  MatrixTable t{};
  t.formats[2] = k_tiles<Unit, PackedQ4_0>;
  t.formats[3] = k_tiles<Unit, PackedQ4_1>;
  t.formats[4] = k_tiles<Unit, PackedQ5_0>;
  t.formats[5] = k_tiles<Unit, PackedQ5_1>;
  t.formats[6] = k_tiles<Unit, PackedQ8_0>;
  t.formats[7] = k_tiles<Unit, PackedQ2K>;
  t.formats[8] = k_tiles<Unit, PackedQ3K>;
  t.formats[9] = k_tiles<Unit, PackedQ4K>;
  t.formats[10] = k_tiles<Unit, PackedQ5K>;
  t.formats[11] = k_tiles<Unit, PackedQ6K>;
  t.formats[12] = k_tiles<Unit, PackedIq4Nl>;
  t.formats[13] = k_tiles<Unit, PackedIq4Xs>;
  t.formats[15] = k_tiles<Unit, PackedMxfp4>;
  return t;
}

}  // namespace
}  // namespace strata::device::cpu
