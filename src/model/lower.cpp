#include "model/lower.h"

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/error.h"

namespace strata::model {
namespace {

using device::Rows;
using device::ValueId;

// Builds one Program: hands out value ids, maps model weights to program weights.
class Lowering {
 public:
  explicit Lowering(const ModelSpec& spec) : spec_(spec) {}

  ValueId value(std::string name, uint32_t width, Rows rows = Rows::tokens) {
    out_.program.values.push_back({std::move(name), width, rows, device::Place::arena, 0});
    return static_cast<ValueId>(out_.program.values.size() - 1);
  }
  ValueId external(std::string name, uint32_t width, Rows rows, uint32_t index) {
    out_.program.values.push_back({std::move(name), width, rows, device::Place::external, index});
    out_.program.n_external = std::max(out_.program.n_external, index + 1);
    return static_cast<ValueId>(out_.program.values.size() - 1);
  }
  WeightId weight(WeightId id) {
    if (id == k_none) return k_none;
    const auto [found, fresh] = known_.try_emplace(id, static_cast<WeightId>(out_.weights.size()));
    if (fresh) {
      out_.weights.push_back(id);
      out_.program.weights.push_back(spec_.weights[id].spec);
    }
    return found->second;
  }
  void op(device::Op one) { out_.program.ops.push_back(std::move(one)); }

  ValueId linear(std::string name, ValueId in, WeightId matrix, WeightId bias) {
    const auto n_out = static_cast<uint32_t>(spec_.weights[matrix].spec.dims[1]);
    const ValueId out = value(std::move(name), n_out, out_.program.values[in].rows);
    op(device::Linear{in, weight(matrix), weight(bias), out});
    return out;
  }
  ValueId norm(std::string name, ValueId in, WeightId id) {
    const uint32_t width = out_.program.values[in].width;
    const ValueId out = value(std::move(name), width, out_.program.values[in].rows);
    op(device::RmsNorm{in, weight(id), out, width, spec_.norm_eps});
    return out;
  }
  void head_norm(ValueId x, WeightId id, uint32_t head_dim) {
    if (id != k_none) op(device::RmsNorm{x, weight(id), x, head_dim, spec_.norm_eps});
  }
  // out = a + b into a new value, or into `into`.
  ValueId add(std::string name, ValueId a, ValueId b, ValueId into = k_none) {
    const ValueId out = into != k_none ? into : value(std::move(name), spec_.n_embd);
    op(device::Add{a, b, out});
    return out;
  }
  ValueId rope_table(uint32_t rope);

  ValueId attention(uint32_t block, ValueId normed, const LowerOptions& options);
  ValueId dense(uint32_t block, ValueId normed);
  ValueId experts(uint32_t block, ValueId normed);

  Lowered take() { return std::move(out_); }
  Lowered& out() { return out_; }

 private:
  static std::string name_of(uint32_t block, const char* what) {
    return "blk." + std::to_string(block) + "." + what;
  }

