// Grammars and JSON schemas: whatever the text is, it is refused or it can be followed, and a mask
// allows exactly the tokens that are then accepted. What a schema's grammar ends is JSON.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/matcher.h"

namespace {

using strata::TokenId;
using strata::text::Grammar;
using strata::text::GrammarMatcher;
using strata::text::TokenTrie;

const std::shared_ptr<const TokenTrie>& tokens() {
  static const auto k_tokens = [] {
    std::vector<std::string> texts;
    for (int byte = 0; byte < 256; ++byte) texts.push_back({static_cast<char>(byte)});
    for (const char* text : {"\": ", "\", \"", "{\"", "}}", "[1", "null", "true", "ab",
                             "\xC3\xA9\"", "0-", "\n  ", "e5", "\\u", ""}) {
      texts.emplace_back(text);
    }
    const auto end = static_cast<TokenId>(texts.size() - 1);
    return TokenTrie::make(std::move(texts), {end});
  }();
  return k_tokens;
}

// Walks by numbers made from the input; gives the text when it ended.
std::string walk(GrammarMatcher& matcher, uint64_t number, bool& ended) {
  std::string text;
  std::vector<uint32_t> mask(matcher.mask_words());
  for (int step = 0; step < 40; ++step) {
    matcher.mask(mask);
    std::vector<TokenId> allowed;
    for (size_t i = 0; i < tokens()->size(); ++i) {
      const auto id = static_cast<TokenId>(i);
      const bool is_allowed = (mask[i / 32] >> (i % 32) & 1) != 0;
      if ((i + static_cast<size_t>(step)) % 8 == 0 && is_allowed != matcher.allows(id))
        std::abort();
      if (is_allowed) allowed.push_back(id);
    }
    if (allowed.empty()) break;
    number = number * 6364136223846793005u + 1442695040888963407u;
    const TokenId id = allowed[(number >> 33) % allowed.size()];
    if (!matcher.accept(id)) std::abort();
    if (matcher.is_finished()) {
      ended = true;
      break;
    }
    text += tokens()->bytes(id);
  }
  return text;
}

void follow(const std::string& gbnf, uint64_t number, bool is_json) {
  GrammarMatcher matcher(Grammar::parse(gbnf), tokens(), 1 << 20);
  for (uint64_t round = 0; round < 3; ++round) {
    matcher.reset();
    bool ended = false;
    const std::string text = walk(matcher, number + round, ended);
    if (!ended || !is_json) continue;
    try {
      strata::Json::parse(text);
    } catch (const strata::Error&) {
      std::abort();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 16'384) return 0;
  const std::string text(reinterpret_cast<const char*>(data), size);
  uint64_t number = 1469598103934665603u;
  for (size_t i = 0; i < size; ++i) number = (number ^ data[i]) * 1099511628211u;
  try {
    follow(text, number, false);
  } catch (const strata::Error&) {
  }
  std::string gbnf;
  try {
    gbnf = strata::text::schema_grammar(strata::Json::parse(text)).gbnf;
  } catch (const strata::Error&) {
    return 0;
  }
  try {
    follow(gbnf, number, true);
  } catch (const strata::Error&) {
    // A schema may be larger than what can be followed, or refer to itself.
  }
  return 0;
}
