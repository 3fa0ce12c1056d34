#include <cmath>

#include "device/cpu/cpu_ops.h"
#include "device/cpu/ops/support.h"

namespace strata::device::cpu {

void run_rope_table(const RopeTable& op, const HostContext& context) {
  const uint64_t half = context.width(op.out) / 2;
  const std::vector<double>& frequencies = *op.inverse_frequencies;
  const float* factors = op.factors == k_none ? nullptr : context.weight_f32(op.factors);
  float* out = context.f32(op.out);
  const Share share = share_of(context.batch->size() * half, context.rank, context.n_ranks);
  for (uint64_t i = share.begin; i < share.end; ++i) {
    double angle = context.batch->positions[i / half] * frequencies[i % half];
    if (factors != nullptr) angle /= static_cast<double>(factors[i % half]);
    out[2 * i] = static_cast<float>(std::cos(angle) * op.magnitude);
    out[2 * i + 1] = static_cast<float>(std::sin(angle) * op.magnitude);
  }
}

}  // namespace strata::device::cpu
