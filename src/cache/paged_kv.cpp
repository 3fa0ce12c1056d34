#include "cache/paged_kv.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace strata::cache {
namespace {

constexpr uint32_t k_no_block = UINT32_MAX;
constexpr uint64_t k_seed = 0x9E3779B97F4A7C15u;

// What the first block of a text follows, instead of a block's serial: each scope has its own.
uint64_t root_of(uint32_t scope) { return (uint64_t{1} << 63) | scope; }

// Only finds candidates; the tokens themselves decide.
uint64_t hash_of(uint64_t before, std::span<const int32_t> tokens) {
  uint64_t hash = before ^ k_seed;
  for (const int32_t token : tokens) {
    hash = (hash ^ static_cast<uint32_t>(token)) * 0x100000001B3u;
    hash ^= hash >> 29;
  }
  return hash;
}

}  // namespace

PagedKv::PagedKv(uint32_t n_blocks, uint32_t block_tokens)
    : block_tokens_(block_tokens), states_(n_blocks) {
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

SequenceId PagedKv::create(uint32_t scope) {
  const SequenceId id = next_++;
  Sequence fresh;
  fresh.scope = scope;
  sequences_.emplace(id, std::move(fresh));
  return id;
}

SequenceId PagedKv::fork(SequenceId id) {
  Sequence copy = get(id);
  for (const uint32_t block : copy.blocks) share(block);
  const SequenceId fresh = next_++;
  sequences_.emplace(fresh, std::move(copy));
  return fresh;
}

void PagedKv::remove(SequenceId id) {
  truncate(id, 0);
  sequences_.erase(id);
}

// An empty block, or the kept one that has been unused for longest.
uint32_t PagedKv::take() {
  if (free_.empty()) {
    const uint32_t oldest = unused_.front();
    unused_.pop_front();
    drop(oldest);
    free_.push_back(oldest);
  }
  const uint32_t block = free_.back();
  free_.pop_back();
  states_[block].references = 1;
  return block;
}

void PagedKv::share(uint32_t block) {
  State& state = states_[block];
  if (state.references++ == 0 && state.kept) unused_.erase(state.place);
}

void PagedKv::release(uint32_t block) {
  State& state = states_[block];
  if (--state.references > 0) return;
  if (state.kept) {
    state.place = unused_.insert(unused_.end(), block);
  } else {
    free_.push_back(block);
  }
}

// What the block holds is not to be found any more.
void PagedKv::drop(uint32_t block) {
  State& state = states_[block];
  if (!state.kept) return;
  const auto [begin, end] = kept_.equal_range(state.hash);
  for (auto at = begin; at != end; ++at) {
    if (at->second == block) {
      kept_.erase(at);
      break;
    }
  }
  state.kept = false;
  state.tokens.clear();
}

std::vector<PagedKv::BlockCopy> PagedKv::extend(SequenceId id, uint32_t n) {
  Sequence& sequence = get(id);
  const uint64_t length = uint64_t{sequence.length} + n;
  const uint64_t wanted = (length + block_tokens_ - 1) / block_tokens_;
  // The first block written to may be shared with a fork.
  const uint32_t first = sequence.length / block_tokens_;
  const bool into_block = n > 0 && sequence.length % block_tokens_ != 0;
  const bool copy = into_block && states_[sequence.blocks[first]].references > 1;
  const uint64_t fresh = wanted - sequence.blocks.size() + (copy ? 1 : 0);
  if (fresh > free_blocks()) {
    fail(ErrorCode::does_not_fit,
         "the KV cache is full: {} more tokens need {} blocks of {} tokens, {} of {} are free; use "
         "a larger context (-c) or shorter prompts",
         n, fresh, block_tokens_, free_blocks(), states_.size());
  }
  std::vector<BlockCopy> copies;
  if (copy) {
    const uint32_t block = take();
    copies.push_back({sequence.blocks[first], block, id});
    sequence.blocks[first] = block;
  } else if (into_block) {
    drop(sequence.blocks[first]);  // it will hold something else
  }
  sequence.kept = std::min(sequence.kept, first);
  while (sequence.blocks.size() < wanted) sequence.blocks.push_back(take());
  sequence.length = static_cast<uint32_t>(length);
  return copies;
}

void PagedKv::settle(std::span<const BlockCopy> copies) {
  for (const BlockCopy& copy : copies) release(copy.from);
}

void PagedKv::undo(std::span<const BlockCopy> copies) {
  for (const BlockCopy& copy : copies) {
    uint32_t given_up = copy.from;
    if (const auto found = sequences_.find(copy.sequence); found != sequences_.end()) {
      for (uint32_t& block : found->second.blocks) {
        if (block == copy.to) std::swap(block, given_up);
      }
    }
    release(given_up);
  }
}

void PagedKv::truncate(SequenceId id, uint32_t length) {
  Sequence& sequence = get(id);
  if (length >= sequence.length) return;
  const uint32_t keep = (length + block_tokens_ - 1) / block_tokens_;
  // From the end: of blocks that are let go together the last of the text goes first.
  while (sequence.blocks.size() > keep) {
    release(sequence.blocks.back());
    sequence.blocks.pop_back();
  }
  sequence.length = length;
  sequence.kept = std::min(sequence.kept, length / block_tokens_);
}

uint32_t PagedKv::lookup(uint64_t hash, uint64_t before, std::span<const int32_t> tokens) const {
  const auto [begin, end] = kept_.equal_range(hash);
  for (auto at = begin; at != end; ++at) {
    const State& state = states_[at->second];
    if (state.before == before &&
        std::equal(tokens.begin(), tokens.end(), state.tokens.begin(), state.tokens.end())) {
      return at->second;
    }
  }
  return k_no_block;
}

void PagedKv::keep(SequenceId id, std::span<const int32_t> tokens) {
  Sequence& sequence = get(id);
  const uint32_t full = sequence.length / block_tokens_;
  while (sequence.kept < full && tokens.size() >= uint64_t{sequence.kept + 1} * block_tokens_) {
    const uint32_t index = sequence.kept;
    const uint32_t block = sequence.blocks[index];
    const State* parent = index == 0 ? nullptr : &states_[sequence.blocks[index - 1]];
    // A block behind one that is not kept itself cannot be found.
    if (parent != nullptr && !parent->kept) return;
    const uint64_t root = root_of(sequence.scope);
    const uint64_t before = parent == nullptr ? root : parent->serial;
    const auto part = tokens.subspan(uint64_t{index} * block_tokens_, block_tokens_);
    const uint64_t hash = hash_of(parent == nullptr ? root : parent->hash, part);
    State& state = states_[block];
    if (!state.kept) {
      // Another block may hold the same already: this sequence goes on with that one, so that what
      // comes behind it hangs on one chain.
      const uint32_t twin = lookup(hash, before, part);
      if (twin != k_no_block) {
        share(twin);
        release(block);
        sequence.blocks[index] = twin;
      } else {
        state.kept = true;
        state.hash = hash;
        state.serial = next_serial_++;
        state.before = before;
        state.tokens.assign(part.begin(), part.end());
        kept_.emplace(hash, block);
      }
    }
    ++sequence.kept;
  }
}

uint32_t PagedKv::find(std::span<const int32_t> tokens, uint32_t scope) const {
  uint64_t hash = root_of(scope), before = hash;
  uint32_t found = 0;
  while (uint64_t{found + 1} * block_tokens_ <= tokens.size()) {
    const auto part = tokens.subspan(uint64_t{found} * block_tokens_, block_tokens_);
    hash = hash_of(hash, part);
    const uint32_t block = lookup(hash, before, part);
    if (block == k_no_block) break;
    before = states_[block].serial;
    ++found;
  }
  return found * block_tokens_;
}

uint32_t PagedKv::adopt(SequenceId id, std::span<const int32_t> tokens) {
  Sequence& sequence = get(id);
  if (sequence.length > 0) fail(ErrorCode::internal, "sequence {} is not empty", id);
  uint64_t hash = root_of(sequence.scope), before = hash;
  while (uint64_t{sequence.kept + 1} * block_tokens_ <= tokens.size()) {
    const auto part = tokens.subspan(uint64_t{sequence.kept} * block_tokens_, block_tokens_);
    hash = hash_of(hash, part);
    const uint32_t block = lookup(hash, before, part);
    if (block == k_no_block) break;
    share(block);
    sequence.blocks.push_back(block);
    before = states_[block].serial;
    ++sequence.kept;
  }
  sequence.length = sequence.kept * block_tokens_;
  return sequence.length;
}

void PagedKv::forget() {
  for (uint32_t block = 0; block < states_.size(); ++block) {
    State& state = states_[block];
    if (!state.kept) continue;
    if (state.references == 0) {
      unused_.erase(state.place);
      free_.push_back(block);
    }
    drop(block);
  }
  for (auto& [id, sequence] : sequences_) sequence.kept = 0;
}

uint32_t PagedKv::length(SequenceId id) const { return get(id).length; }

const std::vector<uint32_t>& PagedKv::blocks(SequenceId id) const { return get(id).blocks; }

}  // namespace strata::cache
