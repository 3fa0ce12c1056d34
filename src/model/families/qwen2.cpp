// Qwen 2 and 2.5: half-split rope, biases on q, k and v.
#include "model/families/builder.h"

namespace strata::model {

ModelSpec read_qwen2(SpecBuilder& builder) {
  read_trunk(builder);
  ModelSpec& spec = builder.spec();
  const auto n_layers = static_cast<uint32_t>(spec.blocks.size());
  const auto shapes = read_attention_shapes(builder, n_layers);
  const uint32_t rope = read_rope(builder, device::RopeStyle::neox, shapes[0].head_dim_k);
  const auto n_ff = builder.size_per_layer("feed_forward_length", n_layers, std::nullopt);
  for (uint32_t i = 0; i < n_layers; ++i) {
    BlockSpec block;
    block.attention_norm = builder.vector(block_tensor(i, "attn_norm.weight"), spec.n_embd);
    block.attention = read_attention(builder, i, shapes[i], rope);
    block.ffn_norm = builder.vector(block_tensor(i, "ffn_norm.weight"), spec.n_embd);
    block.dense = read_dense_ffn(builder, i, n_ff[i]);
    spec.blocks[i] = block;
  }
  return builder.finish();
}

}  // namespace strata::model
