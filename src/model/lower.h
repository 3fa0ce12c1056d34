// Lowering: from a ModelSpec to the Programs that devices run. One for all families.
//
// Purpose: a run of half blocks becomes one Program; a half block is attention or feed-forward with
// its norm and its addition to the residual stream. The final norm and the head are another, which
// runs only for the rows whose logits are asked for, a bounded number at a time. A member of a
// tensor-parallel group gets a Program over its shard, with an all_reduce in every half.
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "device/program.h"
#include "model/shard.h"
#include "model/spec.h"

namespace strata::model {

struct LowerOptions {
  // Half 2b is the attention of block b, 2b + 1 its feed-forward.
  uint32_t first_half = 0;
  uint32_t end_half = 0;
  bool embeds = false;    // begins with the embedding
  bool in_place = false;  // the output goes where the input came from
  ElementType type_k = ElementType::f16;
  ElementType type_v = ElementType::f16;
  uint32_t kv_block_tokens = 32;
  const Shard* shard = nullptr;  // null: the whole model
};

struct Lowered {
  device::Program program;
  std::vector<WeightPart> weights;  // of the model, by program weight
  std::vector<uint32_t> kv_blocks;  // model block of each of the program's KV layers
};

// Externals: 0 is the output [tokens, n_embd]; the input [tokens, n_embd] of a program that does
// not embed is 1, or 0 as well when it works in place.
Lowered lower_stage(const ModelSpec& spec, const LowerOptions& options);

// Externals: 0 is the last stage's output [tokens, n_embd], 1 the logits [outputs, n_vocab], or the
// shard's part of them.
Lowered lower_head(const ModelSpec& spec, const Shard* shard = nullptr);

// Externals: 0 is the last stage's output [tokens, n_embd], 1 the hidden states after the final
// norm [outputs, n_embd], such as the head takes. Every member of a group has the whole of them.
Lowered lower_hidden(const ModelSpec& spec);

}  // namespace strata::model
