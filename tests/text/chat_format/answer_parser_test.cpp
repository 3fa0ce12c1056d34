// Answers taken apart: the same however they come, nothing lost, nothing leaked.
#include "text/chat_format/answer_parser.h"

#include <gtest/gtest.h>

#include "text/chat_format/answer_support.h"

namespace strata::text {
namespace {

using namespace test_support;

const ChatFormat k_hermes = detect_chat_format("<tool_call> <think> </think>");
const ChatFormat k_qwen = detect_chat_format("<tool_call> <function= <parameter= </think>");
const ChatFormat k_llama = detect_chat_format("<|start_header_id|> \"parameters\"");
const ChatFormat k_oss = detect_chat_format("<|channel|>analysis <|message|> <|start|>");

AnswerOptions with_tools(bool in_reasoning = false) {
  AnswerOptions out;
  out.tools = shared_tools();
  out.in_reasoning = in_reasoning;
  return out;
}

TEST(AnswerParser, plain_text_passes) {
  for (const char* text : {"", " Hello\n", "a <b> {\"name\": \"now\"} <tool_call>", "\n\n  "}) {
    const ParsedAnswer a = parse_all_ways(detect_chat_format(""), {}, text);
    EXPECT_EQ(a.content, text);
    EXPECT_EQ(parse_all_ways(k_hermes, {}, text).content, text);
  }
}

TEST(AnswerParser, reasoning_is_split_off) {
  AnswerOptions options;
  struct Case {
    const char* text;
    bool open;
    const char* reasoning;
    const char* content;
  };
  const Case cases[] = {
      {"<think>\nHm.\n</think>\n\nYes.", false, "Hm.", "Yes."},
      {"\n<think>Hm.</think>Yes. ", false, "Hm.", "Yes. "},
      {"Hm.\n\n2 < 3\n</think>\n\nYes.", true, "Hm.\n\n2 < 3", "Yes."},
      {"<think>\nHm.\n</think>Yes.", true, "Hm.", "Yes."},  // opened twice
      {"Hm, without end", true, "Hm, without end", ""},
      {"<think>Hm", false, "Hm", ""},
      {"a</think>b<think>c</think>d", true, "a\n\nc", "bd"},  // reopened
      {"<think>a</think>b <think>c</think>\nd", false, "a\n\nc", "b d"},
      {"<think>\n\n</think>\n\nYes.", false, "", "Yes."},
      {"a</think>b</think>c", true, "a", "bc"},  // closed twice
      {"Hm</thin", true, "Hm</thin", ""},
      {"Yes <thin", false, "", "Yes <thin"},
      {"Yes <thinking> no", false, "", "Yes <thinking> no"},
      {"<think>x </thin> </think>y", false, "x </thin>", "y"},
      {"Grüße <think>ü</think> 😀", false, "ü", "Grüße 😀"},
  };
  for (const Case& one : cases) {
    options.in_reasoning = one.open;
    const ParsedAnswer a = parse_all_ways(k_hermes, options, one.text);
    EXPECT_EQ(a.reasoning, one.reasoning) << one.text;
    EXPECT_EQ(a.content, one.content) << one.text;
  }
}

// Not split: every byte stays, marks too.
TEST(AnswerParser, reasoning_may_stay_in_the_content) {
  AnswerOptions options;
  options.split_reasoning = false;
  for (const char* text : {"<think>\nHm.\n</think>\n\nYes.", "a</think>b<think>c</think>d",
                           "  <think> x", "Yes </think>\n"}) {
    for (const bool open : {false, true}) {
      options.in_reasoning = open;
      const ParsedAnswer a = parse_all_ways(k_hermes, options, text);
      EXPECT_EQ(a.content, text);
      EXPECT_EQ(a.reasoning, "");
    }
  }
  options.tools = shared_tools();
  const ParsedAnswer a = parse_all_ways(
      k_hermes, options,
      "<think>\nthe <tool_call> tag\n</think>\n<tool_call>\n{\"name\": \"now\"}\n</tool_call>");
  EXPECT_EQ(a.content, "<think>\nthe <tool_call> tag\n</think>");
  ASSERT_EQ(a.calls.size(), 1u);
  EXPECT_EQ(a.calls[0].arguments, "{}");
}

TEST(AnswerParser, calls_between_text) {
  const ParsedAnswer a = parse_all_ways(
      k_hermes, with_tools(),
      "Let me see.\n\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": "
      "\"a}</tool_call>\\\"\"}}\n</tool_call>\n<tool_call>{\"arguments\":{},\"name\":\"now\"}"
      "</tool_call>\n\nDone.");
  EXPECT_EQ(a.content, "Let me see.\n\nDone.");
  ASSERT_EQ(a.calls.size(), 2u);
  EXPECT_EQ(a.calls[0].name, "get_weather");
  EXPECT_EQ(a.calls[0].arguments, "{\"city\": \"a}</tool_call>\\\"\"}");
  EXPECT_EQ(a.calls[1].name, "now");
  EXPECT_EQ(a.calls[1].arguments, "{}");
  EXPECT_NE(a.calls[0].id, a.calls[1].id);
}

// Arguments as a text that holds JSON are decoded once.
TEST(AnswerParser, arguments_in_quotes) {
  const ParsedAnswer a = parse_all_ways(
      k_hermes, with_tools(),
      R"(<tool_call>{"name": "get_weather", "arguments": "{\"city\": \"Rome\"}"}</tool_call>)");
  ASSERT_EQ(a.calls.size(), 1u);
  EXPECT_EQ(a.calls[0].arguments, R"({"city": "Rome"})");
}

TEST(AnswerParser, what_is_no_call_is_text) {
  for (const char* text : {
           "<tool_call>",
           "<tool_call>\n",
           "a <tool_call> b",
           "<tool_call>{\"x\": 1}</tool_call>",
           "<tool_call>[1]</tool_call>",
           "<tool_call>{\"name\"",
           "x <tool_call>\n{\"name\": \"no",
           "the <tool_c",
           "<tool_call>{}</tool_call> \n",
       }) {
    const ParsedAnswer a = parse_all_ways(k_hermes, with_tools(), text);
    EXPECT_EQ(a.content, text);
    EXPECT_TRUE(a.calls.empty());
  }
}

TEST(AnswerParser, calls_that_are_cut_off) {
  const ParsedAnswer a =
      parse_all_ways(k_hermes, with_tools(),
                     "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Par");
  ASSERT_EQ(a.calls.size(), 1u);
  EXPECT_EQ(a.calls[0].arguments, "{\"city\": \"Par");
  EXPECT_EQ(a.content, "");
  const ParsedAnswer b = parse_all_ways(
      k_qwen, with_tools(), "<tool_call>\n<function=make_note>\n<parameter=text>\nab</para");
  ASSERT_EQ(b.calls.size(), 1u);
  EXPECT_EQ(b.calls[0].arguments, "{\"text\":\"ab</para");
}

// Strings between tags become JSON by the type that the schema gives them, once.
TEST(AnswerParser, values_between_tags) {
  const auto arguments = [](const std::string& key, const std::string& value) {
    const ParsedAnswer a =
        parse_all_ways(k_qwen, with_tools(),
                       "<tool_call>\n<function=make_note>\n<parameter=" + key + ">\n" + value +
                           "\n</parameter>\n</function>\n</tool_call>");
    EXPECT_EQ(a.calls.size(), 1u);
    EXPECT_EQ(a.content, "");
    return a.calls.empty() ? Json() : *Json::parse(a.calls[0].arguments).find(key);
  };
  EXPECT_EQ(arguments("text", "two\nlines \"and\" \\ more\t"),
            Json("two\nlines \"and\" \\ more\t"));
  EXPECT_EQ(arguments("text", "12"), Json("12"));
  EXPECT_EQ(arguments("text", "\"quoted\""), Json("\"quoted\""));
  EXPECT_EQ(arguments("text", ""), Json(""));
  EXPECT_EQ(arguments("stars", "3"), Json(3));
  EXPECT_EQ(arguments("done", "true"), Json(true));
  EXPECT_EQ(arguments("done", "False"), Json(false));
  EXPECT_EQ(arguments("tags", "[\"a\", \"b\"]"), Json(Json::Array{"a", "b"}));
  EXPECT_EQ(arguments("kind", "note"), Json("note"));
  EXPECT_EQ(arguments("kind", "\"note\""), Json("note"));
  EXPECT_EQ(arguments("due", "null"), Json());
  EXPECT_EQ(arguments("due", "\"tomorrow\""), Json("tomorrow"));
  EXPECT_EQ(arguments("due", "tomorrow"), Json("tomorrow"));
  EXPECT_EQ(arguments("due", "7"), Json("7"));  // a number is not allowed there
  EXPECT_EQ(arguments("place", "{\"x\": 1, \"y\": 2}"), Json::parse(R"({"x":1,"y":2})"));
  EXPECT_EQ(arguments("unheard_of", "x"), Json("x"));
}

TEST(AnswerParser, objects_without_a_mark) {
  const std::string call = R"({"name": "get_weather", "parameters": {"city": "Rome"}})";
  for (const std::string& text :
       std::vector<std::string>{call, "<|python_tag|>" + call, "\n" + call + "\n",
                                R"({"type": "function", "name": "get_weather", "parameters": )"
                                R"({"city": "Rome"}})",
                                R"({"type": "function", "function": {"name": "get_weather", )"
                                R"("parameters": {"city": "Rome"}}})"}) {
    const ParsedAnswer a = parse_all_ways(k_llama, with_tools(), text);
    ASSERT_EQ(a.calls.size(), 1u) << text;
    EXPECT_EQ(a.calls[0].name, "get_weather");
    EXPECT_EQ(a.calls[0].arguments, R"({"city": "Rome"})");
    EXPECT_EQ(a.content, "") << text;
  }
  const ParsedAnswer two =
      parse_all_ways(k_llama, with_tools(), call + "; {\"name\": \"now\", \"parameters\": {}}");
  EXPECT_EQ(two.calls.size(), 2u);
  // Any other object is an answer.
  for (const char* text : {R"({"city": "Rome"})", R"({"name": "nobody", "parameters": {}})",
                           R"({"name": "now")", "{", " {} ", R"(As in {"name": "now"})"}) {
    const ParsedAnswer a = parse_all_ways(k_llama, with_tools(), text);
    EXPECT_EQ(a.content, text);
    EXPECT_TRUE(a.calls.empty());
  }
}

TEST(AnswerParser, channels) {
  const ParsedAnswer a =
      parse_all_ways(k_oss, with_tools(),
                     "<|channel|>analysis<|message|>Need the "
                     "weather.<|end|><|start|>assistant<|channel|>commentary"
                     "<|message|>One moment.<|end|><|start|>assistant<|channel|>commentary "
                     "to=functions.get_weather "
                     "<|constrain|>json<|message|>{\"city\":\"Rome\"}<|call|>");
  EXPECT_EQ(a.reasoning, "Need the weather.");
  EXPECT_EQ(a.content, "One moment.");
  ASSERT_EQ(a.calls.size(), 1u);
  EXPECT_EQ(a.calls[0].name, "get_weather");
  EXPECT_EQ(a.calls[0].arguments, "{\"city\":\"Rome\"}");
  const ParsedAnswer b =
      parse_all_ways(k_oss, {},
                     "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final"
                     "<|message|>Hello <b>");
  EXPECT_EQ(b.reasoning, "Hm.");
  EXPECT_EQ(b.content, "Hello <b>");
  EXPECT_EQ(parse_all_ways(k_oss, {}, "Just text").content, "Just text");
  EXPECT_EQ(parse_all_ways(k_oss, {}, "<|channel|>ana").content, "");
  AnswerOptions whole;
  whole.split_reasoning = false;
  const std::string text = "<|channel|>analysis<|message|>Hm.<|end|>";
  EXPECT_EQ(parse_all_ways(k_oss, whole, text).content, text);
  whole.tools = shared_tools();
  EXPECT_EQ(parse_all_ways(k_oss, whole, text).content, text);
}

struct Written {
  const char* signs;
  const char* text;
};

// As the families' documentation shows an answer with a call.
TEST(AnswerParser, other_families) {
  const Written all[] = {
      {"<|tool_calls_section_begin|> <|tool_call_begin|> <|tool_call_argument_begin|>",
       "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0"
       "<|tool_call_argument_begin|>{\"city\": \"Rome\"}<|tool_call_end|>"
       "<|tool_calls_section_end|>"},
      {"<｜tool▁calls▁begin｜> <｜tool▁sep｜> ```json",
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n"
       "{\"city\": \"Rome\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
      {"[TOOL_CALLS] [ARGS]", "[TOOL_CALLS]get_weather[ARGS]{\"city\": \"Rome\"}"},
      {"[TOOL_CALLS] [ARGS]",
       "[TOOL_CALLS]get_weather[CALL_ID]a1b2c3d4e[ARGS]{\"city\": \"Rome\"}"},
      {"[TOOL_CALLS]",
       "[TOOL_CALLS][{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Rome\"}, \"id\": "
       "\"a1b2c3d4e\"}]"},
      {"<|tool_call|> <|/tool_call|>",
       "<|tool_call|>[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Rome\"}}]"
       "<|/tool_call|>"},
      {"<|tool_call|> <|start_of_role|>",
       "<|tool_call|>[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Rome\"}}]"},
      {"<arg_key> <arg_value> <tool_call>",
       "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Rome</arg_value>\n"
       "</tool_call>"},
      {"<minimax:tool_call> <invoke name=",
       "<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter name=\"city\">Rome"
       "</parameter>\n</invoke>\n</minimax:tool_call>"},
  };
  for (const Written& one : all) {
    const ChatFormat format = detect_chat_format(one.signs);
    const ParsedAnswer a = parse_all_ways(format, with_tools(), one.text);
    EXPECT_EQ(a.content, "") << one.text;
    ASSERT_EQ(a.calls.size(), 1u) << format.name << ": " << one.text;
    EXPECT_EQ(a.calls[0].name, "get_weather") << one.text;
    EXPECT_EQ(Json::parse(a.calls[0].arguments), Json::parse(R"({"city":"Rome"})")) << one.text;
    // Without tools the same is text.
    EXPECT_EQ(parse_all_ways(format, {}, one.text).content, one.text);
    // Every beginning of it is taken apart without a fault.
    for (size_t n = 0; n < std::string(one.text).size(); ++n) {
      parse_in_pieces(format, with_tools(), std::string(one.text).substr(0, n), {});
    }
  }
  EXPECT_EQ(parse_all_ways(detect_chat_format(all[0].signs), with_tools(), all[0].text).calls[0].id,
            "functions.get_weather:0");
}

}  // namespace
}  // namespace strata::text
