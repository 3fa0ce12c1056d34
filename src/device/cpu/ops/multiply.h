// Rows of a weight matrix times a tile of tokens: the core of `linear` and `experts`.
//
// Threads: each caller has its own MultiplyScratch.
#pragma once

#include "device/cpu/ops/support.h"

namespace strata::device::cpu {

struct Matrix {
  const std::byte* data = nullptr;  // row 0
  ElementType type = ElementType::f32;
  uint64_t n_in = 0;
  uint64_t stride = 0;  // bytes per row

  const std::byte* row(uint64_t r) const { return data + r * stride; }
};

// Matrix `index` of a weight [n_in, n_rows, n_matrices].
Matrix matrix_of(const HostContext& context, WeightId id, uint64_t index = 0);

struct MultiplyScratch {
  explicit MultiplyScratch(ScratchCutter& cutter);

  float* strip;   // dequantised rows of one chunk
  float* packed;  // the tile's activations of one chunk
};

// sums[t * k_row_block + r] = row (first_row + r) . x[t], n_rows <= k_row_block and
// n_tokens <= k_token_tile. May write sums of up to k_strip_rows - 1 further rows below
// k_row_block.
void multiply(const KernelTable& table, const Matrix& matrix, uint64_t first_row, size_t n_rows,
              const float* const* x, size_t n_tokens, const MultiplyScratch& scratch, float* sums);

}  // namespace strata::device::cpu
