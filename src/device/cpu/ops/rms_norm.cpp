#include "device/cpu/cpu_ops.h"
#include "device/cpu/ops/support.h"

namespace strata::device::cpu {

void run_rms_norm(const RmsNorm& op, const HostContext& context) {
  const KernelTable& table = kernels_of(context);
  const uint64_t groups = uint64_t{context.rows(op.in)} * context.width(op.in) / op.group;
  const Share share = share_of(groups, context.rank, context.n_ranks);
  for (uint64_t g = share.begin; g < share.end; ++g) {
    table.rms_norm(context.f32(op.in) + g * op.group, context.weight_f32(op.weight),
                   context.f32(op.out) + g * op.group, op.group, op.eps);
  }
}

}  // namespace strata::device::cpu
