// Pieces of a description that most families share.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "model/families/builder.h"

namespace strata::model {

void read_trunk(SpecBuilder& builder) {
  ModelSpec& spec = builder.spec();
  spec.blocks.resize(builder.size("block_count", SpecBuilder::k_max_layers));
  spec.n_embd = builder.size("embedding_length");
  spec.n_context = builder.size("context_length", UINT32_MAX);
  spec.norm_eps = static_cast<float>(builder.positive("attention.layer_norm_rms_epsilon"));

  // The vocabulary's size is the number of rows of the embedding table.
  uint64_t n_vocab = builder.metadata().find_uint(builder.key("vocab_size")).value_or(0);
  if (const auto* tokens = builder.metadata().find_strings("tokenizer.ggml.tokens")) {
    n_vocab = tokens->size();
  }
  n_vocab = builder.embedding_rows(n_vocab);
  if (n_vocab < 1 || n_vocab > SpecBuilder::k_max_dimension) {
    fail(ErrorCode::bad_file, "the vocabulary has {} tokens, but must have 1 to {}", n_vocab,
         SpecBuilder::k_max_dimension);
  }
  spec.n_vocab = static_cast<uint32_t>(n_vocab);

  spec.embedding =
      builder.matrix("token_embd.weight", {spec.n_embd, n_vocab}, Role::vocabulary_parallel);
  spec.output_norm = builder.vector("output_norm.weight", spec.n_embd);
  spec.head =
      builder.optional_matrix("output.weight", {spec.n_embd, n_vocab}, Role::vocabulary_parallel);
  spec.tied_head = spec.head == k_none;
  if (spec.tied_head) spec.head = spec.embedding;
  spec.head_bias = builder.optional_vector("output.bias", n_vocab, Role::vocabulary_parallel);
}

uint32_t read_rope(SpecBuilder& builder, device::RopeStyle style, uint32_t head_dim) {
  RopeSpec rope;
  rope.style = style;
  rope.n_rot = builder.size_or("rope.dimension_count", head_dim);
  if (rope.n_rot % 2 != 0 || rope.n_rot > head_dim) {
    fail(ErrorCode::bad_file, "key '{}' is {}, but must be even and at most the head size {}",
         builder.key("rope.dimension_count"), rope.n_rot, head_dim);
  }
  rope.base = builder.positive_or("rope.freq_base", 10000.0);
  const gguf::Metadata& metadata = builder.metadata();
  const std::string factor_key = metadata.has(builder.key("rope.scaling.factor"))
                                     ? "rope.scaling.factor"
                                     : "rope.scale_linear";
  // A factor of 0 means none, as files in the wild have it.
  const double factor = metadata.find_real(builder.key(factor_key)).value_or(1.0);
  if (!std::isfinite(factor) || factor < 0) {
    fail(ErrorCode::bad_file, "key '{}' is {}, but must be a finite number from 0 on",
         builder.key(factor_key), factor);
  }
  rope.factor = factor == 0 ? 1.0 : factor;
  rope.original_context = builder.size_or("rope.scaling.original_context_length",
                                          builder.size("context_length", UINT32_MAX), UINT32_MAX);
  rope.attn_factor = builder.positive_or("rope.scaling.attn_factor", 1.0);
  const std::string type(metadata.find_string(builder.key("rope.scaling.type")).value_or("linear"));
  if (type == "none") {
    rope.scaling = RopeScaling::none;
    rope.factor = 1;
  } else if (type == "linear") {
    rope.scaling = RopeScaling::linear;
  } else if (type == "yarn") {
    rope.scaling = RopeScaling::yarn;
    rope.beta_fast = builder.positive_or("rope.scaling.yarn_beta_fast", 32.0);
    rope.beta_slow = builder.positive_or("rope.scaling.yarn_beta_slow", 1.0);
    rope.ext_factor = metadata.find_real(builder.key("rope.scaling.yarn_ext_factor")).value_or(1.0);
    if (!(rope.ext_factor >= 0 && rope.ext_factor <= 1)) {
      fail(ErrorCode::bad_file, "key '{}' is {}, but must lie from 0 to 1",
           builder.key("rope.scaling.yarn_ext_factor"), rope.ext_factor);
    }
    rope.attn_factor *= builder.positive_or("rope.scaling.yarn_attn_factor", 1.0);
  } else {
    fail(ErrorCode::unsupported, "key '{}' is '{}'; known are none, linear and yarn",
         builder.key("rope.scaling.type"), printable(type));
  }
  builder.spec().ropes.push_back(rope);
  return static_cast<uint32_t>(builder.spec().ropes.size() - 1);
}

std::vector<AttentionShape> read_attention_shapes(SpecBuilder& builder, uint32_t n_layers) {
  const uint32_t n_embd = builder.spec().n_embd;
  const auto heads = builder.size_per_layer("attention.head_count", n_layers, std::nullopt);
  const bool has_kv = builder.metadata().has(builder.key("attention.head_count_kv"));
  const auto kv_heads =
      has_kv ? builder.size_per_layer("attention.head_count_kv", n_layers, std::nullopt) : heads;
  std::vector<AttentionShape> shapes;
  for (uint32_t i = 0; i < n_layers; ++i) {
    AttentionShape shape;
    shape.n_heads = heads[i];
    shape.n_kv_heads = kv_heads[i];
    if (shape.n_heads % shape.n_kv_heads != 0) {
      fail(ErrorCode::bad_file,
           "layer {}: {} attention heads cannot be shared by {} key-value heads", i, shape.n_heads,
           shape.n_kv_heads);
    }
    if (!builder.metadata().has(builder.key("attention.key_length")) &&
        n_embd % shape.n_heads != 0) {
      fail(ErrorCode::bad_file,
           "layer {}: width {} is not a multiple of {} heads, and '{}' is absent", i, n_embd,
           shape.n_heads, builder.key("attention.key_length"));
    }
    const uint32_t ratio = std::max(1u, n_embd / shape.n_heads);
    shape.head_dim_k = builder.size_or("attention.key_length", ratio, 65536);
    shape.head_dim_v = builder.size_or("attention.value_length", ratio, 65536);
    shapes.push_back(shape);
  }
  return shapes;
}

AttentionSpec read_attention(SpecBuilder& builder, uint32_t layer, const AttentionShape& shape,
                             uint32_t rope) {
  const uint64_t n_embd = builder.spec().n_embd;
  const uint64_t q_rows = uint64_t{shape.n_heads} * shape.head_dim_k;
  const uint64_t k_rows = uint64_t{shape.n_kv_heads} * shape.head_dim_k;
  const uint64_t v_rows = uint64_t{shape.n_kv_heads} * shape.head_dim_v;
  AttentionSpec attention;
  attention.n_heads = shape.n_heads;
  attention.n_kv_heads = shape.n_kv_heads;
  attention.head_dim_k = shape.head_dim_k;
  attention.head_dim_v = shape.head_dim_v;
  attention.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(shape.head_dim_k)));
  attention.rope = rope;
  const auto name = [&](const char* suffix) { return block_tensor(layer, suffix); };
  if (const std::string fused = name("attn_qkv.weight"); builder.has(fused)) {
    const uint64_t total = q_rows + k_rows + v_rows;
    const Role role = Role::column_parallel;
    attention.q = builder.rows_of(fused, "q", n_embd, total, 0, q_rows, role);
    attention.k = builder.rows_of(fused, "k", n_embd, total, q_rows, k_rows, role);
    attention.v = builder.rows_of(fused, "v", n_embd, total, q_rows + k_rows, v_rows, role);
    if (const std::string bias = name("attn_qkv.bias"); builder.has(bias)) {
      attention.q_bias = builder.elements_of(bias, "q", total, 0, q_rows, role);
      attention.k_bias = builder.elements_of(bias, "k", total, q_rows, k_rows, role);
      attention.v_bias = builder.elements_of(bias, "v", total, q_rows + k_rows, v_rows, role);
    }
  } else {
    const auto projection = [&](const char* which, uint64_t rows, WeightId& weight,
                                WeightId& bias) {
      const std::string base = name(which);
      weight = builder.matrix(base + ".weight", {n_embd, rows}, Role::column_parallel);
      bias = builder.optional_vector(base + ".bias", rows, Role::column_parallel);
    };
    projection("attn_q", q_rows, attention.q, attention.q_bias);
    projection("attn_k", k_rows, attention.k, attention.k_bias);
    projection("attn_v", v_rows, attention.v, attention.v_bias);
  }
  const uint64_t o_columns = uint64_t{shape.n_heads} * shape.head_dim_v;
  attention.output =
      builder.matrix(name("attn_output.weight"), {o_columns, n_embd}, Role::row_parallel);
  attention.output_bias = builder.optional_vector(name("attn_output.bias"), n_embd);
  return attention;
}

