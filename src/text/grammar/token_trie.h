// The bytes of every token of a vocabulary, as a tree: what a grammar may choose from.
//
// Purpose: one walk that finds all tokens a grammar allows and leaves a branch at the first byte
// that it does not. Made once per vocabulary and shared by all grammars.
// Tokens without text of their own (control, unknown, empty) are in no branch; those that end a
// generation are listed apart.
// Time: n log n in the vocabulary's bytes. Memory: about 12 bytes per node (a 128k vocabulary has
// some 300,000) and the tokens' bytes.
// Threads: constant after construction.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace strata::text {

class TokenTrie {
 public:
  // Nodes in the order of a walk, children after their parent, ascending by byte; node 0 is the
  // empty text.
  struct Node {
    uint32_t end;          // the first node after this one and all below it
    uint32_t first_token;  // its tokens are tokens()[first_token] up to the next node's
    uint16_t depth;        // bytes, at most k_max_token_bytes
    uint8_t byte;
    bool all_plain;  // every token here and below is plain
  };
  // A plain token is one to k_plain_characters whole characters that JSON writes as they are:
  // no control character, no '"', no '\'.
  static constexpr uint32_t k_plain_characters = 16;
  static constexpr size_t k_max_token_bytes = 4096;  // longer ones are never allowed

  // `shown`: control tokens that count by their text.
  static std::shared_ptr<const TokenTrie> make(const Tokenizer& tokenizer,
                                               std::span<const TokenId> shown = {});
  // For tests: `texts` by token id, empty for a token without text.
  static std::shared_ptr<const TokenTrie> make(std::vector<std::string> texts,
                                               std::vector<TokenId> end_of_generation);

  size_t size() const { return offsets_.size() - 1; }  // tokens in the vocabulary
  size_t mask_words() const { return (size() + 31) / 32; }
  std::string_view bytes(TokenId id) const;  // empty: never allowed as text
  bool is_end_of_generation(TokenId id) const;
  std::span<const TokenId> end_of_generation() const { return end_of_generation_; }

  std::span<const Node> nodes() const {
    return nodes_;
  }  // and one behind the last, see first_token
  uint32_t n_nodes() const { return static_cast<uint32_t>(nodes_.size()) - 1; }
  std::span<const TokenId> tokens() const { return tokens_; }
  std::span<const uint32_t> plain_mask() const { return plain_mask_; }

 private:
  TokenTrie(const std::vector<std::string>& texts, std::vector<TokenId> end_of_generation);

  std::string text_;
  std::vector<size_t> offsets_;
  std::vector<TokenId> end_of_generation_;  // ascending
  std::vector<Node> nodes_;
  std::vector<TokenId> tokens_;
  std::vector<uint32_t> plain_mask_;
};

}  // namespace strata::text
