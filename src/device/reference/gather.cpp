#include <algorithm>

#include "device/reference/formulas.h"
#include "device/reference/reference.h"

namespace strata::device::reference {

void run_gather(const Gather& op, const HostContext& context) {
  const uint64_t width = context.width(op.in);
  const auto& rows = context.batch->output_rows;
  for (uint64_t i = 0; i < rows.size(); ++i) {
    const float* in = context.f32(op.in) + rows[i] * width;
    std::copy(in, in + width, context.f32(op.out) + i * width);
  }
}

}  // namespace strata::device::reference
