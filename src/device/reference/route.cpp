#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "device/reference/formulas.h"
#include "device/reference/reference.h"

namespace strata::device::reference {
namespace {

std::vector<double> softmax(const std::vector<double>& logits) {
  double top = -std::numeric_limits<double>::infinity();
  for (const double logit : logits) top = std::max(top, logit);
  std::vector<double> out;
  double sum = 0;
  for (const double logit : logits) {
    out.push_back(std::exp(logit - top));
    sum += out.back();
  }
  for (double& value : out) value /= sum;
  return out;
}

}  // namespace

void run_route(const Route& op, const HostContext& context) {
  for (uint64_t t = 0; t < context.rows(op.logits); ++t) {
    const float* row = context.f32(op.logits) + t * op.n_experts;
    const std::vector<double> logits(row, row + op.n_experts);
    std::vector<double> gates = logits;
    if (op.gating == Gating::softmax) gates = softmax(logits);
    if (op.gating == Gating::sigmoid) {
      for (double& gate : gates) gate = 1.0 / (1.0 + std::exp(-gate));
    }
    std::vector<double> scores = gates;
    if (op.selection_bias != k_none) {
      for (uint32_t e = 0; e < op.n_experts; ++e) {
        scores[e] += static_cast<double>(context.weight_f32(op.selection_bias)[e]);
      }
    }
    // What is not a number comes last.
    for (double& score : scores) {
      if (std::isnan(score)) score = -std::numeric_limits<double>::infinity();
    }
    std::vector<int32_t> order(op.n_experts);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)];
    });
    std::vector<double> chosen;
    for (uint32_t i = 0; i < op.n_used; ++i) chosen.push_back(gates[static_cast<size_t>(order[i])]);
    if (op.gating == Gating::softmax_selected) chosen = softmax(chosen);
    double divisor = 1;
    if (op.renormalise) {
      divisor = std::max(std::accumulate(chosen.begin(), chosen.end(), 0.0), 0x1p-14);
    }
    for (uint32_t i = 0; i < op.n_used; ++i) {
      context.i32(op.ids)[t * op.n_used + i] = order[i];
      context.f32(op.weights)[t * op.n_used + i] =
          static_cast<float>(chosen[i] / divisor * static_cast<double>(op.scale));
    }
  }
}

}  // namespace strata::device::reference
