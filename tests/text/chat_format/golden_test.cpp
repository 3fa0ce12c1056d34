// The templates of published models put calls into the past turns of a conversation as the model
// writes them: what they render must be read back as the same calls, and fit the grammar.
#include <gtest/gtest.h>

#include "support.h"
#include "text/chat_format/answer_grammar.h"
#include "text/chat_format/answer_support.h"
#include "text/chat_format/conversation.h"
#include "text/grammar_support.h"
#include "text/template_support.h"

namespace strata::text {
namespace {

using namespace test_support;

struct Published {
  const char* file;
  const char* format;
  bool thinks;
  bool shows_tools;
  bool shows_calls;
  bool many;
  // What stands behind the answer in the template's rendering.
  const char* end;
};

constexpr Published k_published[] = {
    {"GLM-4.6", "glm-4", true, true, true, true, ""},
    {"Kimi-K2-Instruct", "kimi-k2", false, true, true, true, "<|im_end|>"},
    {"MiniMax-M2", "minimax-m2", true, true, true, true, "[e~[\n"},
    {"NousResearch-Hermes-3-Llama-3.1-8B-tool_use", "hermes", false, true, true, true,
     "<|im_end|>\n"},
    {"Qwen-Qwen2.5-7B-Instruct", "hermes", false, true, true, true, "<|im_end|>\n"},
    {"Qwen3.5-4B", "qwen3-coder", true, true, true, true, "<|im_end|>\n"},
    {"deepseek-ai-DeepSeek-V3.1", "deepseek-v3.1", true, false, true, true,
     "<｜end▁of▁sentence｜>"},
    {"google-gemma-2-2b-it", "hermes", false, false, false, false, "<end_of_turn>\n"},
    {"meta-llama-Llama-3.1-8B-Instruct", "llama-3", false, true, true, false, "<|eot_id|>"},
    {"meta-llama-Llama-3.2-3B-Instruct", "llama-3", false, true, true, false, "<|eot_id|>"},
    {"microsoft-Phi-3.5-mini-instruct", "hermes", false, false, false, false, "<|end|>\n</s>"},
    {"mistralai-Mistral-Nemo-Instruct-2407", "mistral", false, true, true, true, "</s>"},
    {"openai-gpt-oss-120b", "gpt-oss", false, true, true, false, "<|call|>"},
};

void PrintTo(const Published& one, std::ostream* out) { *out << one.file; }

class PublishedFormat : public testing::TestWithParam<Published> {
 protected:
  void SetUp() override {
    STRATA_NEED_SHARED();
    source_ = read_file(test::shared_path("templates/") + GetParam().file + ".jinja");
    chat_.emplace(ChatTemplate::parse(source_));
    variables_ = Json::object({{"bos_token", "<s>"}, {"eos_token", "</s>"}});
    traits_ = TemplateTraits::probe(*chat_, source_, variables_);
    format_ = detect_chat_format(source_);
  }
  std::string render(const Json& messages, bool generation_prompt) const {
    Json variables = variables_;
    variables.set("messages", messages_for(traits_, format_, messages, sample_tools()));
    if (traits_.tools) variables.set("tools", tools_for(sample_tools()));
    variables.set("add_generation_prompt", generation_prompt);
    return chat_->render(variables, at_fixed_time());
  }
  static Json call(const char* id, const char* name, const char* arguments) {
    return Json::object({{"id", id},
                         {"type", "function"},
                         {"function", Json::object({{"name", name}, {"arguments", arguments}})}});
  }
  static Json user() { return Json::object({{"role", "user"}, {"content", "Weather?"}}); }
  static Json assistant(Json::Array calls, const char* content = "") {
    return Json::object(
        {{"role", "assistant"}, {"content", content}, {"tool_calls", Json(std::move(calls))}});
  }
  // What the template writes of the assistant's message, as if the model had.
  std::string answer_of(const Json& message, bool& in_reasoning) const {
    const std::string prompt = render(Json(Json::Array{user()}), true);
    std::string all = render(Json(Json::Array{user(), message}), false);
    const size_t common = static_cast<size_t>(
        std::mismatch(prompt.begin(), prompt.end(), all.begin(), all.end()).first - prompt.begin());
    in_reasoning = common == prompt.size() && !format_.think_open.empty() &&
                   std::string(trimmed(prompt)).ends_with(format_.think_open);
    all.erase(0, common);
    const std::string end = GetParam().end;
    EXPECT_TRUE(all.ends_with(end)) << all;
    if (all.ends_with(end)) all.resize(all.size() - end.size());
    return all;
  }
  bool fits(const std::string& answer, ToolChoice choice, bool in_reasoning) const {
    AnswerRules rules;
    rules.tools = sample_tools();
    rules.choice = choice;
    rules.in_reasoning = in_reasoning;
    return matches(byte_matcher(answer_grammar(format_, rules).gbnf), answer);
  }

