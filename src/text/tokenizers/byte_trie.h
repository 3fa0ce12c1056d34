// A trie over byte strings, its edges in one flat hash.
//
// Memory: proportional to the bytes added. No recursion.
// Threads: constant after filling, readable from any thread.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "text/tokenizers/pair_table.h"

namespace strata::text {

class ByteTrie {
 public:
  static constexpr uint32_t k_none = UINT32_MAX;
  static constexpr uint32_t k_root = 0;

  struct Node {
    uint32_t parent = 0;
    uint32_t depth = 0;       // bytes from the root
    uint32_t value = k_none;  // of the string that ends here
    uint8_t byte = 0;         // that leads here
  };

  ByteTrie() { nodes_.push_back(Node{}); }

  // The first value of a string stays. `backwards` adds the string from its last byte to its first.
  void add(std::string_view text, uint32_t value, bool backwards = false);

  uint32_t child(uint32_t node, uint8_t byte) const {
    const Merge edge = edges_.find(node, byte);
    return edge.rank == Merge::k_never ? k_none : edge.symbol;
  }
  const Node& operator[](uint32_t node) const { return nodes_[node]; }
  uint32_t size() const { return static_cast<uint32_t>(nodes_.size()); }

 private:
  std::vector<Node> nodes_;  // a parent stands before its children
  PairTable edges_;
};

}  // namespace strata::text
