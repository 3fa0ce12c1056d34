// Pre-tokenizers of byte-level BPE: the patterns that cut a text into pieces before merging.
//
// Purpose: a table of rules by the names that GGUF files use, and their execution by PCRE2.
// Not for: invalid UTF-8; the caller cuts that out before.
// Time: linear in the text for every rule of the table.
// Errors: ErrorCode::unsupported for an unknown name (listing the known ones).
// Threads: a PreTokenizer is constant after construction; split may run in many threads at once.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace strata::text {

struct PreTokenizerRule {
  std::vector<std::string_view> names;
  // Each pattern cuts every piece that the patterns before it left; text that it does not match
  // stays in pieces of its own. Written as the models' own files write them, see adapt_pattern.
  std::vector<std::string_view> patterns;
  bool ignore_merges = false;   // a piece that is a token is not merged
  bool add_bos = false;         // default of add_bos_token
  bool has_default_ids = true;  // BOS and EOS have defaults
};

// The rule of that name; the empty name is the legacy default.
const PreTokenizerRule& pre_tokenizer_rule(std::string_view name);
std::span<const PreTokenizerRule> pre_tokenizer_rules();

class PreTokenizer {
 public:
  // Without `allow_jit` the patterns are interpreted, as where there is no JIT: slower, same
  // pieces.
  explicit PreTokenizer(const PreTokenizerRule& rule, bool allow_jit = true);
  ~PreTokenizer();
  PreTokenizer(const PreTokenizer&) = delete;
  PreTokenizer& operator=(const PreTokenizer&) = delete;

  struct Piece {
    uint32_t begin = 0;
    uint32_t end = 0;
  };
  // Appends the pieces of `text` (valid UTF-8, below 2 GiB), in order, none empty; together they
  // are the whole text. Offsets count from `base`.
  void split(std::string_view text, uint32_t base, std::vector<Piece>& pieces) const;

 private:
  struct Stage;
  std::vector<std::unique_ptr<Stage>> stages_;
};

}  // namespace strata::text
