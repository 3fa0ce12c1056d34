#include <cmath>

#include "device/reference/formulas.h"
#include "device/reference/reference.h"

namespace strata::device::reference {

void run_rope_table(const RopeTable& op, const HostContext& context) {
  const uint64_t half = context.width(op.out) / 2;
  for (uint64_t t = 0; t < context.batch->size(); ++t) {
    for (uint64_t i = 0; i < half; ++i) {
      double angle = context.batch->positions[t] * (*op.inverse_frequencies)[i];
      if (op.factors != k_none) angle /= static_cast<double>(context.weight_f32(op.factors)[i]);
      float* out = context.f32(op.out) + (t * half + i) * 2;
      out[0] = static_cast<float>(std::cos(angle) * op.magnitude);
      out[1] = static_cast<float>(std::sin(angle) * op.magnitude);
    }
  }
}

}  // namespace strata::device::reference
