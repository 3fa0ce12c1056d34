#include <algorithm>

#include "device/reference/formulas.h"
#include "device/reference/reference.h"

namespace strata::device::reference {

void run_embed(const Embed& op, const HostContext& context) {
  const uint32_t width = context.width(op.out);
  for (uint32_t t = 0; t < context.batch->size(); ++t) {
    const auto row =
        weight_row(context, op.weight, static_cast<uint64_t>(context.batch->tokens[t]));
    std::copy(row.begin(), row.end(), context.f32(op.out) + uint64_t{t} * width);
  }
}

}  // namespace strata::device::reference
