#include <limits>

#include "device/cpu/cpu_ops.h"
#include "device/cpu/ops/multiply.h"

namespace strata::device::cpu {
namespace {

struct ExpertsScratch {
  explicit ExpertsScratch(std::byte* base)
      : cutter(base),
        multiply(cutter),
        gate(cutter.take<float>(k_token_tile * k_row_block)),
        up(cutter.take<float>(k_token_tile * k_row_block)),
        tokens(cutter.take<const float*>(k_token_tile)),
        pairs(cutter.take<uint32_t>(k_token_tile)) {}

  ScratchCutter cutter;
  MultiplyScratch multiply;
  float* gate;
  float* up;
  const float** tokens;
  uint32_t* pairs;  // token * n_used + slot
};

// The tokens of the micro-batch by expert, without a list of all of them: experts are visited in
// ascending id, the tokens of each in tiles.
class Grouping {
 public:
  Grouping(const int32_t* ids, uint64_t n_pairs) : ids_(ids), n_pairs_(n_pairs) {}

  // The lowest id above `last`, or the greatest int32 when there is none.
  int32_t next_expert(int32_t last) const {
    int32_t best = std::numeric_limits<int32_t>::max();
    for (uint64_t i = 0; i < n_pairs_; ++i) {
      if (ids_[i] > last && ids_[i] < best) best = ids_[i];
    }
    return best;
  }

  // Collects up to k_token_tile pairs of the expert from `at` on; moves `at` behind them.
  size_t next_tile(int32_t expert, uint64_t& at, uint32_t* pairs) const {
    size_t n = 0;
    for (; at < n_pairs_ && n < k_token_tile; ++at) {
      if (ids_[at] == expert) pairs[n++] = static_cast<uint32_t>(at);
    }
    return n;
  }

  // Calls work(expert, pairs, n) for every tile of every expert that has tokens.
  template <class Work>
  void for_each_tile(uint32_t* pairs, Work work) const {
    for (int32_t e = next_expert(-1); e != std::numeric_limits<int32_t>::max();
         e = next_expert(e)) {
      uint64_t at = 0;
      while (const size_t n = next_tile(e, at, pairs)) work(static_cast<uint64_t>(e), n);
    }
  }

 private:
  const int32_t* ids_;
  uint64_t n_pairs_;
};

}  // namespace

uint64_t experts_scratch_bytes() { return ExpertsScratch(nullptr).cutter.used(); }

void run_experts(const Experts& op, const HostContext& context) {
  const KernelTable& table = kernels_of(context);
  const ExpertsScratch scratch(context.scratch.data());
  const uint64_t n_tokens = context.rows(op.in);
  const uint64_t n_embd = context.width(op.in);
  const Grouping grouping(context.i32(op.ids), n_tokens * op.n_used);
  const auto activation =
      op.activation == Activation::silu ? table.gate_silu : table.gate_gelu_tanh;

  // Hidden rows, one for each token and slot; every rank has its range of columns.
  const float* in = context.f32(op.in);
  float* hidden = context.f32(op.hidden);
  const Share ff = share_in_units(context, op.n_ff, k_strip_rows);
  grouping.for_each_tile(scratch.pairs, [&](uint64_t expert, size_t n) {
    const Matrix gate = matrix_of(context, op.gate, expert);
    const Matrix up = matrix_of(context, op.up, expert);
    for (size_t i = 0; i < n; ++i) {
      scratch.tokens[i] = in + scratch.pairs[i] / op.n_used * n_embd;
    }
    for (uint64_t r = ff.begin; r < ff.end; r += k_row_block) {
      const size_t n_rows = std::min<uint64_t>(k_row_block, ff.end - r);
      multiply(table, gate, r, n_rows, scratch.tokens, n, scratch.multiply, scratch.gate);
      multiply(table, up, r, n_rows, scratch.tokens, n, scratch.multiply, scratch.up);
      for (size_t i = 0; i < n; ++i) {
        activation(scratch.gate + i * k_row_block, scratch.up + i * k_row_block,
                   hidden + uint64_t{scratch.pairs[i]} * op.n_ff + r, n_rows);
      }
    }
  });
  context.barrier();

  // Down: every rank adds its range of output columns for all tokens, experts ascending.
  const float* weights = context.f32(op.weights);
  float* out = context.f32(op.out);
  const Share embd = share_in_units(context, n_embd, k_strip_rows);
  for (uint64_t t = 0; t < n_tokens; ++t) {
    std::fill(out + t * n_embd + embd.begin, out + t * n_embd + embd.end, 0.0f);
  }
  grouping.for_each_tile(scratch.pairs, [&](uint64_t expert, size_t n) {
    const Matrix down = matrix_of(context, op.down, expert);
    for (size_t i = 0; i < n; ++i) {
      scratch.tokens[i] = hidden + uint64_t{scratch.pairs[i]} * op.n_ff;
    }
    for (uint64_t r = embd.begin; r < embd.end; r += k_row_block) {
      const size_t n_rows = std::min<uint64_t>(k_row_block, embd.end - r);
      multiply(table, down, r, n_rows, scratch.tokens, n, scratch.multiply, scratch.gate);
      for (size_t i = 0; i < n; ++i) {
        const float weight = weights[scratch.pairs[i]];
        const float* sums = scratch.gate + i * k_row_block;
        float* to = out + scratch.pairs[i] / op.n_used * n_embd + r;
        for (size_t j = 0; j < n_rows; ++j) to[j] += weight * sums[j];
      }
    }
  });
}

}  // namespace strata::device::cpu
