// Cuts the tokens that stand outside the algorithm (control, user-defined) out of a text.
//
// Rule: the longest token first, wherever it stands; among equally long ones the leftmost; what is
// cut out is gone for the others.
// Time: linear in the text; n log n where matches overlap.
// Threads: constant after finish(), readable from any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/tokenizers/byte_trie.h"

namespace strata::text {

class SpecialSplitter {
 public:
  static constexpr uint32_t k_text = UINT32_MAX;
  struct Segment {
    size_t begin = 0;
    size_t end = 0;
    uint32_t token = k_text;  // k_text: ordinary text
  };

  void add(std::string_view text, uint32_t token);
  // Must be called after the last add.
  void finish();

  // Segments in order; together they are the whole text. None is empty.
  std::vector<Segment> split(std::string_view text) const;

 private:
  struct Match {
    size_t begin = 0;
    uint32_t node = 0;
  };
  uint32_t step(uint32_t node, uint8_t byte) const;
  uint32_t longest(uint32_t node) const;
  std::vector<Match> find(std::string_view text) const;
  std::vector<Match> choose(std::string_view text, std::vector<Match> matches) const;

  // The strings are in the trie backwards and the text is read from its end, so that the automaton
  // tells the longest token that *begins* at each place.
  ByteTrie trie_;
  std::vector<uint32_t> fallback_;  // the longest proper suffix that is a node
  std::vector<uint32_t> shorter_;   // the longest proper suffix that is a token; root: none
  std::array<bool, 256> starts_{};  // bytes that leave the root
};

}  // namespace strata::text
