// What an op sees when it runs in host memory (CPU device, reference).
//
// Purpose: resolves ids to addresses. Every thread of a team runs every op with its own context
// (same pointers, its own rank); an op computes its rank's share and the executor puts a barrier
// after it. An op that needs a barrier inside calls team->barrier().
// Threads: one context per thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "device/batch.h"
#include "device/program.h"

namespace strata::device {

// The part of a thread team that ops use.
class TeamBarrier {
 public:
  virtual ~TeamBarrier() = default;
  virtual void barrier(uint32_t rank) = 0;
};

// Units of work of one step, taken one after another by whoever is free: cores are not equally
// fast, and others may use them.
struct alignas(64) Claims {
  std::atomic<uint64_t> next{0};
};

class HostGroup;

struct HostContext {
  const Program* program = nullptr;
  const Batch* batch = nullptr;
  std::span<std::byte* const> values;         // by ValueId
  std::span<const std::byte* const> weights;  // by WeightId
  std::span<std::byte* const> kv;             // by layer: start of the layer's region
  std::span<const uint64_t> kv_blocks;        // by layer: number of blocks in the region
  uint32_t rank = 0;
  uint32_t n_ranks = 1;
  TeamBarrier* team = nullptr;  // may be null when n_ranks is 1
  // The group that runs the program together, and which of its members this is; or null.
  HostGroup* group = nullptr;
  uint32_t member = 0;
  // Of this step; zero when it begins. For one list of units in a step. Null: fixed shares.
  Claims* claims = nullptr;
  // This thread's own, 64-byte aligned. The ranks' parts lie one after another and have one size,
  // so that an op may hand partial results from rank to rank (scratch_of).
  std::span<std::byte> scratch;
  const void* kernels = nullptr;  // the device's kernel table (cpu/kernels.h)

  float* f32(ValueId id) const { return reinterpret_cast<float*>(values[id]); }
  int32_t* i32(ValueId id) const { return reinterpret_cast<int32_t*>(values[id]); }
  uint32_t width(ValueId id) const { return program->values[id].width; }
  uint32_t rows(ValueId id) const {
    return program->values[id].rows == Rows::tokens
               ? batch->size()
               : static_cast<uint32_t>(batch->output_rows.size());
  }
  const WeightSpec& spec(WeightId id) const { return program->weights[id]; }
  const std::byte* weight(WeightId id) const { return weights[id]; }
  const float* weight_f32(WeightId id) const { return reinterpret_cast<const float*>(weights[id]); }
  std::byte* scratch_of(uint32_t other) const {
    return scratch.data() + (static_cast<ptrdiff_t>(other) - static_cast<ptrdiff_t>(rank)) *
                                static_cast<ptrdiff_t>(scratch.size());
  }
  void barrier() const {
    if (n_ranks > 1) team->barrier(rank);
  }
};

// Keys (values) of one kv head for one block: block_tokens rows of k_row_bytes (v_row_bytes).
inline std::byte* k_rows(const KvLayer& layer, std::byte* region, uint64_t block, uint32_t head) {
  return region + block * layer.block_bytes() + head * layer.k_row_bytes() * layer.block_tokens;
}
inline std::byte* v_rows(const KvLayer& layer, std::byte* region, uint64_t block, uint32_t head) {
  return region + block * layer.block_bytes() + layer.k_block_bytes() +
         head * layer.v_row_bytes() * layer.block_tokens;
}

// Range [begin, end) of `count` items for a rank, as even as can be.
struct Share {
  uint64_t begin = 0;
  uint64_t end = 0;
};
inline Share share_of(uint64_t count, uint32_t rank, uint32_t n_ranks) {
  return {count * rank / n_ranks, count * (rank + 1) / n_ranks};
}

// Calls work(unit) for units [0, count), each by one rank. A unit's result must not depend on the
// rank.
template <class Work>
void for_each_unit(const HostContext& context, uint64_t count, Work work) {
  if (context.n_ranks == 1 || context.claims == nullptr) {
    const Share share = share_of(count, context.rank, context.n_ranks);
    for (uint64_t unit = share.begin; unit < share.end; ++unit) work(unit);
    return;
  }
  std::atomic<uint64_t>& next = context.claims->next;
  for (uint64_t unit = next.fetch_add(1, std::memory_order_relaxed); unit < count;
       unit = next.fetch_add(1, std::memory_order_relaxed)) {
    work(unit);
  }
}

}  // namespace strata::device
