#include "device/cpu/cpu_ops.h"
#include "device/cpu/ops/support.h"

namespace strata::device::cpu {

void run_gather(const Gather& op, const HostContext& context) {
  const uint64_t width = context.width(op.in);
  const auto& rows = context.batch->output_rows;
  const Share share = share_of(rows.size(), context.rank, context.n_ranks);
  for (uint64_t i = share.begin; i < share.end; ++i) {
    const float* in = context.f32(op.in) + rows[i] * width;
    std::copy(in, in + width, context.f32(op.out) + i * width);
  }
}

}  // namespace strata::device::cpu
