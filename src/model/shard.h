// Shards: how the members of a tensor-parallel group divide a model.
//
// Purpose: from shares (fractions of the work) to whole heads, columns, experts and tokens of the
// vocabulary for every member. q, k, v, gate and up are cut by output rows, the attention output
// and down by input columns (Megatron-LM, Shoeybi et al. 2019): every half of a block then needs
// one sum over the members. Borders fall on head groups and on the blocks of element types, so that
// every part is a matrix of the same type.
// Key-value heads are divided where there are enough of them, else the members that share one each
// hold a copy. Experts are cut inside where their width allows it, else spread whole.
// Errors: ErrorCode::usage for shares that make no sense.
// Threads: pure functions, plain data.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/spec.h"

namespace strata::model {

// Those of something counted from begin to before end.
struct Interval {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t size() const { return end - begin; }
  bool empty() const { return begin == end; }
  bool operator==(const Interval&) const = default;
};

// What of a weight [columns, rows, matrices].
struct WeightPart {
  WeightId id = k_none;
  Interval columns, rows, matrices;
  bool operator==(const WeightPart&) const = default;
};

WeightPart whole(const ModelSpec& spec, WeightId id);
bool is_whole(const ModelSpec& spec, const WeightPart& part);
// The part as a weight of its own; its name says what it is of the whole.
device::WeightSpec spec_of(const ModelSpec& spec, const WeightPart& part);

// A member's part of one block. Any part may be empty.
struct BlockShard {
  Interval heads;     // query heads
  Interval kv_heads;  // those that its query heads read
  Interval ff;        // columns of the hidden layer, of every expert where there are experts
  Interval experts;   // whole experts
};

struct Shard {
  uint32_t member = 0;
  uint32_t members = 1;
  std::vector<BlockShard> blocks;  // by block
  Interval vocabulary;
};

// One shard per share; the shares need not add up to one, but must be finite, none below zero, and
// one above.
std::vector<Shard> cut(const ModelSpec& spec, std::span<const double> shares);

}  // namespace strata::model
