// WordPiece (`bert`): normalise, split into words, then the longest token from the left.
//
// Words begin with U+2581 in the file, continuations have no mark (GGUF's own notation).
// What the normalisation drops is lost; bytes that are not UTF-8 are dropped too.
// Threads: constant after construction.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"
#include "text/tokenizers/byte_trie.h"

namespace strata::text {

class WpmTokenizer final : public Tokenizer {
 public:
  WpmTokenizer(std::shared_ptr<const Vocabulary> vocabulary, const gguf::Metadata& metadata);

 protected:
  void encode_fragment(std::string_view fragment, bool at_start,
                       std::vector<TokenId>& out) const override;
  void append_piece(TokenId id, std::string& out) const override;

 private:
  // `word` begins with the mark; it is emptied to the mark again.
  void finish_word(std::string& word, std::vector<TokenId>& out) const;
  void take(uint32_t code_point, std::string& word, std::vector<TokenId>& out) const;

  ByteTrie trie_;
  bool lowercase_ = true;
  bool strip_accents_ = true;
};

}  // namespace strata::text
