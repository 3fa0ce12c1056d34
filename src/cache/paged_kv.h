// Paged KV cache: which blocks hold which positions of which sequence.
//
// Purpose: book-keeping only: a pool of equal blocks of tokens, a table of blocks per sequence,
// sharing between forked sequences with copy on write, and full blocks kept for later prompts that
// begin alike. Where a block's bytes lie is the device's business (device/program.h, KvLayer);
// every layer uses the same block numbers.
// Kept blocks: keep() tells what tokens a sequence's full blocks hold. Such a block is found again
// by the tokens from the beginning of the text to its end (a chain of hashes, verified token by
// token), among sequences of one scope only. When no sequence uses it any more it stays until the
// pool needs it; the block that was let go first goes first. Errors: ErrorCode::does_not_fit when
// the pool is empty, with the counts; the state is unchanged. Ownership: the runtime owns one per
// model. Threads: one at a time.
#pragma once

#include <cstdint>
#include <list>
#include <span>
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
    SequenceId sequence = 0;  // whose block it is to be
  };

  SequenceId create(uint32_t scope = 0);
  // A new sequence with the same past; blocks are shared until one of the two writes.
  SequenceId fork(SequenceId id);
  void remove(SequenceId id);

  // Makes room for `n` more positions; returns the block copies to carry out before writing. Their
  // originals are kept until they are settled or undone.
  std::vector<BlockCopy> extend(SequenceId id, uint32_t n);
  // The copies are made.
  void settle(std::span<const BlockCopy> copies);
  // They may not be: their sequences, cut to their former lengths before this, have the originals
  // again. Sequences that have gone meanwhile are passed over.
  void undo(std::span<const BlockCopy> copies);
  // Forgets every position from `length` on.
  void truncate(SequenceId id, uint32_t length);

  // The tokens of the sequence from its beginning, at least those of its full blocks, which have
  // been computed: they may be found from now on.
  void keep(SequenceId id, std::span<const int32_t> tokens);
  // Gives an empty sequence the longest run of kept blocks that hold the beginning of `tokens`;
  // returns the number of positions that it has then.
  uint32_t adopt(SequenceId id, std::span<const int32_t> tokens);
  // As adopt by a sequence of that scope would return; takes nothing.
  uint32_t find(std::span<const int32_t> tokens, uint32_t scope = 0) const;
  // Forgets every kept block.
  void forget();

  bool contains(SequenceId id) const { return sequences_.contains(id); }
  uint32_t length(SequenceId id) const;
  const std::vector<uint32_t>& blocks(SequenceId id) const;

  uint32_t block_tokens() const { return block_tokens_; }
  uint32_t n_blocks() const { return static_cast<uint32_t>(states_.size()); }
  // That can be had: empty ones, and kept ones that no sequence uses.
  uint32_t free_blocks() const { return static_cast<uint32_t>(free_.size() + unused_.size()); }
  // Of these, the empty ones.
  uint32_t empty_blocks() const { return static_cast<uint32_t>(free_.size()); }
  uint32_t kept_blocks() const { return static_cast<uint32_t>(kept_.size()); }
  uint64_t capacity() const { return uint64_t{n_blocks()} * block_tokens_; }

 private:
  struct Sequence {
    std::vector<uint32_t> blocks;
    uint32_t length = 0;
    uint32_t kept = 0;  // leading blocks that have been offered to keep
    uint32_t scope = 0;
  };
  struct State {  // of a block
    uint32_t references = 0;
    bool kept = false;
    uint64_t hash = 0;    // of all tokens up to its end, when kept
    uint64_t serial = 0;  // of this content, never used again
    uint64_t before = 0;  // serial of the kept block that it follows, or the scope's root
    std::vector<int32_t> tokens;
    std::list<uint32_t>::iterator place;  // in unused_, while nobody uses it
  };

  Sequence& get(SequenceId id);
  const Sequence& get(SequenceId id) const;
  uint32_t take();
  void share(uint32_t block);
  void release(uint32_t block);
  void drop(uint32_t block);
  // The kept block that holds `tokens` behind the content with serial `before`.
  uint32_t lookup(uint64_t hash, uint64_t before, std::span<const int32_t> tokens) const;

  uint32_t block_tokens_;
  std::vector<State> states_;   // by block
  std::vector<uint32_t> free_;  // a stack of empty blocks
  std::list<uint32_t> unused_;  // kept blocks without a user, the longest unused in front
  std::unordered_multimap<uint64_t, uint32_t> kept_;  // hash -> block
  std::unordered_map<SequenceId, Sequence> sequences_;
  SequenceId next_ = 0;
  uint64_t next_serial_ = 1;
};

}  // namespace strata::cache
