#include "device/reference/reference.h"

namespace strata::device::reference {

// The reference runs alone: the only member of its group.
void run_all_reduce(const AllReduce& op, const HostContext& context) {
  const uint64_t count = uint64_t{context.rows(op.out)} * context.width(op.out);
  for (uint64_t i = 0; i < count; ++i) {
    const float sum = op.partial == k_none ? 0.0f : context.f32(op.partial)[i];
    context.f32(op.out)[i] = op.residual == k_none ? sum : context.f32(op.residual)[i] + sum;
  }
}

}  // namespace strata::device::reference
