// SentencePiece BPE (`llama`): merges of neighbouring characters by the score of what they make.
//
// Characters that are no token come out as byte tokens, so nothing is lost.
// Threads: constant after construction, but for a cache of facts about tokens that is atomic.
#pragma once

#include <array>
#include <memory>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"
#include "text/tokenizers/merger.h"
#include "text/tokenizers/symbol_table.h"
#include "text/tokenizers/whole_tokens.h"

namespace strata::text {

class SpmTokenizer final : public Tokenizer {
 public:
  SpmTokenizer(std::shared_ptr<const Vocabulary> vocabulary, const gguf::Metadata& metadata);

 protected:
  void encode_fragment(std::string_view fragment, bool at_start,
                       std::vector<TokenId>& out) const override;
  void append_piece(TokenId id, std::string& out) const override;

 private:
  void encode_word(std::string_view word, Merger& merger, std::vector<TokenId>& out) const;

  SymbolTable symbols_;                      // tokens that text may become, by id
  std::vector<uint32_t> ranks_;              // by id: 0 for the highest score
  std::array<uint32_t, 256> byte_tokens_{};  // or SymbolTable::k_none
  size_t longest_ = 0;                       // bytes of the longest token
  bool by_words_ = true;                     // no token goes on past a space after other characters
  mutable WholeTokens whole_;
};

}  // namespace strata::text
