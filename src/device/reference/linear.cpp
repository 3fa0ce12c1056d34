#include "device/reference/formulas.h"
#include "device/reference/reference.h"

namespace strata::device::reference {

void run_linear(const Linear& op, const HostContext& context) {
  const WeightSpec& spec = context.spec(op.weight);
  const uint64_t n_in = spec.dims[0];
  const uint64_t n_out = spec.dims[1];
  for (uint64_t r = 0; r < n_out; ++r) {
    const auto row = weight_row(context, op.weight, r);
    const double bias =
        op.bias == k_none ? 0.0 : static_cast<double>(context.weight_f32(op.bias)[r]);
    for (uint64_t t = 0; t < context.rows(op.in); ++t) {
      const double sum = dot(row.data(), context.f32(op.in) + t * n_in, n_in);
      context.f32(op.out)[t * n_out + r] = static_cast<float>(sum + bias);
    }
  }
}

}  // namespace strata::device::reference
