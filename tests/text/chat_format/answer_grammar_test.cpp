// Whatever the grammar of an answer lets through calls tools that there are, with arguments that
// their schemas accept.
#include "text/chat_format/answer_grammar.h"

#include <gtest/gtest.h>

#include <random>

#include "text/chat_format/answer_support.h"
#include "text/grammar_support.h"

namespace strata::text {
namespace {

using namespace test_support;

constexpr const char* k_signs[] = {
    "<tool_call>",
    "<tool_call> <think> </think>",
    "<tool_call> <function= <parameter= </think>",
    "<minimax:tool_call> <invoke name= </think>",
    "<arg_key> <arg_value> <tool_call> </think>",
    "<|tool_calls_section_begin|> <|tool_call_begin|> <|tool_call_argument_begin|>",
    "<｜tool▁calls▁begin｜> <｜tool▁sep｜> ```json </think>",
    "<｜tool▁calls▁begin｜> <｜tool▁sep｜> </think>",
    "[TOOL_CALLS] [ARGS] [/THINK]",
    "[TOOL_CALLS]",
    "<|tool_call|> <|/tool_call|>",
    "<|start_header_id|> \"parameters\"",
    "<|channel|>analysis <|message|> <|start|>",
};

// Bytes, the format's marks, and the pieces of JSON that lead on.
std::shared_ptr<const TokenTrie> tokens_for(const ChatFormat& format) {
  std::vector<std::string> texts;
  for (int c = 0x20; c < 0x7F; ++c) texts.push_back({static_cast<char>(c)});
  texts.push_back("\n");
  for (const char* text : {"ü", "｜", "▁"}) texts.emplace_back(text);
  for (const std::string& mark : marks_of(format)) {
    if (std::find(texts.begin(), texts.end(), mark) == texts.end()) texts.push_back(mark);
  }
  for (const char* text : {"{\"name\": \"", "note", "assistant", "functions."}) {
    texts.emplace_back(text);
  }
  texts.emplace_back();
  const auto end = static_cast<TokenId>(texts.size() - 1);
  return TokenTrie::make(std::move(texts), {end});
}

// A random answer that soon goes where marks lead.
std::string random_answer(GrammarMatcher& matcher, const TokenTrie& tokens,
                          std::mt19937_64& random) {
  std::string text;
  std::vector<uint32_t> mask(matcher.mask_words());
  const TokenId end = tokens.end_of_generation()[0];
  for (size_t step = 0; step < 3000; ++step) {
    matcher.mask(mask);
    std::vector<TokenId> allowed, long_ones, ways_out;
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (!is_allowed(mask, i)) continue;
      const auto id = static_cast<TokenId>(i);
      allowed.push_back(id);
      const std::string_view bytes = tokens.bytes(id);
      if (bytes.size() > 1) long_ones.push_back(id);
      if (bytes == "\"" || bytes == "}" || bytes == "]") ways_out.push_back(id);
    }
    if (allowed.empty()) {
      ADD_FAILURE() << "nothing may follow: " << text;
      return {};
    }
    TokenId id = allowed[random() % allowed.size()];
    if (!ways_out.empty() && random() % 4 == 0) id = ways_out[random() % ways_out.size()];
    if (!long_ones.empty() && random() % 3 == 0) id = long_ones[random() % long_ones.size()];
    if (matcher.is_complete() && (step > 400 || random() % 8 == 0)) id = end;
    EXPECT_TRUE(matcher.accept(id));
    if (matcher.is_finished()) return text;
    text += tokens.bytes(id);
  }
  return {};
}

void check_calls(const ChatFormat& format, const AnswerOptions& options, const std::string& text,
                 bool required, bool parallel) {
  const ParsedAnswer a = parse_in_pieces(format, options, text, {});
  if (required) {
    EXPECT_GE(a.calls.size(), 1u) << format.name << ": " << text;
    if (format.calls.body != CallSyntax::Body::channels) {
      EXPECT_EQ(a.content, "") << format.name << ": " << text;
    }
  }
  if (!parallel) {
    EXPECT_LE(a.calls.size(), 1u) << format.name << ": " << text;
  }
  for (const ParsedCall& call : a.calls) {
    const auto tool = std::find_if(options.tools->begin(), options.tools->end(),
                                   [&](const Tool& one) { return one.name == call.name; });
    ASSERT_NE(tool, options.tools->end()) << call.name << " in " << text;
    Json value;
    try {
      value = Json::parse(call.arguments);
    } catch (const Error& error) {
      ADD_FAILURE() << format.name << ": " << error.what() << ": " << call.arguments << "\n"
                    << text;
      continue;
    }
    EXPECT_TRUE(is_valid(tool->parameters, value)) << format.name << ": " << call.arguments;
  }
}

TEST(AnswerGrammar, every_call_that_fits_is_valid) {
  std::mt19937_64 random(5);
  for (const char* signs : k_signs) {
    const ChatFormat format = detect_chat_format(signs);
    const auto tokens = tokens_for(format);
    size_t ended = 0, calls = 0;
    for (const ToolChoice choice : {ToolChoice::required, ToolChoice::automatic}) {
      for (const bool in_reasoning : {false, true}) {
        if (in_reasoning && format.think_close.empty()) continue;
        AnswerRules rules;
        rules.tools = sample_tools();
        rules.choice = choice;
        rules.parallel = in_reasoning;
        rules.in_reasoning = in_reasoning;
        GrammarMatcher matcher(Grammar::parse(answer_grammar(format, rules).gbnf), tokens);
        AnswerOptions options;
        options.tools = shared_tools();
        options.in_reasoning = in_reasoning;
        for (int i = 0; i < 12; ++i) {
          matcher.reset();
          const std::string text = random_answer(matcher, *tokens, random);
          if (!matcher.is_finished()) continue;
          ++ended;
          check_calls(format, options, text, choice == ToolChoice::required, rules.parallel);
          calls += parse_in_pieces(format, options, text, {}).calls.size();
        }
      }
    }
    EXPECT_GT(ended, 10u) << format.name;
    EXPECT_GT(calls, 10u) << format.name;
  }
}

TEST(AnswerGrammar, content_of_a_form_beside_calls_and_thought) {
  AnswerRules rules;
  rules.content = "root ::= \"yes\" | \"no\"";
  const ChatFormat thinks = detect_chat_format("<tool_call> </think>");
  const auto fits = [&](const ChatFormat& format, const std::string& text) {
    return matches(byte_matcher(answer_grammar(format, rules).gbnf), text);
  };
  EXPECT_TRUE(fits(thinks, "yes"));
  EXPECT_FALSE(fits(thinks, "maybe"));
  EXPECT_TRUE(fits(thinks, "<think>\nmaybe\n</think>\n\nno"));
  EXPECT_FALSE(fits(thinks, "<think>\nmaybe"));
  rules.may_think = false;
  EXPECT_TRUE(fits(thinks, "yes"));
  EXPECT_FALSE(fits(thinks, "<think>\nmaybe\n</think>\n\nno"));
  rules.may_think = true;
  rules.in_reasoning = true;
  EXPECT_TRUE(fits(thinks, "maybe\n</think>\n\nno"));
  EXPECT_FALSE(fits(thinks, "yes"));
  rules.in_reasoning = false;
  rules.tools = sample_tools();
  rules.choice = ToolChoice::automatic;
  const std::string call = "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";
  EXPECT_TRUE(fits(thinks, call));
  EXPECT_TRUE(fits(thinks, "yes"));
  EXPECT_FALSE(fits(thinks, "maybe"));
  rules.choice = ToolChoice::required;
  EXPECT_TRUE(fits(thinks, call));
  EXPECT_FALSE(fits(thinks, "yes"));
}

TEST(AnswerGrammar, free_text_is_free) {
  AnswerRules rules;
  rules.tools = sample_tools();
  rules.choice = ToolChoice::automatic;
  for (const char* signs : k_signs) {
    const ChatFormat format = detect_chat_format(signs);
    if (format.calls.body == CallSyntax::Body::channels) continue;
    for (const char* text : {"", "Hello", "a < b <tool <｜ {}\n", "<<<<", "{\"x\": 1}", "[1]"}) {
      EXPECT_TRUE(matches(byte_matcher(answer_grammar(format, rules).gbnf), text))
          << format.name << ": " << text;
    }
  }
  rules.parallel = false;
  const ChatFormat hermes = detect_chat_format("");
  const std::string call = "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";
  EXPECT_TRUE(matches(byte_matcher(answer_grammar(hermes, rules).gbnf), "So:\n" + call));
  EXPECT_FALSE(matches(byte_matcher(answer_grammar(hermes, rules).gbnf), call + "\n" + call));
  EXPECT_FALSE(matches(byte_matcher(answer_grammar(hermes, rules).gbnf),
                       "<tool_call>\n{\"name\": \"other\", \"arguments\": {}}\n</tool_call>"));
}

TEST(AnswerGrammar, a_bad_schema_is_named) {
  const auto error = [](const char* signs, const char* parameters) -> std::string {
    AnswerRules rules;
    rules.choice = ToolChoice::automatic;
    rules.tools = sample_tools();
    rules.tools.push_back({"bad_one", "", Json::parse(parameters)});
    try {
      answer_grammar(detect_chat_format(signs), rules);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::bad_request);
      return e.what();
    }
    return "";
  };
  for (const char* signs : {"", "<tool_call> <function= <parameter="}) {
    const std::string unknown =
        error(signs, R"({"type":"object","properties":{"when":{"type":"moment"}}})");
    EXPECT_NE(unknown.find("bad_one"), std::string::npos) << unknown;
    EXPECT_NE(unknown.find("when"), std::string::npos) << unknown;
    EXPECT_NE(error(signs, R"({"type":"object","properties":{"a":{"$ref":"http://x/y"}}})")
                  .find("bad_one"),
              std::string::npos);
    EXPECT_NE(error(signs, R"({"type":"string"})").find("bad_one"), std::string::npos);
    EXPECT_NE(error(signs, R"({"type":"object","properties":[]})").find("bad_one"),
              std::string::npos);
    EXPECT_NE(error(signs, "[]").find("bad_one"), std::string::npos);
  }
}

TEST(AnswerGrammar, nothing_to_keep_to) {
  EXPECT_EQ(answer_grammar(detect_chat_format(""), {}).gbnf, "");
}

}  // namespace
}  // namespace strata::text
