#include "device/cpu/cpu_ops.h"
#include "device/cpu/ops/support.h"

namespace strata::device::cpu {

void run_add(const Add& op, const HostContext& context) {
  const uint64_t count = uint64_t{context.rows(op.out)} * context.width(op.out);
  const Share share = share_in_units(context, count, 64);
  kernels_of(context).add(context.f32(op.a) + share.begin, context.f32(op.b) + share.begin,
                          context.f32(op.out) + share.begin, share.end - share.begin);
}

}  // namespace strata::device::cpu
