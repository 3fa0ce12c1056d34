#include <algorithm>

#include "device/cpu/cpu_ops.h"
#include "device/cpu/ops/multiply.h"
#include "device/cpu/ops/packed.h"
#include "device/cpu/pack.h"

namespace strata::device::cpu {

void run_embed(const Embed& op, const HostContext& context) {
  const auto& tokens = context.batch->tokens;
  const auto n_rows = static_cast<int64_t>(context.spec(op.weight).rows());
  const uint32_t width = context.width(op.out);
  // The token's row in the weight; or none, and zeros are written.
  const auto row_of = [&](uint64_t t) {
    const int64_t row = int64_t{tokens[t]} - op.first_row;
    if (row >= 0 && row < n_rows) return row;
    std::fill_n(context.f32(op.out) + t * width, width, 0.0f);
    return int64_t{-1};
  };
  const Share share = share_of(tokens.size(), context.rank, context.n_ranks);
  if (is_packed(context.spec(op.weight))) {
    const PackedMatrix matrix = packed_matrix(context, op.weight);
    for (uint64_t t = share.begin; t < share.end; ++t) {
      const int64_t at = row_of(t);
      if (at < 0) continue;
      const auto row = static_cast<uint64_t>(at);
      matrix.kernels->dequantize_row(matrix.panel(row / k_panel_rows), row % k_panel_rows,
                                     matrix.n_in, context.f32(op.out) + t * matrix.n_in);
    }
    return;
  }
  const Matrix matrix = matrix_of(context, op.weight);
  const FormatKernels& format = format_of(kernels_of(context), matrix.type);
  for (uint64_t t = share.begin; t < share.end; ++t) {
    const int64_t at = row_of(t);
    if (at < 0) continue;
    format.dequantize(matrix.row(static_cast<uint64_t>(at)), context.f32(op.out) + t * matrix.n_in,
                      matrix.n_in);
  }
}

}  // namespace strata::device::cpu
