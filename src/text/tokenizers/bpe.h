// Byte-level BPE (`gpt2`): pre-tokenizer, then merges by rank over bytes.
//
// The file writes bytes as printable characters (the GPT-2 alphabet); here everything is raw bytes.
// Invalid UTF-8 survives: each invalid byte is a piece of its own.
// Threads: constant after construction, but for a cache of facts about tokens that is atomic.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"
#include "text/tokenizers/merger.h"
#include "text/tokenizers/pair_table.h"
#include "text/tokenizers/pre_tokenizers.h"
#include "text/tokenizers/symbol_table.h"
#include "text/tokenizers/whole_tokens.h"

namespace strata::text {

class BpeTokenizer final : public Tokenizer {
 public:
  BpeTokenizer(std::shared_ptr<const Vocabulary> vocabulary, const gguf::Metadata& metadata);

 protected:
  void encode_fragment(std::string_view fragment, bool at_start,
                       std::vector<TokenId>& out) const override;
  void append_piece(TokenId id, std::string& out) const override;

 private:
  void read_merges(const gguf::Metadata& metadata);
  void encode_piece(std::string_view piece, Merger& merger, std::vector<TokenId>& out) const;
  void merge(std::string_view piece, Merger& merger) const;
  void emit_bytes(std::string_view bytes, std::vector<TokenId>& out) const;

  PreTokenizer pre_tokenizer_;
  // Raw bytes of tokens (same numbers as the ids), then strings that merges make on their way to a
  // token without being one.
  SymbolTable symbols_;
  std::array<uint32_t, 256> byte_symbols_{};
  PairTable merges_;
  mutable WholeTokens whole_;
};

}  // namespace strata::text
