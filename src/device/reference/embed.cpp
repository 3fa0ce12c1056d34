#include <algorithm>

#include "device/reference/formulas.h"
#include "device/reference/reference.h"

namespace strata::device::reference {

void run_embed(const Embed& op, const HostContext& context) {
  const uint32_t width = context.width(op.out);
  for (uint32_t t = 0; t < context.batch->size(); ++t) {
    float* out = context.f32(op.out) + uint64_t{t} * width;
    const int64_t at = int64_t{context.batch->tokens[t]} - op.first_row;
    if (at < 0 || at >= static_cast<int64_t>(context.spec(op.weight).rows())) {
      std::fill_n(out, width, 0.0f);
      continue;
    }
    const auto row = weight_row(context, op.weight, static_cast<uint64_t>(at));
    std::copy(row.begin(), row.end(), out);
  }
}

}  // namespace strata::device::reference
