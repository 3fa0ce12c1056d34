#include "text/tokenizers/symbol_table.h"

#include <algorithm>
#include <random>

#include "base/error.h"

namespace strata::text {

uint64_t hash_seed() {
  static const uint64_t seed = [] {
    std::random_device device;
    return (uint64_t{device()} << 32) | device();
  }();
  return seed;
}

uint32_t SymbolTable::add(std::string_view text, bool findable) {
  if (text.size() > UINT32_MAX - bytes_.size() || starts_.size() >= k_none) {
    fail(ErrorCode::bad_file, "the vocabulary holds more than 4 GiB of text; cannot use it");
  }
  const uint32_t symbol = size();
  bytes_.append(text);
  starts_.push_back(static_cast<uint32_t>(bytes_.size()));
  if (!findable) return symbol;
  const std::string_view own = (*this)[symbol];
  const uint64_t hash = hash_bytes(own, seed_);
  if (find(own, hash) == k_none) {
    if ((used_ + 1) * 2 > slots_.size()) resize_slots(std::max<size_t>(64, slots_.size() * 2));
    place(hash, symbol);
    ++used_;
  }
  return symbol;
}

void SymbolTable::reserve(size_t count, size_t bytes) {
  bytes_.reserve(bytes);
  starts_.reserve(count + 1);
  size_t slots = 64;
  while (slots < count * 2) slots *= 2;
  if (slots > slots_.size()) resize_slots(slots);
}

void SymbolTable::place(uint64_t hash, uint32_t symbol) {
  size_t at = hash & mask_;
  while (slots_[at].symbol != k_none) at = (at + 1) & mask_;
  slots_[at] = Slot{static_cast<uint32_t>(hash >> 32), symbol};
}

// `count` is a power of two.
void SymbolTable::resize_slots(size_t count) {
  std::vector<Slot> old(count);
  old.swap(slots_);
  mask_ = slots_.size() - 1;
  for (const Slot& slot : old) {
    if (slot.symbol != k_none) place(hash_bytes((*this)[slot.symbol], seed_), slot.symbol);
  }
}

}  // namespace strata::text
