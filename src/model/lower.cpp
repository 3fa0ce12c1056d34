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

// Builds one Program: hands out value ids, maps parts of model weights to program weights.
class Lowering {
 public:
  Lowering(const ModelSpec& spec, const LowerOptions& options)
      : spec_(spec), options_(options), shard_(options.shard) {}

  ValueId value(std::string name, uint32_t width, Rows rows = Rows::tokens) {
    out_.program.values.push_back({std::move(name), width, rows, device::Place::arena, 0});
    return static_cast<ValueId>(out_.program.values.size() - 1);
  }
  ValueId external(std::string name, uint32_t width, Rows rows, uint32_t index) {
    out_.program.values.push_back({std::move(name), width, rows, device::Place::external, index});
    out_.program.n_external = std::max(out_.program.n_external, index + 1);
    return static_cast<ValueId>(out_.program.values.size() - 1);
  }
  WeightId weight(WeightId id) { return id == k_none ? k_none : weight(whole(spec_, id)); }
  WeightId weight(const WeightPart& part) {
    for (size_t i = 0; i < out_.weights.size(); ++i) {
      if (out_.weights[i] == part) return static_cast<WeightId>(i);
    }
    out_.weights.push_back(part);
    out_.program.weights.push_back(spec_of(spec_, part));
    return static_cast<WeightId>(out_.weights.size() - 1);
  }
  WeightId rows_of(WeightId id, uint64_t begin, uint64_t end) {
    WeightPart part = whole(spec_, id);
    part.rows = {begin, end};
    return weight(part);
  }
  // Columns of a matrix, elements of a vector.
  WeightId columns_of(WeightId id, uint64_t begin, uint64_t end) {
    if (id == k_none) return k_none;
    WeightPart part = whole(spec_, id);
    part.columns = {begin, end};
    return weight(part);
  }
  void op(device::Op one) { out_.program.ops.push_back(std::move(one)); }

