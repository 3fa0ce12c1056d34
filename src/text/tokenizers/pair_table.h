// Flat hash from a pair of 32-bit numbers to a merge: its rank and the symbol it makes.
//
// Threads: constant after filling, readable from any thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "text/tokenizers/hashing.h"

namespace strata::text {

struct Merge {
  static constexpr uint32_t k_never = UINT32_MAX;
  uint32_t rank = k_never;  // the lowest rank merges first
  uint32_t symbol = 0;      // what the pair becomes
};

class PairTable {
 public:
  PairTable() : seed_(hash_seed()) {}

  // Makes room for so many pairs.
  void reserve(size_t count) {
    size_t slots = 64;
    while (slots * 2 < count * 3) slots *= 2;
    if (slots > slots_.size()) resize(slots);
  }

  // The first entry of a pair stays.
  void add(uint32_t left, uint32_t right, Merge merge) {
    if ((used_ + 1) * 3 > slots_.size() * 2) resize(std::max<size_t>(64, slots_.size() * 2));
    if (place(key_of(left, right), merge)) ++used_;
  }

  Merge find(uint32_t left, uint32_t right) const {
    if (slots_.empty()) return {};
    const uint64_t key = key_of(left, right);
    for (size_t at = hash_number(key, seed_) & mask_;; at = (at + 1) & mask_) {
      const Slot& slot = slots_[at];
      if (slot.key == key) return slot.merge;
      if (slot.key == k_empty) return {};
    }
  }

 private:
  static constexpr uint64_t k_empty = UINT64_MAX;
  struct Slot {
    uint64_t key = k_empty;
    Merge merge;
  };
  static uint64_t key_of(uint32_t left, uint32_t right) { return uint64_t{left} << 32 | right; }

  bool place(uint64_t key, Merge merge) {
    size_t at = hash_number(key, seed_) & mask_;
    for (; slots_[at].key != k_empty; at = (at + 1) & mask_) {
      if (slots_[at].key == key) return false;
    }
    slots_[at] = Slot{key, merge};
    return true;
  }

  // `count` is a power of two.
  void resize(size_t count) {
    std::vector<Slot> old(count);
    old.swap(slots_);
    mask_ = slots_.size() - 1;
    for (const Slot& slot : old) {
      if (slot.key != k_empty) place(slot.key, slot.merge);
    }
  }

  uint64_t seed_;
  std::vector<Slot> slots_;
  size_t mask_ = 0;
  size_t used_ = 0;
};

}  // namespace strata::text
