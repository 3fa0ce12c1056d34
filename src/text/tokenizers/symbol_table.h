// Byte strings with consecutive numbers, and a fast way from the string to its number.
//
// Purpose: the vocabulary as the merging algorithms see it. A symbol's number is the token's id for
// the first ones; further symbols may be added for intermediate strings that are no token.
// Not for: removal.
// Ownership: owns a copy of all strings; views returned live as long as the table is not added to.
// Threads: constant after filling, readable from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizers/hashing.h"

namespace strata::text {

class SymbolTable {
 public:
  static constexpr uint32_t k_none = UINT32_MAX;

  SymbolTable() : seed_(hash_seed()) {}

  // Adds a string under the next number; with `findable` false, find() never answers it. A string
  // that is there already keeps its first number. The sum of all bytes is limited to 4 GiB
  // (ErrorCode::bad_file).
  uint32_t add(std::string_view text, bool findable = true);

  // Makes room for so many strings of so many bytes in all.
  void reserve(size_t count, size_t bytes);

  uint32_t find(std::string_view text) const { return find(text, hash_bytes(text, seed_)); }

  std::string_view operator[](uint32_t symbol) const {
    return {bytes_.data() + starts_[symbol], starts_[symbol + 1] - starts_[symbol]};
  }
  uint32_t size() const { return static_cast<uint32_t>(starts_.size() - 1); }
  size_t bytes() const { return bytes_.size(); }

 private:
  struct Slot {
    uint32_t tag = 0;
    uint32_t symbol = k_none;
  };

  uint32_t find(std::string_view text, uint64_t hash) const {
    if (slots_.empty()) return k_none;
    const uint32_t tag = static_cast<uint32_t>(hash >> 32);
    for (size_t at = hash & mask_;; at = (at + 1) & mask_) {
      const Slot& slot = slots_[at];
      if (slot.symbol == k_none) return k_none;
      if (slot.tag == tag && (*this)[slot.symbol] == text) return slot.symbol;
    }
  }

  void place(uint64_t hash, uint32_t symbol);
  void resize_slots(size_t count);

  uint64_t seed_;
  std::string bytes_;
  std::vector<uint32_t> starts_{0};
  std::vector<Slot> slots_;
  size_t mask_ = 0;
  size_t used_ = 0;
};

}  // namespace strata::text
