#include "device/cpu/cpu_ops.h"
#include "device/cpu/ops/support.h"

namespace strata::device::cpu {

void run_rope(const Rope& op, const HostContext& context) {
  const KernelTable& table = kernels_of(context);
  const auto rotate = op.style == RopeStyle::norm ? table.rope_norm : table.rope_neox;
  const uint64_t heads = uint64_t{context.rows(op.x)} * op.n_heads;
  const Share share = share_of(heads, context.rank, context.n_ranks);
  for (uint64_t i = share.begin; i < share.end; ++i) {
    const uint64_t t = i / op.n_heads;
    const uint64_t h = i % op.n_heads;
    rotate(context.f32(op.x) + t * context.width(op.x) + h * op.head_dim,
           context.f32(op.table) + t * context.width(op.table), op.n_rot);
  }
}

}  // namespace strata::device::cpu
