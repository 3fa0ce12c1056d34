#include <limits>

#include "device/cpu/cpu_ops.h"
#include "device/cpu/ops/support.h"

namespace strata::device::cpu {
namespace {

struct RouteScratch {
  RouteScratch(std::byte* base, const Route& op)
      : cutter(base),
        gates(cutter.take<float>(op.n_experts)),
        scores(cutter.take<float>(op.n_experts)),
        taken(cutter.take<bool>(op.n_experts)),
        chosen(cutter.take<float>(op.n_used)) {}

  ScratchCutter cutter;
  float* gates;
  float* scores;
  bool* taken;
  float* chosen;
};

void softmax(const KernelTable& table, float* x, size_t n) {
  const float sum = table.exp_sum(x, table.max(x, n), x, n);
  for (size_t i = 0; i < n; ++i) x[i] /= sum;
}

// The highest score not yet taken, the lowest id on ties. Scores are numbers.
uint32_t best_of(const RouteScratch& scratch, uint32_t n_experts) {
  uint32_t best = n_experts;
  for (uint32_t e = 0; e < n_experts; ++e) {
    if (scratch.taken[e]) continue;
    if (best == n_experts || scratch.scores[e] > scratch.scores[best]) best = e;
  }
  return best;
}

void route_token(const Route& op, const HostContext& context, const RouteScratch& scratch,
                 uint64_t t) {
  const KernelTable& table = kernels_of(context);
  const float* logits = context.f32(op.logits) + t * op.n_experts;
  int32_t* ids = context.i32(op.ids) + t * op.n_used;
  float* weights = context.f32(op.weights) + t * op.n_used;

  std::copy(logits, logits + op.n_experts, scratch.gates);
  if (op.gating == Gating::softmax) softmax(table, scratch.gates, op.n_experts);
  if (op.gating == Gating::sigmoid) table.sigmoid(logits, scratch.gates, op.n_experts);

  // Without a bias the order of the gates is that of the logits, which do not saturate.
  const float* bias = op.selection_bias == k_none ? nullptr : context.weight_f32(op.selection_bias);
  for (uint32_t e = 0; e < op.n_experts; ++e) {
    const float score = bias == nullptr ? logits[e] : scratch.gates[e] + bias[e];
    scratch.scores[e] = score == score ? score : -std::numeric_limits<float>::infinity();
  }
  std::fill(scratch.taken, scratch.taken + op.n_experts, false);
  for (uint32_t i = 0; i < op.n_used; ++i) {
    const uint32_t best = best_of(scratch, op.n_experts);
    scratch.taken[best] = true;
    ids[i] = static_cast<int32_t>(best);
    scratch.chosen[i] = scratch.gates[best];
  }

  if (op.gating == Gating::softmax_selected) softmax(table, scratch.chosen, op.n_used);
  float divisor = 1;
  if (op.renormalise) {
    float sum = 0;
    for (uint32_t i = 0; i < op.n_used; ++i) sum += scratch.chosen[i];
    divisor = std::max(sum, 0x1p-14f);
  }
  for (uint32_t i = 0; i < op.n_used; ++i) weights[i] = scratch.chosen[i] / divisor * op.scale;
}

}  // namespace

uint64_t route_scratch_bytes(const Route& op) { return RouteScratch(nullptr, op).cutter.used(); }

void run_route(const Route& op, const HostContext& context) {
  const RouteScratch scratch(context.scratch.data(), op);
  const Share share = share_of(context.rows(op.logits), context.rank, context.n_ranks);
  for (uint64_t t = share.begin; t < share.end; ++t) route_token(op, context, scratch, t);
}

}  // namespace strata::device::cpu
