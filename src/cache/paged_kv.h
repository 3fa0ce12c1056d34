// Paged KV cache: which blocks hold which positions of which sequence.
//
// Purpose: book-keeping only: a pool of equal blocks of tokens, a table of blocks per sequence,
// sharing between forked sequences with copy on write. Where a block's bytes lie is the device's
// business (device/program.h, KvLayer); every layer uses the same block numbers.
// Errors: ErrorCode::does_not_fit when the pool is empty, with the counts; the state is unchanged.
// Ownership: the runtime owns one per model. Threads: one at a time.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace strata::cache {

using SequenceId = uint32_t;

class PagedKv {
 public:
  PagedKv(uint32_t n_blocks, uint32_t block_tokens);

  // A physical block whose content must be copied before a write (copy on write).
  struct BlockCopy {
    uint32_t from = 0;
    uint32_t to = 0;
  };

  SequenceId create();
  // A new sequence with the same past; blocks are shared until one of the two writes.
  SequenceId fork(SequenceId id);
  void remove(SequenceId id);

  // Makes room for `n` more positions; returns the block copies to carry out before writing.
  std::vector<BlockCopy> extend(SequenceId id, uint32_t n);
  // Forgets every position from `length` on.
  void truncate(SequenceId id, uint32_t length);

  uint32_t length(SequenceId id) const;
  const std::vector<uint32_t>& blocks(SequenceId id) const;

  uint32_t block_tokens() const { return block_tokens_; }
  uint32_t n_blocks() const { return static_cast<uint32_t>(references_.size()); }
  uint32_t free_blocks() const { return static_cast<uint32_t>(free_.size()); }
  uint64_t capacity() const { return uint64_t{n_blocks()} * block_tokens_; }

 private:
  struct Sequence {
    std::vector<uint32_t> blocks;
    uint32_t length = 0;
  };

  Sequence& get(SequenceId id);
  const Sequence& get(SequenceId id) const;
  void release(uint32_t block);

  uint32_t block_tokens_;
  std::vector<uint32_t> references_;  // by block
  std::vector<uint32_t> free_;        // a stack
  std::unordered_map<SequenceId, Sequence> sequences_;
  SequenceId next_ = 0;
};

}  // namespace strata::cache
