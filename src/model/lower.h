// Lowering: from a ModelSpec to the Programs that devices run. One for all families.
//
// Purpose: the blocks of a stage become one Program (embedding in front when it is the first
// stage), the final norm and the head another, which runs only for the rows whose logits are asked
// for, a bounded number at a time.
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "device/program.h"
#include "model/spec.h"

namespace strata::model {

struct LowerOptions {
  uint32_t first_block = 0;
  uint32_t end_block = 0;  // one past the last
  ElementType type_k = ElementType::f16;
  ElementType type_v = ElementType::f16;
  uint32_t kv_block_tokens = 32;
};

struct Lowered {
  device::Program program;
  std::vector<WeightId> weights;    // model weight of each program weight
  std::vector<uint32_t> kv_blocks;  // model block of each of the program's KV layers
};

// Externals of a stage's program: 0 is its output [tokens, n_embd]; 1, when it does not begin with
// block 0, its input [tokens, n_embd].
Lowered lower_stage(const ModelSpec& spec, const LowerOptions& options);

// Externals of the head's program: 0 is the last stage's output [tokens, n_embd], 1 the logits
// [outputs, n_vocab].
Lowered lower_head(const ModelSpec& spec);

}  // namespace strata::model