  ValueId linear(std::string name, ValueId in, WeightId matrix, WeightId bias) {
    const auto n_out = static_cast<uint32_t>(out_.program.weights[matrix].dims[1]);
    const ValueId out = value(std::move(name), n_out, out_.program.values[in].rows);
    op(device::Linear{in, matrix, bias, out});
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

  // The micro-batch's embeddings, in `into` when given.
  ValueId embedding(ValueId into = k_none);
  // The residual stream after half a block, in `into` when given.
  ValueId half(uint32_t index, ValueId x, ValueId into);
  Lowered take() { return std::move(out_); }
  Lowered& out() { return out_; }

 private:
  static std::string name_of(uint32_t block, const char* what) {
    return "blk." + std::to_string(block) + "." + what;
  }
  // What is added once in a group is added by its first member.
  WeightId once(WeightId id) {
    return id == k_none || (shard_ != nullptr && shard_->member > 0) ? k_none : weight(id);
  }
  BlockShard block_shard(uint32_t block) const;

  ValueId rope_table(uint32_t rope);
  // These give k_none when the shard has no part in it.
  ValueId attention(uint32_t block, ValueId normed);
  ValueId dense(uint32_t block, ValueId normed);
  ValueId experts(uint32_t block, ValueId normed);

  const ModelSpec& spec_;
  const LowerOptions& options_;
  const Shard* shard_;
  Lowered out_;
  std::map<uint32_t, ValueId> tables_;
};

BlockShard Lowering::block_shard(uint32_t block) const {
  if (shard_ != nullptr) return shard_->blocks[block];
  const BlockSpec& b = spec_.blocks[block];
  BlockShard all;
  all.heads = {0, b.attention.n_heads};
  all.kv_heads = {0, b.attention.n_kv_heads};
  all.ff = {0, b.dense ? b.dense->n_ff : b.experts->n_ff};
  all.experts = {0, b.experts ? b.experts->n_experts : 0};
  return all;
}

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

ValueId Lowering::embedding(ValueId into) {
  const ValueId x = into != k_none ? into : value("embedding", spec_.n_embd);
  if (shard_ == nullptr) {
    op(device::Embed{weight(spec_.embedding), x, 0});
    return x;
  }
  // Every member has the rows of its part of the vocabulary; their sum has all.
  device::AllReduce sum;
  sum.out = x;
  if (!shard_->vocabulary.empty()) {
    sum.partial = value("embedding_part", spec_.n_embd);
    const Interval& part = shard_->vocabulary;
    op(device::Embed{rows_of(spec_.embedding, part.begin, part.end), sum.partial,
                     static_cast<uint32_t>(part.begin)});
  }
  op(sum);
  return x;
}

ValueId Lowering::attention(uint32_t block, ValueId normed) {
  const AttentionSpec& a = spec_.blocks[block].attention;
  const BlockShard shard = block_shard(block);
  if (shard.heads.empty()) return k_none;
  const auto n_heads = static_cast<uint32_t>(shard.heads.size());
  const auto n_kv_heads = static_cast<uint32_t>(shard.kv_heads.size());
  const RopeSpec& rope = spec_.ropes[a.rope];
  const ValueId table = rope_table(a.rope);
  // The three projections stand together: a device may read their input once.
  const auto project = [&](const char* name, WeightId matrix, WeightId bias, const Interval& heads,
                           uint64_t head_dim) {
    const uint64_t begin = heads.begin * head_dim, end = heads.end * head_dim;
    return linear(name_of(block, name), normed, rows_of(matrix, begin, end),
                  columns_of(bias, begin, end));
  };
  const ValueId q = project("q", a.q, a.q_bias, shard.heads, a.head_dim_k);
  const ValueId k = project("k", a.k, a.k_bias, shard.kv_heads, a.head_dim_k);
  const ValueId v = project("v", a.v, a.v_bias, shard.kv_heads, a.head_dim_v);
  head_norm(q, a.q_norm, a.head_dim_k);
  op(device::Rope{q, table, n_heads, a.head_dim_k, rope.n_rot, rope.style});
  head_norm(k, a.k_norm, a.head_dim_k);
  op(device::Rope{k, table, n_kv_heads, a.head_dim_k, rope.n_rot, rope.style});

  device::KvLayer layer;
  layer.n_kv_heads = n_kv_heads;
  layer.head_dim_k = a.head_dim_k;
  layer.head_dim_v = a.head_dim_v;
  layer.type_k = options_.type_k;
  layer.type_v = options_.type_v;
  layer.block_tokens = options_.kv_block_tokens;
  const auto index = static_cast<uint32_t>(out_.program.kv_layers.size());
  out_.program.kv_layers.push_back(layer);
  out_.kv_blocks.push_back(block);
  op(device::StoreKv{k, v, index});

  const ValueId mixed = value(name_of(block, "attention"), n_heads * a.head_dim_v);
  device::Attention attention;
  attention.q = q;
  attention.out = mixed;
  attention.layer = index;
  attention.n_heads = n_heads;
  attention.group = a.n_heads / a.n_kv_heads;
  attention.first_head =
      static_cast<uint32_t>(shard.heads.begin - shard.kv_heads.begin * attention.group);
  attention.scale = a.scale;
  attention.softcap = a.softcap;
  attention.window = a.window;
  op(attention);
  const uint64_t dim = a.head_dim_v;
  return linear(name_of(block, "attention_output"), mixed,
                columns_of(a.output, shard.heads.begin * dim, shard.heads.end * dim),
                once(a.output_bias));
}

ValueId Lowering::dense(uint32_t block, ValueId normed) {
  const DenseFfn& ffn = *spec_.blocks[block].dense;
  const Interval part = block_shard(block).ff;
  if (part.empty()) return k_none;
  const auto project = [&](const char* name, WeightId matrix, WeightId bias) {
    return linear(name_of(block, name), normed, rows_of(matrix, part.begin, part.end),
                  columns_of(bias, part.begin, part.end));
  };
  const ValueId gate = project("gate", ffn.gate, ffn.gate_bias);
  const ValueId up = project("up", ffn.up, ffn.up_bias);
  op(device::Gate{gate, up, gate, ffn.activation});
  return linear(name_of(block, "down"), gate, columns_of(ffn.down, part.begin, part.end),
                once(ffn.down_bias));
}

ValueId Lowering::experts(uint32_t block, ValueId normed) {
  const ExpertFfn& ffn = *spec_.blocks[block].experts;
  const BlockShard shard = block_shard(block);
  if (shard.ff.empty() || shard.experts.empty()) return k_none;
  const ValueId logits = linear(name_of(block, "router"), normed, weight(ffn.router), k_none);
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
  const auto n_ff = static_cast<uint32_t>(shard.ff.size());
  const auto part_of = [&](WeightId id, bool columns) {
    WeightPart part = whole(spec_, id);
    (columns ? part.columns : part.rows) = shard.ff;
    part.matrices = shard.experts;
    return weight(part);
  };
  device::Experts experts;
  experts.in = normed;
  experts.ids = route.ids;
  experts.weights = route.weights;
  experts.hidden = value(name_of(block, "expert_hidden"), ffn.n_used * n_ff);
  experts.out = value(name_of(block, "experts"), spec_.n_embd);
  experts.gate = part_of(ffn.gate, false);
  experts.up = part_of(ffn.up, false);
  experts.down = part_of(ffn.down, true);
  experts.n_experts = ffn.n_experts;
  experts.n_used = ffn.n_used;
  experts.n_ff = n_ff;
  experts.first_expert = static_cast<uint32_t>(shard.experts.begin);
  experts.activation = ffn.activation;
  op(experts);
  return experts.out;
}

ValueId Lowering::half(uint32_t index, ValueId x, ValueId into) {
  const uint32_t block = index / 2;
  const BlockSpec& b = spec_.blocks[block];
  const bool attends = index % 2 == 0;
  const ValueId normed = norm(name_of(block, attends ? "attention_norm" : "ffn_norm"), x,
                              attends ? b.attention_norm : b.ffn_norm);
  const ValueId y = attends   ? attention(block, normed)
                    : b.dense ? dense(block, normed)
                              : experts(block, normed);
  const ValueId out =
      into != k_none ? into : value(name_of(block, attends ? "residual" : "output"), spec_.n_embd);
  if (shard_ == nullptr) {
    op(device::Add{x, y, out});
  } else {
    op(device::AllReduce{y, x, out});
  }
  return out;
}

std::string stage_name(const LowerOptions& options) {
  if (options.first_half == options.end_half) return "embedding";
  const auto name = [](uint32_t half, bool end) {
    const bool whole = (half % 2 == 1) == end;
    return std::to_string(half / 2) + (whole ? "" : end ? " (attention)" : " (feed-forward)");
  };
  return "blocks " + name(options.first_half, false) + "-" + name(options.end_half - 1, true);
}

}  // namespace

