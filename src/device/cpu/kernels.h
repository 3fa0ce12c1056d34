// The kernel table: what the CPU ops call, compiled once per instruction set.
//
// Purpose: function pointers over plain arrays; no op logic, no memory of their own. The kernels
// are written once (cpu/simd/) against a small vector wrapper and compiled by kernels.<isa>.cpp
// with that instruction set's flags. This header is included there, so it holds plain data only:
// an inline function would be emitted with those flags and might be linked for everybody.
// Promise: a result depends on its own operands only (never on how many rows or tokens a call
// holds), so every split over threads and micro-batches gives the same bits.
// Threads: constant tables of pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/cpu/packed.h"

namespace strata::device::cpu {

// Columns that are summed in one chain of vector accumulators. A dot product is the sum, in
// ascending order, of the sums of its chunks.
inline constexpr size_t k_chunk = 512;
// Rows of a strip of dequantised weights.
inline constexpr size_t k_strip_rows = 8;
// Rows and tokens whose sums a thread holds at a time.
inline constexpr size_t k_row_block = 256;
inline constexpr size_t k_token_tile = 128;
// Positions of a range of the cache: scores are normalised within a range, ranges are merged in
// ascending order.
inline constexpr size_t k_range = 256;

// Kernels of a plain element type (F32, F16, BF16); rows `stride` bytes apart.
struct FormatKernels {
  void (*dequantize)(const std::byte* weights, float* dst, size_t n);
  // out[r] = row r . x, for one token.
  void (*dot_rows)(const std::byte* weights, size_t stride, size_t n_rows, const float* x, size_t n,
                   float* out);
};

// Kernels of a packed format (packed.h). `n_columns` is a whole number of the format's blocks; `x`
// is a tile of k_slots tokens, block by block; sums go to out[t * stride + row], 16 rows each.
struct PackedKernels {
  // For 1 to k_slots tokens. Computes 1, 2, 4, 8 or 16 of them, whichever is enough.
  void (*multiply)(const std::byte* panel, size_t n_columns, const XBlock* x, size_t n_tokens,
                   float* out, size_t stride);
  // To levels of 8 bits, unpacked_bytes for each 32 columns; `panel` begins at any block.
  void (*unpack)(const std::byte* panel, size_t n_columns, std::byte* to);
  // A whole tile with unpacked columns of panels that follow one another, 16 rows of `out` each;
  // adds to what is there unless `first`.
  void (*multiply_unpacked)(const std::byte* blocks, size_t n_panels, size_t n_columns,
                            const XBlock* x, float* out, size_t stride, bool first);
  // The same for tokens with rows of their own: token t's blocks are x[t][block] and those after
  // it. At most k_chunk columns; `x` and `out` have places for a whole number of k_row_group
  // tokens, what is in those beyond n_tokens need not mean anything.
  void (*multiply_rows)(const std::byte* blocks, size_t n_panels, size_t n_columns,
                        const XBlock* const* x, size_t block, size_t n_tokens, float* out,
                        size_t stride, bool first);
  void (*dequantize_row)(const std::byte* panel, size_t row, size_t n_columns, float* to);
  size_t unpacked_bytes;
};

// What a matrix unit does better (simd/matrix_unit.h): these take the place of PackedKernels' own.
struct MatrixKernels {
  void (*unpack)(const std::byte* panel, size_t n_columns, std::byte* to);
  void (*multiply_unpacked)(const std::byte* blocks, size_t n_panels, size_t n_columns,
                            const XBlock* x, float* out, size_t stride, bool first);
  void (*multiply_rows)(const std::byte* blocks, size_t n_panels, size_t n_columns,
                        const XBlock* const* x, size_t block, size_t n_tokens, float* out,
                        size_t stride, bool first);
};
struct MatrixTable {
  MatrixKernels formats[16];  // as KernelTable::packed
};

// Kernels of one element type of the cache.
struct CacheKernels {
  // out[i * out_stride + j] = q_i . k_j for n_q queries (q_stride apart) and n_k keys.
  void (*scores)(const float* q, size_t q_stride, size_t n_q, const std::byte* const* k, size_t n_k,
                 size_t dim, float* out, size_t out_stride);
  // acc[i] += sum_j p[i * p_stride + j] * v_j, j ascending.
  void (*weigh)(const float* p, size_t p_stride, size_t n_q, const std::byte* const* v, size_t n_v,
                size_t dim, float* acc, size_t acc_stride);
  // Row of F32 to the cache's type, bit for bit as the tensor room's quantize().
  void (*store)(const float* from, std::byte* to, size_t n);
};

struct TileKernels;  // attention_tiles.h

struct KernelTable {
  const char* name;

  // By format_index() of ops/support.h; types without blocks in the first, the others in the
  // second.
  FormatKernels formats[16];
  PackedKernels packed[16];
  // x[0, n) to n / 32 blocks, `step` blocks apart. Values that are not finite make a block NaN.
  void (*quantize)(const float* x, size_t n, XBlock* to, size_t step);

  CacheKernels cache_f32;
  CacheKernels cache_f16;
  CacheKernels cache_bf16;
  CacheKernels cache_q8_0;
  CacheKernels cache_q4_0;
  // Attention in 16-bit integers, or null where the instruction set has F32 arithmetic only.
  const TileKernels* tiles;

  // acc[t * k_row_block + r] (+)= strip row r . x_t over one chunk: `n` columns (at most k_chunk,
  // a multiple of 16; beyond the data both are zero), strip rows w_stride floats apart, always
  // k_strip_rows of them, x rows x_stride apart. `first` overwrites.
  void (*strip)(const float* w, size_t w_stride, const float* x, size_t x_stride, size_t n_tokens,
                size_t n, float* acc, bool first);

  // out = in / sqrt(mean(in^2) + eps) * weight; the sum of squares is in double.
  void (*rms_norm)(const float* in, const float* weight, float* out, size_t n, float eps);
  // Rotates one head; table holds (cos, sin) pairs.
  void (*rope_norm)(float* head, const float* table, size_t n_rot);
  void (*rope_neox)(float* head, const float* table, size_t n_rot);
  void (*gate_silu)(const float* gate, const float* up, float* out, size_t n);
  void (*gate_gelu_tanh)(const float* gate, const float* up, float* out, size_t n);
  void (*add)(const float* a, const float* b, float* out, size_t n);

  // out = exp(in - shift); returns the sum. Lanes are by index, so equal input from the same index
  // on gives equal output.
  float (*exp_sum)(const float* in, float shift, float* out, size_t n);
  void (*sigmoid)(const float* in, float* out, size_t n);
  float (*max)(const float* in, size_t n);
  // x = cap * tanh(x / cap)
  void (*soft_cap)(float* x, float cap, size_t n);
  void (*scale)(float* x, float factor, size_t n);
  // a = a * fa + b * fb
  void (*blend)(float* a, float fa, const float* b, float fb, size_t n);
};

extern const KernelTable k_generic_kernels;
extern const KernelTable k_avx2_kernels;
extern const KernelTable k_avx512vnni_kernels;
extern const MatrixTable k_amx_tiles;

}  // namespace strata::device::cpu
