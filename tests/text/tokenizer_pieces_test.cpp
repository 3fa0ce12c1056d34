// Pre-tokenizers against the models' own patterns, run by another regex engine
// (tokenizer_pieces.py writes the expected pieces).
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "support.h"
#include "text/tokenizers/pre_tokenizers.h"

namespace strata::text {
namespace {

std::string from_hex(const std::string& hex) {
  std::string out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    out.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return out;
}

std::string lengths_of(const PreTokenizer& tokenizer, const std::string& text) {
  std::vector<PreTokenizer::Piece> pieces;
  tokenizer.split(text, 0, pieces);
  std::string out;
  for (const auto& piece : pieces) {
    if (!out.empty()) out += ',';
    out += std::to_string(piece.end - piece.begin);
  }
  return out;
}

class TokenizerPieces : public testing::TestWithParam<bool> {};  // with JIT or interpreted

TEST_P(TokenizerPieces, AsTheOtherEngineCutsThem) {
  const char* other = std::getenv("STRATA_TOKENIZER_PIECES");
  std::ifstream in(other != nullptr ? other : test::source_path("tests/text/tokenizer_pieces.txt"));
  ASSERT_TRUE(in.good());
  std::unique_ptr<PreTokenizer> tokenizer;
  std::string rule;
  std::set<std::string> rules;
  int cases = 0;
  for (std::string line; std::getline(in, line);) {
    const size_t space = line.find(' ');
    if (space == std::string::npos) {
      rule = line;
      rules.insert(rule);
      tokenizer = std::make_unique<PreTokenizer>(pre_tokenizer_rule(rule), GetParam());
      continue;
    }
    ASSERT_NE(tokenizer, nullptr);
    EXPECT_EQ(lengths_of(*tokenizer, from_hex(line.substr(0, space))), line.substr(space + 1))
        << rule << ": " << from_hex(line.substr(0, space)) << " (" << line.substr(0, space) << ")";
    ++cases;
  }
  EXPECT_GE(rules.size(), 14u);
  EXPECT_GT(cases, 700);
}

INSTANTIATE_TEST_SUITE_P(Jit, TokenizerPieces, testing::Bool());

TEST(PreTokenizerRules, EveryNameOfTheTableIsKnown) {
  for (const char* name :
       {"llama-bpe",   "llama3",         "llama-v3",     "dbrx",   "smaug-bpe",  "glm4",
        "chatglm-bpe", "qwen2",          "qwen35",       "gpt-4o", "minimax-m2", "kimi-k2",
        "deepseek-v3", "deepseek-coder", "deepseek-llm", "gpt-2",  "mpt",        "starcoder",
        "refact",      "command-r",      "tekken",       "falcon", "default",    ""}) {
    EXPECT_NO_THROW(pre_tokenizer_rule(name)) << name;
  }
  EXPECT_TRUE(pre_tokenizer_rule("llama3").ignore_merges);
  EXPECT_TRUE(pre_tokenizer_rule("tekken").ignore_merges);
  EXPECT_FALSE(pre_tokenizer_rule("dbrx").ignore_merges);
  EXPECT_FALSE(pre_tokenizer_rule("qwen2").ignore_merges);
}

TEST(PreTokenizerRules, AnUnknownNameListsTheKnownOnes) {
  try {
    pre_tokenizer_rule("qwen\n99");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    const std::string message = error.what();
    EXPECT_NE(message.find("tokenizer.ggml.pre"), std::string::npos) << message;
    EXPECT_NE(message.find("qwen2"), std::string::npos) << message;
    EXPECT_NE(message.find("deepseek-v3"), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

// deepseek-llm by hand: line ends alone; a space goes with a word or with listed punctuation;
// trailing space, CJK runs and number runs are pieces.
TEST(PreTokenizerRules, DeepseekLlmByHand) {
  const PreTokenizer tokenizer(pre_tokenizer_rule("deepseek-llm"));
  EXPECT_EQ(lengths_of(tokenizer, "Hi there, 1234 you\n\n"), "2,6,1,1,4,4,1,1");
  EXPECT_EQ(lengths_of(tokenizer, "a  b"), "1,1,2");
  EXPECT_EQ(lengths_of(tokenizer, "ab   \ncd"), "2,3,1,2");
  EXPECT_EQ(lengths_of(tokenizer, "\xE4\xB8\xAD\xE6\x96\x87 ok"), "6,3");
  // Letters that the list lacks (Armenian small letters) are not words: they stay as they are.
  EXPECT_EQ(lengths_of(tokenizer, "\xD5\xA1\xD5\xA2 x"), "4,2");
}

}  // namespace
}  // namespace strata::text