  const ModelSpec& spec_;
  Lowered out_;
  std::map<WeightId, WeightId> known_;
  std::map<uint32_t, ValueId> tables_;
};

ValueId Lowering::rope_table(uint32_t index) {
  if (const auto found = tables_.find(index); found != tables_.end()) return found->second;
  const RopeSpec& rope = spec_.ropes[index];
  const ValueId out = value("rope." + std::to_string(index), rope.n_rot);
  device::RopeTable table;
  table.out = out;
  table.inverse_frequencies =
      std::make_shared<const std::vector<double>>(inverse_frequencies(rope));
  table.factors = weight(rope.factors);
  table.magnitude = rope_magnitude(rope);
  op(std::move(table));
  tables_.emplace(index, out);
  return out;
}

ValueId Lowering::attention(uint32_t block, ValueId normed, const LowerOptions& options) {
  const AttentionSpec& a = spec_.blocks[block].attention;
  const RopeSpec& rope = spec_.ropes[a.rope];
  const ValueId table = rope_table(a.rope);
  // The three projections stand together: a device may read their input once.
  const ValueId q = linear(name_of(block, "q"), normed, a.q, a.q_bias);
  const ValueId k = linear(name_of(block, "k"), normed, a.k, a.k_bias);
  const ValueId v = linear(name_of(block, "v"), normed, a.v, a.v_bias);
  head_norm(q, a.q_norm, a.head_dim_k);
  op(device::Rope{q, table, a.n_heads, a.head_dim_k, rope.n_rot, rope.style});
  head_norm(k, a.k_norm, a.head_dim_k);
  op(device::Rope{k, table, a.n_kv_heads, a.head_dim_k, rope.n_rot, rope.style});

  device::KvLayer layer;
  layer.n_kv_heads = a.n_kv_heads;
  layer.head_dim_k = a.head_dim_k;
  layer.head_dim_v = a.head_dim_v;
  layer.type_k = options.type_k;
  layer.type_v = options.type_v;
  layer.block_tokens = options.kv_block_tokens;
  const auto index = static_cast<uint32_t>(out_.program.kv_layers.size());
  out_.program.kv_layers.push_back(layer);
  out_.kv_blocks.push_back(block);
  op(device::StoreKv{k, v, index});

  const ValueId mixed = value(name_of(block, "attention"), a.n_heads * a.head_dim_v);
  device::Attention attention;
  attention.q = q;
  attention.out = mixed;
  attention.layer = index;
  attention.n_heads = a.n_heads;
  attention.scale = a.scale;
  attention.softcap = a.softcap;
  attention.window = a.window;
  op(attention);
  return linear(name_of(block, "attention_output"), mixed, a.output, a.output_bias);
}

ValueId Lowering::dense(uint32_t block, ValueId normed) {
  const DenseFfn& ffn = *spec_.blocks[block].dense;
  const ValueId gate = linear(name_of(block, "gate"), normed, ffn.gate, ffn.gate_bias);
  const ValueId up = linear(name_of(block, "up"), normed, ffn.up, ffn.up_bias);
  op(device::Gate{gate, up, gate, ffn.activation});
  return linear(name_of(block, "down"), gate, ffn.down, ffn.down_bias);
}

ValueId Lowering::experts(uint32_t block, ValueId normed) {
  const ExpertFfn& ffn = *spec_.blocks[block].experts;
  const ValueId logits = linear(name_of(block, "router"), normed, ffn.router, k_none);
  device::Route route;
  route.logits = logits;
  route.ids = value(name_of(block, "expert_ids"), ffn.n_used);
  route.weights = value(name_of(block, "expert_weights"), ffn.n_used);
  route.selection_bias = weight(ffn.selection_bias);
  route.n_experts = ffn.n_experts;
  route.n_used = ffn.n_used;
  route.gating = ffn.gating;
  route.renormalise = ffn.renormalise;
  route.scale = ffn.scale;
  op(route);
  device::Experts experts;
  experts.in = normed;
  experts.ids = route.ids;
  experts.weights = route.weights;
  experts.hidden = value(name_of(block, "expert_hidden"), ffn.n_used * ffn.n_ff);
  experts.out = value(name_of(block, "experts"), spec_.n_embd);
  experts.gate = weight(ffn.gate);
  experts.up = weight(ffn.up);
  experts.down = weight(ffn.down);
  experts.n_experts = ffn.n_experts;
  experts.n_used = ffn.n_used;
  experts.n_ff = ffn.n_ff;
  experts.activation = ffn.activation;
  op(experts);
  return experts.out;
}

}  // namespace

Lowered lower_stage(const ModelSpec& spec, const LowerOptions& options) {
  if (options.first_block >= options.end_block || options.end_block > spec.blocks.size()) {
    fail(ErrorCode::internal, "blocks {} to {} of {} are not a stage", options.first_block,
         options.end_block, spec.blocks.size());
  }
  Lowering lowering(spec);
  lowering.out().program.name =
      "blocks " + std::to_string(options.first_block) + "-" + std::to_string(options.end_block - 1);
  const ValueId output = lowering.external("output", spec.n_embd, Rows::tokens, 0);
  ValueId x;
  if (options.first_block == 0) {
    x = lowering.value("embedding", spec.n_embd);
    lowering.op(device::Embed{lowering.weight(spec.embedding), x});
  } else {
    x = lowering.external("input", spec.n_embd, Rows::tokens, 1);
  }
  for (uint32_t i = options.first_block; i < options.end_block; ++i) {
    const BlockSpec& block = spec.blocks[i];
    const std::string prefix = "blk." + std::to_string(i) + ".";
    const ValueId a = lowering.norm(prefix + "attention_norm", x, block.attention_norm);
    x = lowering.add(prefix + "residual", x, lowering.attention(i, a, options));
    const ValueId f = lowering.norm(prefix + "ffn_norm", x, block.ffn_norm);
    const ValueId y = block.dense ? lowering.dense(i, f) : lowering.experts(i, f);
    x = lowering.add(prefix + "output", x, y, i + 1 == options.end_block ? output : k_none);
  }
  return lowering.take();
}

Lowered lower_head(const ModelSpec& spec) {
  Lowering lowering(spec);
  lowering.out().program.name = "head";
  const ValueId hidden = lowering.external("hidden", spec.n_embd, Rows::tokens, 0);
  const ValueId logits = lowering.external("logits", spec.n_vocab, Rows::outputs, 1);
  const ValueId rows = lowering.value("rows", spec.n_embd, Rows::outputs);
  lowering.op(device::Gather{hidden, rows});
  const ValueId normed = lowering.norm("output_norm", rows, spec.output_norm);
  lowering.op(
      device::Linear{normed, lowering.weight(spec.head), lowering.weight(spec.head_bias), logits});
  return lowering.take();
}

}  // namespace strata::model
