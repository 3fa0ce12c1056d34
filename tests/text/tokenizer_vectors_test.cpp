// Exact ids on the published vectors: eight vocabularies, 46 texts each.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "gguf/file.h"
#include "support.h"
#include "text/tokenizer.h"

namespace strata::text {
namespace {

std::string read_all(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<std::string> split_texts(const std::string& all) {
  const std::string separator = "\n__ggml_vocab_test__\n";
  std::vector<std::string> texts;
  size_t at = 0;
  for (size_t end; (end = all.find(separator, at)) != std::string::npos;
       at = end + separator.size()) {
    texts.push_back(all.substr(at, end - at));
  }
  if (at < all.size()) texts.push_back(all.substr(at));
  return texts;
}

class TokenizerVectors : public testing::TestWithParam<const char*> {};

TEST_P(TokenizerVectors, IdsAreExact) {
  STRATA_NEED_SHARED();
  const std::string base = test::shared_path(std::string("tokenizers/") + GetParam());
  const gguf::File file = gguf::File::open(base + ".gguf");
  const auto tokenizer = Tokenizer::load(file.metadata());
  const std::vector<std::string> texts = split_texts(read_all(base + ".inp"));
  std::istringstream out(read_all(base + ".out"));

  int cases = 0;
  EncodeOptions options;
  options.add_special = false;
  for (const std::string& text : texts) {
    std::string line;
    ASSERT_TRUE(std::getline(out, line)) << "no line for case " << cases;
    std::vector<TokenId> expected;
    std::istringstream numbers(line);
    for (TokenId id = 0; numbers >> id;) expected.push_back(id);
    EXPECT_EQ(tokenizer->encode(text, options), expected) << "case " << cases << ": " << text;
    if (tokenizer->model() != "bert") {
      EXPECT_EQ(tokenizer->decode(expected), text) << "case " << cases;
      Detokenizer stream(*tokenizer);
      std::string streamed;
      for (const TokenId id : expected) streamed += stream.push(id);
      EXPECT_EQ(streamed + stream.finish(), text) << "case " << cases;
    }
    ++cases;
  }
  EXPECT_EQ(cases, 46);
}

INSTANTIATE_TEST_SUITE_P(All, TokenizerVectors,
                         testing::Values("bert-bge", "deepseek-coder", "falcon", "gpt-2",
                                         "llama-bpe", "llama-spm", "phi-3", "qwen2"),
                         [](const testing::TestParamInfo<const char*>& param) {
                           std::string name = param.param;
                           for (char& c : name) {
                             if (c == '-') c = '_';
                           }
                           return name;
                         });

}  // namespace
}  // namespace strata::text
