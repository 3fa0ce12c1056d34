#include "plan/cost.h"

#include <cmath>
#include <initializer_list>

#include "tensor/types.h"

namespace strata::plan {
namespace {

class Sum {
 public:
  Sum(const model::ModelSpec& spec, const StepWork& work) : spec_(spec), work_(work) {}

  // Weights that every token goes through whole.
  void add(std::initializer_list<model::WeightId> ids) {
    for (const model::WeightId id : ids) add_one(id, work_.tokens, 1);
  }
  // `rows` rows go through the matrix, of which a share is read.
  void add_one(model::WeightId id, double rows, double share_read) {
    if (id == model::k_none) return;
    const device::WeightSpec& weight = spec_.weights[id].spec;
    cost.weight_bytes += static_cast<double>(weight.bytes()) * share_read;
    if (weight.rows() > 1) {
      cost.operations += 2 * static_cast<double>(weight.dims[0] * weight.dims[1]) * rows;
    }
  }

  void add_attention(const model::AttentionSpec& a, ElementType type_k, ElementType type_v) {
    add({a.q, a.k, a.v, a.output, a.q_bias, a.k_bias, a.v_bias, a.output_bias, a.q_norm, a.k_norm});
    const double position =
        static_cast<double>(row_bytes(type_k, a.head_dim_k) + row_bytes(type_v, a.head_dim_v)) *
        a.n_kv_heads;
    cost.kv_bytes += position * work_.cached;
    cost.operations += 2.0 * a.n_heads * (a.head_dim_k + a.head_dim_v) * work_.attended;
  }

  void add_experts(const model::ExpertFfn& ffn) {
    add({ffn.router, ffn.selection_bias});
    const double used = static_cast<double>(ffn.n_used) / ffn.n_experts;
    const double reached = 1 - std::pow(1 - used, work_.tokens);
    for (const model::WeightId id : {ffn.gate, ffn.up, ffn.down}) {
      add_one(id, work_.tokens * ffn.n_used, reached);
    }
  }

  StepCost cost;

 private:
  const model::ModelSpec& spec_;
  const StepWork& work_;
};

}  // namespace

StepCost& StepCost::operator+=(const StepCost& other) {
  weight_bytes += other.weight_bytes;
  kv_bytes += other.kv_bytes;
  operations += other.operations;
  return *this;
}

StepWork appended(uint64_t past, uint64_t n, uint64_t outputs) {
  const auto before = static_cast<double>(past);
  const auto count = static_cast<double>(n);
  return {count, static_cast<double>(outputs), count * before + count * (count + 1) / 2,
          before + count};
}

StepCost cost_of(const model::ModelSpec& spec, ElementType type_k, ElementType type_v,
                 const StepWork& work) {
  Sum sum(spec, work);
  for (const model::BlockSpec& block : spec.blocks) {
    sum.add({block.attention_norm, block.ffn_norm});
    sum.add_attention(block.attention, type_k, type_v);
    if (block.dense) {
      const model::DenseFfn& f = *block.dense;
      sum.add({f.gate, f.up, f.down, f.gate_bias, f.up_bias, f.down_bias});
    }
    if (block.experts) sum.add_experts(*block.experts);
  }
  // Of the embedding one row per token.
  const device::WeightSpec& table = spec.weights[spec.embedding].spec;
  sum.cost.weight_bytes += static_cast<double>(row_bytes(table.type, table.dims[0])) * work.tokens;
  if (work.outputs > 0) {
    sum.add_one(spec.output_norm, work.outputs, 1);
    sum.add_one(spec.head, work.outputs, 1);
    sum.add_one(spec.head_bias, work.outputs, 1);
  }
  return sum.cost;
}

}  // namespace strata::plan
