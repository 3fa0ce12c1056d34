// Constrained output: which tokens may come next so that the text stays within a grammar.
//
// Purpose: GBNF grammars as users of llama.cpp write them (a JSON schema becomes one, see
// json_schema.h), over the tokens of a vocabulary. Text is matched byte by byte, so that a token
// may hold a part of a character or of several rules. Tokens that end a generation are allowed
// exactly when the grammar may end; tokens without text of their own never are.
// Use: TokenTrie::make(tokenizer) once per model; Grammar::parse once per grammar;
// GrammarMatcher(grammar, tokens) per sequence, or copies of one, which share what they learn.
// Time: a token seen before in its state costs a look into a table per byte, a mask that was made
// before costs a copy; a new mask is a walk over the part of the vocabulary that is allowed.
// Errors: ErrorCode::bad_request: a grammar that is wrong (with line and column), too large, or too
// ambiguous to be followed (found while matching). Rules nested deeper than 20,000 are not entered.
// Memory: what matchers share stays near GrammarMatcher's `budget`.
// Threads: Grammar and TokenTrie are constant. Copies of a matcher may be used in different
// threads, one matcher in one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "text/grammar/mask.h"
#include "text/grammar/token_trie.h"

namespace strata::text {

namespace grammar {
struct Program;
}

class Grammar {
 public:
  static std::shared_ptr<const Grammar> parse(std::string_view gbnf);
  // For GrammarMatcher.
  const std::shared_ptr<const grammar::Program>& program() const { return program_; }

 private:
  explicit Grammar(std::shared_ptr<const grammar::Program> program);
  std::shared_ptr<const grammar::Program> program_;
};

class GrammarMatcher {
 public:
  static constexpr size_t k_default_budget = size_t{48} << 20;

  GrammarMatcher(const std::shared_ptr<const Grammar>& grammar,
                 std::shared_ptr<const TokenTrie> tokens, size_t budget = k_default_budget);
  GrammarMatcher(const GrammarMatcher& other);
  GrammarMatcher& operator=(const GrammarMatcher& other);
  ~GrammarMatcher();

  // Whether the token may come now; if so the matcher stands behind it, otherwise nothing changes.
  [[nodiscard]] bool accept(TokenId id);
  // The same for a piece of text.
  [[nodiscard]] bool accept_text(std::string_view text);
  // Sets bit id % 32 of word id / 32 for every token that may come now and clears all others.
  // `out` has mask_words() words. Tokens may be none: no token continues the grammar.
  void mask(std::span<uint32_t> out);
  bool allows(TokenId id);
  // The grammar may end here.
  bool is_complete();
  // A token that ends the generation was accepted; nothing but such tokens is allowed any more.
  bool is_finished() const { return finished_; }
  void reset();

  size_t mask_words() const;
  size_t memory_bytes() const;  // shared by all copies

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
  size_t slot_;
  bool finished_ = false;
};

}  // namespace strata::text
