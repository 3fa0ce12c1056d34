// Programs: flat lists of ops over values, and the plan of the memory that they need.
//
// Purpose: what a device compiles and runs. Shapes are static but for the number of rows: a value
// of kind `tokens` has one row per token of the micro-batch, one of kind `outputs` one row per
// asked-for position.
// Memory: plan_arena gives every arena value an offset by liveness; the arena takes exactly
// bytes_per_token * max_tokens + bytes_per_output * max_outputs bytes, known before anything is
// allocated. External values are buffers bound at run time (stage boundaries, logits).
// Threads: plain data, constant once built.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "device/ops.h"
#include "tensor/types.h"

namespace strata::device {

enum class Rows : uint8_t { tokens, outputs };
enum class Place : uint8_t { arena, external };

struct Value {
  std::string name;    // "blk.0.q", for messages and traces
  uint32_t width = 0;  // 4-byte elements per row (F32, or int32 for expert ids)
  Rows rows = Rows::tokens;
  Place place = Place::arena;
  uint32_t external = 0;  // index among the buffers bound at run time, when external
};

// A weight as the device sees it: a whole matrix [dims[0], dims[1], dims[2]], dims[0] contiguous.
struct WeightSpec {
  std::string name;
  ElementType type = ElementType::f32;
  std::array<uint64_t, 3> dims{1, 1, 1};

  uint64_t rows() const { return dims[1] * dims[2]; }
  uint64_t bytes() const { return row_bytes(type, dims[0]) * rows(); }
};

// One layer's part of the paged cache. Blocks hold `block_tokens` positions; within a layer's
// region keys lie as [block][kv head][token in block][head_dim_k], values likewise, keys first.
struct KvLayer {
  uint32_t n_kv_heads = 0;
  uint32_t head_dim_k = 0;
  uint32_t head_dim_v = 0;
  ElementType type_k = ElementType::f16;
  ElementType type_v = ElementType::f16;
  uint32_t block_tokens = 32;

  uint64_t k_row_bytes() const { return row_bytes(type_k, head_dim_k); }
  uint64_t v_row_bytes() const { return row_bytes(type_v, head_dim_v); }
  uint64_t k_block_bytes() const { return k_row_bytes() * block_tokens * n_kv_heads; }
  uint64_t v_block_bytes() const { return v_row_bytes() * block_tokens * n_kv_heads; }
  uint64_t block_bytes() const { return k_block_bytes() + v_block_bytes(); }
};

struct Program {
  std::string name;
  std::vector<Value> values;
  std::vector<WeightSpec> weights;
  std::vector<KvLayer> kv_layers;
  std::vector<Op> ops;
  uint32_t n_external = 0;
};

// Where each arena value lies. Address of a value = arena + k_token * max_tokens +
// k_output * max_outputs, with the coefficients given here; all are multiples of 64 bytes when
// max_tokens and max_outputs are multiples of 16.
struct ArenaPlan {
  struct Slot {
    uint64_t per_token = 0;   // bytes of offset per token of max_tokens
    uint64_t per_output = 0;  // bytes of offset per output of max_outputs
  };
  std::vector<Slot> slots;  // by ValueId; unused for external values and those without a life
  uint64_t bytes_per_token = 0;
  uint64_t bytes_per_output = 0;

  uint64_t bytes(uint64_t max_tokens, uint64_t max_outputs) const {
    return bytes_per_token * max_tokens + bytes_per_output * max_outputs;
  }
};

// Checks a program (ids in range, read before written), ErrorCode::internal naming the op
// otherwise.
void check(const Program& program);

// What one step of a device stores and what it needs of what was stored before. A step may carry
// out several ops; values that it passes on within itself are in neither list.
struct StepOperands {
  std::vector<ValueId> reads;
  std::vector<ValueId> writes;
};

// Liveness: a value lives from the first step that writes it to the last step that uses it; values
// that live at the same time never overlap. All operands of a step live together, so it may store
// its results in any order. A value that no step writes takes no space. ErrorCode::internal when an
// arena value is read before a step wrote it.
ArenaPlan plan_arena(std::span<const Value> values, std::span<const StepOperands> steps);

// For a device that carries out op by op. Checks the program.
ArenaPlan plan_arena(const Program& program);

// Rows are allocated in whole multiples, so that every value begins on a cache line.
inline constexpr uint64_t k_row_granule = 16;

}  // namespace strata::device