  std::string source_;
  std::optional<ChatTemplate> chat_;
  Json variables_;
  TemplateTraits traits_;
  ChatFormat format_;
};

TEST_P(PublishedFormat, is_known_by_its_template) {
  EXPECT_EQ(format_.name, GetParam().format);
  EXPECT_EQ(!format_.think_close.empty(), GetParam().thinks);
  EXPECT_EQ(traits_.tools, GetParam().shows_tools);
  EXPECT_EQ(traits_.calls, GetParam().shows_calls);
  EXPECT_EQ(traits_.many_calls, GetParam().many);
}

TEST_P(PublishedFormat, calls_of_the_past_are_read_back) {
  AnswerOptions options;
  options.tools = shared_tools();
  const Json weather = call("call00001", "get_weather", R"({"city":"São \"Paulo\"","unit":"c"})");
  const Json note =
      call("call00002", "make_note", R"({"text":"a\nb </x> {","stars":3,"kind":"note"})");
  std::vector<Json::Array> cases = {{weather}, {note}, {call("call00003", "now", "{}")}};
  if (GetParam().many || !GetParam().shows_calls) cases.push_back({weather, note});
  for (const Json::Array& calls : cases) {
    const std::string answer = answer_of(assistant(calls), options.in_reasoning);
    const ParsedAnswer parsed = parse_all_ways(format_, options, answer);
    EXPECT_EQ(parsed.content, "") << answer;
    EXPECT_EQ(parsed.reasoning, "") << answer;
    ASSERT_EQ(parsed.calls.size(), calls.size()) << answer;
    for (size_t i = 0; i < calls.size(); ++i) {
      const Json& function = *calls[i].find("function");
      EXPECT_EQ(parsed.calls[i].name, function.find("name")->as_string()) << answer;
      EXPECT_EQ(Json::parse(parsed.calls[i].arguments),
                Json::parse(function.find("arguments")->as_string()))
          << answer;
    }
    EXPECT_TRUE(fits(answer, ToolChoice::automatic, options.in_reasoning)) << answer;
    EXPECT_TRUE(fits(answer, ToolChoice::required, options.in_reasoning)) << answer;
  }
  // An answer in words fits as long as no call must be made.
  EXPECT_TRUE(fits("It is < 20 degrees {.", ToolChoice::automatic, false) ||
              format_.calls.body == CallSyntax::Body::channels);
  EXPECT_FALSE(fits("It is 20 degrees.", ToolChoice::required, false));
}

// Arguments that were cut off do not make the conversation unusable.
TEST_P(PublishedFormat, broken_arguments_stay_readable) {
  const Json messages(Json::Array{
      user(), assistant({call("call00001", "get_weather", R"({"city":"Par)")}),
      Json::object({{"role", "tool"}, {"tool_call_id", "call00001"}, {"content", "18 c"}})});
  const std::string text = render(messages, true);
  EXPECT_NE(text.find("Par"), std::string::npos);
  EXPECT_NE(text.find("18 c"), std::string::npos);
}

// Calls and their results are shown by every template, in order.
TEST_P(PublishedFormat, results_follow_their_calls) {
  const auto result = [](const char* id, const char* content) {
    return Json::object({{"role", "tool"}, {"tool_call_id", id}, {"content", content}});
  };
  const Json messages(
      Json::Array{Json::object({{"role", "developer"}, {"content", "Be brief."}}), user(),
                  assistant({call("first-long-id", "get_weather", R"({"city":"Paris"})"),
                             call("second-long-id", "get_weather", R"({"city":"Rome"})")}),
                  result("first-long-id", "eighteen"), result("second-long-id", "twenty"),
                  Json::object({{"role", "assistant"}, {"content", "Warm."}}),
                  Json::object({{"role", "user"}, {"content", "Thanks"}})});
  const std::string text = render(messages, true);
  size_t at = 0;
  for (const char* part : {"Paris", "eighteen"}) {
    at = text.find(part, at);
    ASSERT_NE(at, std::string::npos) << part << " in " << text;
  }
  EXPECT_NE(text.find("Be brief."), std::string::npos) << text;
  EXPECT_NE(text.find("Rome"), std::string::npos) << text;
  EXPECT_NE(text.find("twenty"), std::string::npos) << text;
  EXPECT_NE(text.find("get_weather"), std::string::npos) << text;
}

INSTANTIATE_TEST_SUITE_P(All, PublishedFormat, testing::ValuesIn(k_published));

}  // namespace
}  // namespace strata::text
