#include <algorithm>
#include <cmath>
#include <numbers>

#include "model/spec.h"

namespace strata::model {
namespace {

// Dimension at which a rotation makes `beta` turns over the original context (YaRN).
double turning_dimension(const RopeSpec& rope, double beta) {
  return rope.n_rot *
         std::log(static_cast<double>(rope.original_context) / (2 * std::numbers::pi * beta)) /
         (2 * std::log(rope.base));
}

}  // namespace

std::vector<double> inverse_frequencies(const RopeSpec& rope) {
  std::vector<double> out;
  const double scale = rope.scaling == RopeScaling::none ? 1.0 : 1.0 / rope.factor;
  double low = 0;
  double high = 0;
  if (rope.scaling == RopeScaling::yarn) {
    low = std::max(0.0, std::floor(turning_dimension(rope, rope.beta_fast)));
    high = std::min(rope.n_rot - 1.0, std::ceil(turning_dimension(rope, rope.beta_slow)));
  }
  for (uint32_t i = 0; i < rope.n_rot / 2; ++i) {
    const double theta = std::pow(rope.base, -2.0 * i / rope.n_rot);
    double ramp = 0;
    if (rope.scaling == RopeScaling::yarn) {
      const double y = (i - low) / std::max(0.001, high - low);
      ramp = (1 - std::clamp(y, 0.0, 1.0)) * rope.ext_factor;
    }
    out.push_back(scale * theta * (1 - ramp) + theta * ramp);
  }
  return out;
}

double rope_magnitude(const RopeSpec& rope) {
  if (rope.scaling != RopeScaling::yarn) return rope.attn_factor;
  return rope.attn_factor * (rope.factor > 1 ? 1 + 0.1 * std::log(rope.factor) : 1.0);
}

}  // namespace strata::model
