// The tokenizer.ggml.* keys, read strictly: what all tokenizers share.
//
// Purpose: token texts, kinds, special ids and flags, the set of tokens that end a generation, and
// the splitters for special tokens.
// Errors: ErrorCode::bad_file naming key and index; ErrorCode::unsupported for an unknown model or
// pre-tokenizer. An id outside the vocabulary is ignored with a warning.
// Threads: constant after loading.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"
#include "text/tokenizers/pre_tokenizers.h"
#include "text/tokenizers/special_splitter.h"
#include "text/tokenizers/symbol_table.h"

namespace strata::text {

enum class Algorithm { spm, bpe, wpm };

struct Tokenizer::Vocabulary {
  Algorithm algorithm = Algorithm::bpe;
  std::string model;
  std::string pre;
  const PreTokenizerRule* rule = nullptr;  // BPE only

  SymbolTable tokens;  // as stored in the file; empty texts are not findable
  std::vector<TokenKind> kinds;
  std::vector<uint8_t> marks;  // of Mark, per token

  std::optional<TokenId> bos;
  std::optional<TokenId> eos;
  std::optional<TokenId> unknown;
  std::optional<TokenId> separator;
  bool add_bos = false;
  bool add_eos = false;
  bool add_separator = false;
  bool add_space_prefix = false;

  std::vector<TokenId> end_of_generation;  // ascending
  SpecialSplitter all_special;             // control, unknown and user-defined
  SpecialSplitter user_defined;

  enum Mark : uint8_t {
    ends_generation = 1,
    always_shown = 2,  // control, but its text belongs to the answer
    strips_right = 4,  // white space after it is dropped
  };
  bool has(TokenId id, Mark mark) const { return (marks[static_cast<size_t>(id)] & mark) != 0; }
  uint32_t size() const { return tokens.size(); }

  // Whether ordinary text may become this token: control, unknown and byte tokens never come from
  // merging characters, so that no message can spell them.
  bool is_mergeable(uint32_t id) const {
    const TokenKind kind = kinds[id];
    return kind == TokenKind::normal || kind == TokenKind::user_defined ||
           kind == TokenKind::unused;
  }

  static std::shared_ptr<const Vocabulary> load(const gguf::Metadata& metadata);
};

// The byte of a byte token's text: exactly "<0xHH>".
std::optional<uint8_t> parse_byte_token(std::string_view text);

}  // namespace strata::text