Lowered lower_stage(const ModelSpec& spec, const LowerOptions& options) {
  const bool has_halves = options.first_half < options.end_half;
  if (options.end_half > 2 * spec.blocks.size() || options.first_half > options.end_half ||
      (!has_halves && !options.embeds)) {
    fail(ErrorCode::internal, "halves {} to {} of {} blocks are not a stage", options.first_half,
         options.end_half, spec.blocks.size());
  }
  Lowering lowering(spec, options);
  lowering.out().program.name = stage_name(options);
  const ValueId output = lowering.external("output", spec.n_embd, Rows::tokens, 0);
  ValueId x;
  if (options.embeds) {
    x = lowering.embedding(has_halves ? k_none : output);
  } else if (options.in_place) {
    x = output;
  } else {
    x = lowering.external("input", spec.n_embd, Rows::tokens, 1);
  }
  for (uint32_t i = options.first_half; i < options.end_half; ++i) {
    x = lowering.half(i, x, i + 1 == options.end_half ? output : k_none);
  }
  return lowering.take();
}

Lowered lower_head(const ModelSpec& spec, const Shard* shard) {
  const Interval all{0, spec.n_vocab};
  const Interval part = shard == nullptr ? all : shard->vocabulary;
  LowerOptions options;
  options.shard = shard;
  Lowering lowering(spec, options);
  lowering.out().program.name = "head";
  const ValueId hidden = lowering.external("hidden", spec.n_embd, Rows::tokens, 0);
  const ValueId logits =
      lowering.external("logits", static_cast<uint32_t>(part.size()), Rows::outputs, 1);
  const ValueId rows = lowering.value("rows", spec.n_embd, Rows::outputs);
  lowering.op(device::Gather{hidden, rows});
  const ValueId normed = lowering.norm("output_norm", rows, spec.output_norm);
  lowering.op(device::Linear{normed, lowering.rows_of(spec.head, part.begin, part.end),
                             lowering.columns_of(spec.head_bias, part.begin, part.end), logits});
  return lowering.take();
}

Lowered lower_hidden(const ModelSpec& spec) {
  const LowerOptions options;
  Lowering lowering(spec, options);
  lowering.out().program.name = "hidden states";
  const ValueId stream = lowering.external("stream", spec.n_embd, Rows::tokens, 0);
  const ValueId hidden = lowering.external("hidden", spec.n_embd, Rows::outputs, 1);
  lowering.op(device::Gather{stream, hidden});
  // In place: the program needs no memory of its own.
  lowering.op(device::RmsNorm{hidden, lowering.weight(spec.output_norm), hidden, spec.n_embd,
                              spec.norm_eps});
  return lowering.take();
}

}  // namespace strata::model
