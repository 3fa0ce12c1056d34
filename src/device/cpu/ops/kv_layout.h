// A layer's place in the paged cache with its sizes worked out once: for loops over positions.
//
// Threads: plain values.
#pragma once

#include "device/host_context.h"

namespace strata::device::cpu {

struct KvLayout {
  explicit KvLayout(const KvLayer& layer)
      : block_tokens(layer.block_tokens),
        k_row(layer.k_row_bytes()),
        v_row(layer.v_row_bytes()),
        k_head(k_row * block_tokens),
        v_head(v_row * block_tokens),
        k_block(k_head * layer.n_kv_heads),
        block(k_block + v_head * layer.n_kv_heads) {}

  // Row 0 of a block's keys (values) of one head.
  std::byte* keys(std::byte* region, uint64_t index, uint64_t head) const {
    return region + index * block + head * k_head;
  }
  std::byte* values(std::byte* region, uint64_t index, uint64_t head) const {
    return region + index * block + k_block + head * v_head;
  }

  uint32_t block_tokens;
  uint64_t k_row, v_row;    // bytes of a position
  uint64_t k_head, v_head;  // of a block's positions of one head
  uint64_t k_block, block;  // of a block's keys, of a block
};

}  // namespace strata::device::cpu
