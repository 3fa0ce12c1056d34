#include "device/reference/formulas.h"
#include "device/reference/reference.h"

namespace strata::device::reference {

void run_add(const Add& op, const HostContext& context) {
  const uint64_t count = uint64_t{context.rows(op.out)} * context.width(op.out);
  for (uint64_t i = 0; i < count; ++i) {
    context.f32(op.out)[i] = context.f32(op.a)[i] + context.f32(op.b)[i];
  }
}

}  // namespace strata::device::reference
