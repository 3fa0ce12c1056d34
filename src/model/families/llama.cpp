// Llama 2 and 3.x, Mistral, Mixtral and their kin.
#include <algorithm>

#include "base/error.h"
#include "model/families/builder.h"

namespace strata::model {

ModelSpec read_llama(SpecBuilder& builder) {
  read_trunk(builder);
  ModelSpec& spec = builder.spec();
  const auto n_layers = static_cast<uint32_t>(spec.blocks.size());
  const auto shapes = read_attention_shapes(builder, n_layers);
  const uint32_t head_dim = shapes[0].head_dim_k;
  const uint32_t rope = read_rope(builder, device::RopeStyle::norm, head_dim);
  const uint32_t n_rot = spec.ropes[rope].n_rot;
  for (const AttentionShape& shape : shapes) {
    if (n_rot != shape.head_dim_k) {
      fail(ErrorCode::bad_file, "key '{}' is {}, but must equal the head size {}",
           builder.key("rope.dimension_count"), n_rot, shape.head_dim_k);
    }
  }
  const WeightId factors = builder.optional_vector("rope_freqs.weight", n_rot / 2);
  spec.ropes[rope].factors = factors;

  const auto n_ff = builder.size_per_layer("feed_forward_length", n_layers, std::nullopt);
  const uint32_t n_experts = builder.count_or_zero("expert_count", 65536);
  const uint32_t n_used = n_experts > 0 ? builder.size("expert_used_count", n_experts) : 0;
  for (uint32_t i = 0; i < n_layers; ++i) {
    BlockSpec block;
    block.attention_norm = builder.vector(block_tensor(i, "attn_norm.weight"), spec.n_embd);
    block.attention = read_attention(builder, i, shapes[i], rope);
    block.ffn_norm = builder.vector(block_tensor(i, "ffn_norm.weight"), spec.n_embd);
    if (n_experts > 0) {
      block.experts = read_expert_ffn(builder, i, n_experts, n_used, n_ff[i]);
      block.experts->renormalise = true;
    } else {
      block.dense = read_dense_ffn(builder, i, n_ff[i]);
    }
    spec.blocks[i] = block;
  }
  return builder.finish();
}

}  // namespace strata::model
