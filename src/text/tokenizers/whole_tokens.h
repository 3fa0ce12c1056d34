// Remembers which tokens a piece of their own text becomes, so that common words need no merging.
//
// Time: one lookup. Bounded: one byte per token.
// Threads: safe; entries are independent and every thread would write the same.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace strata::text {

class WholeTokens {
 public:
  explicit WholeTokens(size_t count) : states_(new std::atomic<uint8_t>[count]) {
    for (size_t i = 0; i < count; ++i) states_[i].store(unknown, std::memory_order_relaxed);
  }
  enum State : uint8_t { unknown, whole, divided };
  State get(uint32_t id) const {
    return static_cast<State>(states_[id].load(std::memory_order_relaxed));
  }
  void set(uint32_t id, bool is_whole) {
    states_[id].store(is_whole ? whole : divided, std::memory_order_relaxed);
  }

 private:
  std::unique_ptr<std::atomic<uint8_t>[]> states_;
};

}  // namespace strata::text
