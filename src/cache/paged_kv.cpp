#include "cache/paged_kv.h"

#include "base/error.h"

namespace strata::cache {

PagedKv::PagedKv(uint32_t n_blocks, uint32_t block_tokens)
    : block_tokens_(block_tokens), references_(n_blocks, 0) {
  free_.reserve(n_blocks);
  // The lowest block is handed out first: a short run touches little memory.
  for (uint32_t block = n_blocks; block > 0; --block) free_.push_back(block - 1);
}

PagedKv::Sequence& PagedKv::get(SequenceId id) {
  const auto found = sequences_.find(id);
  if (found == sequences_.end()) fail(ErrorCode::internal, "sequence {} does not exist", id);
  return found->second;
}

const PagedKv::Sequence& PagedKv::get(SequenceId id) const {
  return const_cast<PagedKv*>(this)->get(id);
}

SequenceId PagedKv::create() {
  const SequenceId id = next_++;
  sequences_.emplace(id, Sequence{});
  return id;
}

SequenceId PagedKv::fork(SequenceId id) {
  Sequence copy = get(id);
  for (const uint32_t block : copy.blocks) ++references_[block];
  const SequenceId fresh = next_++;
  sequences_.emplace(fresh, std::move(copy));
  return fresh;
}

void PagedKv::remove(SequenceId id) {
  truncate(id, 0);
  sequences_.erase(id);
}

std::vector<PagedKv::BlockCopy> PagedKv::extend(SequenceId id, uint32_t n) {
  Sequence& sequence = get(id);
  const uint64_t length = uint64_t{sequence.length} + n;
  const uint64_t wanted = (length + block_tokens_ - 1) / block_tokens_;
  // The first block written to may be shared with a fork.
  const uint32_t first = sequence.length / block_tokens_;
  const bool copy =
      n > 0 && sequence.length % block_tokens_ != 0 && references_[sequence.blocks[first]] > 1;
  const uint64_t fresh = wanted - sequence.blocks.size() + (copy ? 1 : 0);
  if (fresh > free_.size()) {
    fail(ErrorCode::does_not_fit,
         "the KV cache is full: {} more tokens need {} blocks of {} tokens, {} of {} are free; use "
         "a "
         "larger context (-c) or shorter prompts",
         n, fresh, block_tokens_, free_.size(), references_.size());
  }
  const auto take = [&] {
    const uint32_t block = free_.back();
    free_.pop_back();
    references_[block] = 1;
    return block;
  };
  std::vector<BlockCopy> copies;
  if (copy) {
    const uint32_t block = take();
    copies.push_back({sequence.blocks[first], block});
    release(sequence.blocks[first]);
    sequence.blocks[first] = block;
  }
  while (sequence.blocks.size() < wanted) sequence.blocks.push_back(take());
  sequence.length = static_cast<uint32_t>(length);
  return copies;
}

void PagedKv::truncate(SequenceId id, uint32_t length) {
  Sequence& sequence = get(id);
  if (length >= sequence.length) return;
  const uint32_t keep = (length + block_tokens_ - 1) / block_tokens_;
  while (sequence.blocks.size() > keep) {
    release(sequence.blocks.back());
    sequence.blocks.pop_back();
  }
  sequence.length = length;
}

void PagedKv::release(uint32_t block) {
  if (--references_[block] == 0) free_.push_back(block);
}

uint32_t PagedKv::length(SequenceId id) const { return get(id).length; }

const std::vector<uint32_t>& PagedKv::blocks(SequenceId id) const { return get(id).blocks; }

}  // namespace strata::cache
