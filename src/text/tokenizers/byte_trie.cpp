#include "text/tokenizers/byte_trie.h"

#include "base/error.h"

namespace strata::text {

void ByteTrie::add(std::string_view text, uint32_t value, bool backwards) {
  if (text.size() >= k_none - nodes_.size()) {
    fail(ErrorCode::bad_file, "the vocabulary holds more than 4 GiB of text; cannot use it");
  }
  uint32_t node = k_root;
  for (size_t i = 0; i < text.size(); ++i) {
    const uint8_t byte = static_cast<uint8_t>(text[backwards ? text.size() - 1 - i : i]);
    uint32_t next = child(node, byte);
    if (next == k_none) {
      next = size();
      nodes_.push_back(Node{node, nodes_[node].depth + 1, k_none, byte});
      edges_.add(node, byte, Merge{0, next});
    }
    node = next;
  }
  if (nodes_[node].value == k_none) nodes_[node].value = value;
}

}  // namespace strata::text
