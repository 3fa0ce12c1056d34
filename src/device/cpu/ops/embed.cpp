#include "device/cpu/cpu_ops.h"
#include "device/cpu/ops/multiply.h"
#include "device/cpu/ops/packed.h"
#include "device/cpu/pack.h"

namespace strata::device::cpu {

void run_embed(const Embed& op, const HostContext& context) {
  const auto& tokens = context.batch->tokens;
  const Share share = share_of(tokens.size(), context.rank, context.n_ranks);
  if (is_packed(context.spec(op.weight))) {
    const PackedMatrix matrix = packed_matrix(context, op.weight);
    for (uint64_t t = share.begin; t < share.end; ++t) {
      const auto row = static_cast<uint64_t>(tokens[t]);
      matrix.kernels->dequantize_row(matrix.panel(row / k_panel_rows), row % k_panel_rows,
                                     matrix.n_in, context.f32(op.out) + t * matrix.n_in);
    }
    return;
  }
  const Matrix matrix = matrix_of(context, op.weight);
  const FormatKernels& format = format_of(kernels_of(context), matrix.type);
  for (uint64_t t = share.begin; t < share.end; ++t) {
    format.dequantize(matrix.row(static_cast<uint64_t>(tokens[t])),
                      context.f32(op.out) + t * matrix.n_in, matrix.n_in);
  }
}

}  // namespace strata::device::cpu