DenseFfn read_dense_ffn(SpecBuilder& builder, uint32_t layer, uint32_t n_ff) {
  const uint64_t n_embd = builder.spec().n_embd;
  const auto name = [&](const char* suffix) { return block_tensor(layer, suffix); };
  DenseFfn ffn;
  ffn.n_ff = n_ff;
  ffn.gate = builder.matrix(name("ffn_gate.weight"), {n_embd, n_ff}, Role::column_parallel);
  ffn.up = builder.matrix(name("ffn_up.weight"), {n_embd, n_ff}, Role::column_parallel);
  ffn.down = builder.matrix(name("ffn_down.weight"), {n_ff, n_embd}, Role::row_parallel);
  ffn.gate_bias = builder.optional_vector(name("ffn_gate.bias"), n_ff, Role::column_parallel);
  ffn.up_bias = builder.optional_vector(name("ffn_up.bias"), n_ff, Role::column_parallel);
  ffn.down_bias = builder.optional_vector(name("ffn_down.bias"), n_embd);
  return ffn;
}

ExpertFfn read_expert_ffn(SpecBuilder& builder, uint32_t layer, uint32_t n_experts, uint32_t n_used,
                          uint32_t n_ff) {
  const uint64_t n_embd = builder.spec().n_embd;
  const auto name = [&](const char* suffix) { return block_tensor(layer, suffix); };
  if (builder.has(name("ffn_gate.0.weight"))) {
    fail(ErrorCode::unsupported,
         "tensor '{}': experts as separate tensors are an old layout; convert the model again",
         name("ffn_gate.0.weight"));
  }
  if (uint64_t{n_used} * n_ff > SpecBuilder::k_max_dimension) {
    fail(ErrorCode::bad_file, "layer {}: {} experts of width {} at once are more than {}", layer,
         n_used, n_ff, SpecBuilder::k_max_dimension);
  }
  ExpertFfn ffn;
  ffn.n_experts = n_experts;
  ffn.n_used = n_used;
  ffn.n_ff = n_ff;
  ffn.router = builder.matrix(name("ffn_gate_inp.weight"), {n_embd, n_experts}, Role::replicated);
  ffn.gate =
      builder.matrix(name("ffn_gate_exps.weight"), {n_embd, n_ff, n_experts}, Role::expert_column);
  ffn.up =
      builder.matrix(name("ffn_up_exps.weight"), {n_embd, n_ff, n_experts}, Role::expert_column);
  ffn.down =
      builder.matrix(name("ffn_down_exps.weight"), {n_ff, n_embd, n_experts}, Role::expert_row);
  return ffn;
}

}  // namespace strata::model
