#include "device/reference/formulas.h"
#include "device/reference/reference.h"

namespace strata::device::reference {

void run_gate(const Gate& op, const HostContext& context) {
  const uint64_t count = uint64_t{context.rows(op.out)} * context.width(op.out);
  for (uint64_t i = 0; i < count; ++i) {
    const double gate = static_cast<double>(context.f32(op.gate)[i]);
    const double up = static_cast<double>(context.f32(op.up)[i]);
    context.f32(op.out)[i] = static_cast<float>(activate(op.activation, gate) * up);
  }
}

}  // namespace strata::device::reference
