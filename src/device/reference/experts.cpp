#include <algorithm>

#include "device/reference/formulas.h"
#include "device/reference/reference.h"

namespace strata::device::reference {

void run_experts(const Experts& op, const HostContext& context) {
  const uint64_t n_embd = context.width(op.in);
  for (uint64_t t = 0; t < context.rows(op.in); ++t) {
    const float* in = context.f32(op.in) + t * n_embd;
    const int32_t* ids = context.i32(op.ids) + t * op.n_used;
    const float* weights = context.f32(op.weights) + t * op.n_used;
    std::vector<double> total(n_embd);
    std::vector<double> hidden(op.n_ff);
    for (uint32_t slot = 0; slot < op.n_used; ++slot) {
      const int64_t held = int64_t{ids[slot]} - op.first_expert;
      if (held < 0 || held >= static_cast<int64_t>(context.spec(op.gate).dims[2])) continue;
      const auto expert = static_cast<uint64_t>(held);
      for (uint64_t r = 0; r < op.n_ff; ++r) {
        const uint64_t row = expert * op.n_ff + r;
        const double gate = dot(weight_row(context, op.gate, row).data(), in, n_embd);
        const double up = dot(weight_row(context, op.up, row).data(), in, n_embd);
        hidden[r] = activate(op.activation, gate) * up;
      }
      for (uint64_t r = 0; r < n_embd; ++r) {
        const auto row = weight_row(context, op.down, expert * n_embd + r);
        total[r] += static_cast<double>(weights[slot]) * dot(row.data(), hidden.data(), op.n_ff);
      }
    }
    for (uint64_t r = 0; r < n_embd; ++r) {
      context.f32(op.out)[t * n_embd + r] = static_cast<float>(total[r]);
    }
  }
}

}  // namespace strata::device::reference
