#include "device/cpu/cpu_ops.h"
#include "device/cpu/ops/support.h"

namespace strata::device::cpu {

void run_gate(const Gate& op, const HostContext& context) {
  const KernelTable& table = kernels_of(context);
  const uint64_t count = uint64_t{context.rows(op.out)} * context.width(op.out);
  const Share share = share_in_units(context, count, 64);
  const auto kernel = op.activation == Activation::silu ? table.gate_silu : table.gate_gelu_tanh;
  kernel(context.f32(op.gate) + share.begin, context.f32(op.up) + share.begin,
         context.f32(op.out) + share.begin, share.end - share.begin);
}

}  // namespace strata::device::cpu
