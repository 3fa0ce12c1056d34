// Helpers for the tests of grammars: whole texts against a grammar, random texts out of one.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "gguf/file.h"
#include "support.h"
#include "text/grammar/matcher.h"

namespace strata::text::test_support {

// Every byte is a token of its own (id = byte); 256 ends the generation.
inline std::shared_ptr<const TokenTrie> byte_tokens() {
  static const auto k_tokens = [] {
    std::vector<std::string> texts;
    for (int byte = 0; byte < 256; ++byte) texts.push_back({static_cast<char>(byte)});
    texts.push_back("");
    return TokenTrie::make(std::move(texts), {256});
  }();
  return k_tokens;
}

inline GrammarMatcher byte_matcher(const std::string& gbnf) {
  return GrammarMatcher(Grammar::parse(gbnf), byte_tokens());
}

inline bool matches(GrammarMatcher matcher, const std::string& text) {
  return matcher.accept_text(text) && matcher.is_complete();
}

inline std::string error_of(const std::string& gbnf) {
  try {
    Grammar::parse(gbnf);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_request);
    return error.what();
  }
  ADD_FAILURE() << "no error: " << gbnf.substr(0, 200);
  return {};
}

inline bool is_allowed(const std::vector<uint32_t>& mask, size_t id) {
  return (mask[id / 32] >> (id % 32) & 1) != 0;
}

// Random allowed tokens until one ends the text, which comes soon after `long_enough` tokens.
// Empty when it does not end within `most` tokens.
inline std::string random_text(GrammarMatcher& matcher, const TokenTrie& tokens,
                               std::mt19937_64& random, size_t long_enough = 60,
                               size_t most = 4000) {
  std::string text;
  std::vector<uint32_t> mask(matcher.mask_words());
  for (size_t step = 0; step < most; ++step) {
    matcher.mask(mask);
    std::vector<TokenId> allowed;
    for (size_t id = 0; id < tokens.size(); ++id) {
      if (is_allowed(mask, id)) allowed.push_back(static_cast<TokenId>(id));
    }
    if (allowed.empty()) {
      ADD_FAILURE() << "nothing may follow: " << text;
      return {};
    }
    TokenId id = allowed[random() % allowed.size()];
    if (matcher.is_complete() && (step >= long_enough || random() % 4 == 0)) {
      id = tokens.end_of_generation()[0];
    } else if (step >= long_enough) {
      // Quotes and closing brackets lead out; inside a string, only the quote does.
      for (const std::string_view way_out : {"}", "]", "\""}) {
        for (const TokenId candidate : allowed) {
          if (tokens.bytes(candidate) == way_out) id = candidate;
        }
      }
    }
    if (!matcher.accept(id)) {
      ADD_FAILURE() << "token " << id << " is in the mask but refused after: " << text;
      return {};
    }
    if (matcher.is_finished()) return text;
    text += tokens.bytes(id);
  }
  return {};
}

inline std::unique_ptr<Tokenizer> load_tokenizer(const std::string& path) {
  return Tokenizer::load(gguf::File::open(path).metadata());
}

}  // namespace strata::text::test_support
