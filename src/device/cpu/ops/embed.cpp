#include "device/cpu/cpu_ops.h"
#include "device/cpu/ops/multiply.h"

namespace strata::device::cpu {

void run_embed(const Embed& op, const HostContext& context) {
  const Matrix matrix = matrix_of(context, op.weight);
  const FormatKernels& format = format_of(kernels_of(context), matrix.type);
  const auto& tokens = context.batch->tokens;
  const Share share = share_of(tokens.size(), context.rank, context.n_ranks);
  for (uint64_t t = share.begin; t < share.end; ++t) {
    format.dequantize(matrix.row(static_cast<uint64_t>(tokens[t])),
                      context.f32(op.out) + t * matrix.n_in, matrix.n_in);
  }
}

}  // namespace strata::device::cpu
