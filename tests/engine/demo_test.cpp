// The bundled models: greedy continuations as the trainer's own code computes them, and the share
// of questions that they answer right.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include "base/file.h"
#include "base/json.h"
#include "strata/engine.h"
#include "support.h"

namespace strata {
namespace {

class Demo : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    EngineOptions options;
    options.model = test::source_path(std::string("models/") + GetParam());
    options.threads = 2;
    engine_ = Engine::open(options);
  }
  std::unique_ptr<Engine> engine_;
};

GenerateOptions greedy(int64_t max_tokens) {
  GenerateOptions options;
  options.sampling.temperature = 0;
  options.max_tokens = max_tokens;
  return options;
}

std::vector<TokenId> ids_of(const Json& list) {
  std::vector<TokenId> ids;
  for (const Json& id : list.as_array()) ids.push_back(static_cast<TokenId>(id.as_int()));
  return ids;
}

// PyTorch in float32 on the dequantised weights, and the trainer's own tokenizer.
TEST_P(Demo, continues_as_the_trainer_does) {
  const Json golden = Json::parse(read_file(test::source_path("models/demo-golden.json")));
  const Json* cases = golden.find(GetParam());
  ASSERT_NE(cases, nullptr);
  ASSERT_GE(cases->as_array().size(), 3u);
  for (const Json& one : cases->as_array()) {
    const std::string prompt = one.find("prompt")->as_string();
    const std::vector<TokenId> ids = ids_of(*one.find("ids"));
    EXPECT_EQ(engine_->tokenize(prompt), ids) << prompt;
    const std::vector<TokenId> expected = ids_of(*one.find("greedy"));
    // The vectors go on past end tokens; ours stop there.
    GenerateOptions options = greedy(static_cast<int64_t>(expected.size()));
    Session session(*engine_);
    const std::vector<TokenId> made = session.generate(ids, options).tokens;
    ASSERT_FALSE(made.empty());
    ASSERT_LE(made.size(), expected.size());
    EXPECT_TRUE(std::equal(made.begin(), made.end(), expected.begin())) << prompt;
  }
}

TEST_P(Demo, answers_the_questions) {
  std::ifstream in(test::source_path("models/demo-questions.tsv"));
  std::string line;
  std::map<std::string, std::pair<int, int>> by_kind;  // right, asked
  int right = 0, asked = 0;
  while (std::getline(in, line)) {
    std::istringstream fields(line);
    std::string kind, question, answer;
    ASSERT_TRUE(std::getline(fields, kind, '\t') && std::getline(fields, question, '\t') &&
                std::getline(fields, answer, '\t'))
        << line;
    for (size_t at = 0; (at = question.find("\\n", at)) != std::string::npos;) {
      question.replace(at, 2, "\n");
    }
    Session session(*engine_);
    const std::vector<ChatMessage> chat{{"user", question}};
    const std::string text = session.generate(engine_->chat_tokens(chat), greedy(48)).text;
    ++asked;
    ++by_kind[kind].second;
    if (text == answer) {
      ++right;
      ++by_kind[kind].first;
    }
  }
  ASSERT_GE(asked, 200);
  std::string report;
  for (const auto& [kind, counts] : by_kind) {
    report +=
        kind + " " + std::to_string(counts.first) + "/" + std::to_string(counts.second) + ", ";
  }
  RecordProperty("right", right);
  // Stated in tools/demo_model/README.md: 91.3 % (dense) and 90.0 % (experts); a little is left for
  // close calls.
  EXPECT_GE(right, asked * 89 / 100) << report;
  std::printf("%s: %s%d of %d\n", GetParam(), report.c_str(), right, asked);
}

INSTANTIATE_TEST_SUITE_P(Files, Demo,
                         testing::Values("demo-f16.gguf", "demo-q8_0.gguf", "demo-moe-f16.gguf",
                                         "demo-moe-q8_0.gguf"),
                         [](const auto& one) {
                           std::string name = one.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

}  // namespace
}  // namespace strata
