#include "device/reference/formulas.h"
#include "device/reference/reference.h"

namespace strata::device::reference {

void run_rope(const Rope& op, const HostContext& context) {
  const uint64_t half = op.n_rot / 2;
  const bool norm = op.style == RopeStyle::norm;
  for (uint64_t t = 0; t < context.rows(op.x); ++t) {
    const float* table = context.f32(op.table) + t * context.width(op.table);
    for (uint64_t h = 0; h < op.n_heads; ++h) {
      float* head = context.f32(op.x) + t * context.width(op.x) + h * op.head_dim;
      for (uint64_t i = 0; i < half; ++i) {
        float& first = head[norm ? 2 * i : i];
        float& second = head[norm ? 2 * i + 1 : i + half];
        const double a = static_cast<double>(first);
        const double b = static_cast<double>(second);
        const double cosine = static_cast<double>(table[2 * i]);
        const double sine = static_cast<double>(table[2 * i + 1]);
        first = static_cast<float>(a * cosine - b * sine);
        second = static_cast<float>(a * sine + b * cosine);
      }
    }
  }
}

}  // namespace strata::device::reference
