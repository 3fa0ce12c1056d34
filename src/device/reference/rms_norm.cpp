#include <cmath>

#include "device/reference/formulas.h"
#include "device/reference/reference.h"

namespace strata::device::reference {

void run_rms_norm(const RmsNorm& op, const HostContext& context) {
  const uint64_t count = uint64_t{context.rows(op.in)} * context.width(op.in);
  const float* weight = context.weight_f32(op.weight);
  for (uint64_t begin = 0; begin < count; begin += op.group) {
    const float* in = context.f32(op.in) + begin;
    float* out = context.f32(op.out) + begin;
    const double mean = dot(in, in, op.group) / op.group;
    const double scale = 1.0 / std::sqrt(mean + static_cast<double>(op.eps));
    for (uint32_t i = 0; i < op.group; ++i) {
      out[i] =
          static_cast<float>(static_cast<double>(in[i]) * scale * static_cast<double>(weight[i]));
    }
  }
}

}  // namespace strata::device::reference
