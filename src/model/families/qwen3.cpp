// Qwen 3, dense and with experts: per-head norms of q and k before a half-split rope.
#include "base/error.h"
#include "model/families/builder.h"

namespace strata::model {
namespace {

// Everything up to the feed-forward part, which the two families do not share.
void read_attention_part(SpecBuilder& builder) {
  read_trunk(builder);
  ModelSpec& spec = builder.spec();
  const auto n_layers = static_cast<uint32_t>(spec.blocks.size());
  const auto shapes = read_attention_shapes(builder, n_layers);
  const uint32_t rope = read_rope(builder, device::RopeStyle::neox, shapes[0].head_dim_k);
  for (uint32_t i = 0; i < n_layers; ++i) {
    BlockSpec& block = spec.blocks[i];
    block.attention_norm = builder.vector(block_tensor(i, "attn_norm.weight"), spec.n_embd);
    block.attention = read_attention(builder, i, shapes[i], rope);
    block.attention.q_norm =
        builder.vector(block_tensor(i, "attn_q_norm.weight"), shapes[i].head_dim_k);
    block.attention.k_norm =
        builder.vector(block_tensor(i, "attn_k_norm.weight"), shapes[i].head_dim_k);
    block.ffn_norm = builder.vector(block_tensor(i, "ffn_norm.weight"), spec.n_embd);
  }
}

}  // namespace

ModelSpec read_qwen3(SpecBuilder& builder) {
  read_attention_part(builder);
  std::vector<BlockSpec>& blocks = builder.spec().blocks;
  const auto n_layers = static_cast<uint32_t>(blocks.size());
  const auto n_ff = builder.size_per_layer("feed_forward_length", n_layers, std::nullopt);
  for (uint32_t i = 0; i < n_layers; ++i) blocks[i].dense = read_dense_ffn(builder, i, n_ff[i]);
  return builder.finish();
}

ModelSpec read_qwen3moe(SpecBuilder& builder) {
  read_attention_part(builder);
  std::vector<BlockSpec>& blocks = builder.spec().blocks;
  const uint32_t n_experts = builder.size("expert_count", 65536);
  const uint32_t n_used = builder.size("expert_used_count", n_experts);
  uint32_t n_ff = builder.count_or_zero("expert_feed_forward_length");
  if (n_ff == 0) n_ff = builder.size("feed_forward_length") / n_used;
  if (n_ff == 0) {
    fail(ErrorCode::bad_file, "key '{}' is absent and '{}' does not give an expert's width",
         builder.key("expert_feed_forward_length"), builder.key("feed_forward_length"));
  }
  for (uint32_t i = 0; i < blocks.size(); ++i) {
    blocks[i].experts = read_expert_ffn(builder, i, n_experts, n_used, n_ff);
    blocks[i].experts->renormalise = true;
  }
  return builder.finish();
}

}  // namespace strata::model
