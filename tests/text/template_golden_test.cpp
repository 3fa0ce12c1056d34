// Templates that published models ship, against what Python's jinja2 renders.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "support.h"
#include "text/template_support.h"

namespace strata::text {
namespace {

constexpr const char* k_templates[] = {
    "GLM-4.6",
    "Kimi-K2-Instruct",
    "MiniMax-M2",
    "NousResearch-Hermes-3-Llama-3.1-8B-tool_use",
    "Qwen-Qwen2.5-7B-Instruct",
    "Qwen3.5-4B",
    "deepseek-ai-DeepSeek-V3.1",
    "google-gemma-2-2b-it",
    "meta-llama-Llama-3.1-8B-Instruct",
    "meta-llama-Llama-3.2-3B-Instruct",
    "microsoft-Phi-3.5-mini-instruct",
    "mistralai-Mistral-Nemo-Instruct-2407",
    "openai-gpt-oss-120b",
};

std::string join(const std::vector<Segment>& segments) {
  std::string out;
  for (const Segment& segment : segments) out += segment.text;
  return out;
}

class PublishedTemplate : public testing::TestWithParam<const char*> {};

TEST_P(PublishedTemplate, RendersAsJinja2RendersIt) {
  STRATA_NEED_SHARED();
  const std::string base = test::shared_path("templates/") + GetParam();
  const ChatTemplate chat = ChatTemplate::parse(read_file(base + ".jinja"), GetParam());
  const Json cases = read_json(base + ".json");
  int count = 0;
  for (const auto& [name, item] : cases.as_object()) {
    ++count;
    const Json& input = *item.find("input");
    if (const Json* output = item.find("output")) {
      EXPECT_EQ(chat.render(input, at_fixed_time()), output->as_string()) << name;
      EXPECT_EQ(join(chat.render_segments(input, at_fixed_time())), output->as_string()) << name;
      continue;
    }
    std::string reason = item.find("error")->as_string();
    if (reason.rfind("TemplateError: ", 0) == 0) reason = reason.substr(15);
    if (reason.find("is unsafe") != std::string::npos) {
      // jinja2's sandbox refuses append; we render it.
      EXPECT_NE(chat.render(input, at_fixed_time()).find("functions."), std::string::npos) << name;
      continue;
    }
    try {
      const std::string rendered = chat.render(input, at_fixed_time());
      ADD_FAILURE() << name << " rendered, but must fail: " << reason << "\n" << rendered;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_request);
      if (reason.find('\n') == std::string::npos) {
        EXPECT_NE(std::string(error.what()).find(reason), std::string::npos)
            << name << ": " << error.what() << "\nwanted: " << reason;
      }
    }
  }
  EXPECT_EQ(count, 6);
}

INSTANTIATE_TEST_SUITE_P(All, PublishedTemplate, testing::ValuesIn(k_templates));

TEST(TemplateGolden, EveryPublishedTemplateIsListed) {
  STRATA_NEED_SHARED();
  size_t found = 0;
  for (const auto& entry : std::filesystem::directory_iterator(test::shared_path("templates"))) {
    if (entry.path().extension() == ".jinja") ++found;
  }
  EXPECT_EQ(found, std::size(k_templates));
}

}  // namespace
}  // namespace strata::text
