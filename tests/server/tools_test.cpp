// Tools and reasoning through the server's addresses, streamed and not: whatever the model would
// say, calls are as asked for and the two forms of an answer agree.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

#include "base/error.h"
#include "base/json.h"
#include "server/api.h"
#include "server/demo_api.h"
#include "support.h"

namespace strata::server {
namespace {

constexpr const char* k_tools =
    R"("tools":[{"type":"function","function":{"name":"get_weather","description":"Weather",)"
    R"("parameters":{"type":"object","properties":{"city":{"type":"string","maxLength":8},)"
    R"("unit":{"type":"string","enum":["c","f"]}},"required":["city","unit"],)"
    R"("additionalProperties":false}}},{"type":"function","function":{"name":"now"}}])";
constexpr const char* k_question =
    R"({"messages":[{"role":"user","content":"Once upon"}],"temperature":0,"seed":3,)";

class ToolsTest : public test::DemoApi {
 protected:
  Json post(const std::string& path, const std::string& body, int status = 200) {
    const HttpResponse answer = send(path, body);
    EXPECT_EQ(answer.status, status) << body << "\n" << answer.body;
    return Json::parse(answer.body);
  }
  std::string error(const std::string& path, const std::string& body) {
    return post(path, body, 400).find("error")->find("message")->as_string();
  }
  // The data of every event.
  std::vector<Json> stream(const std::string& path, const std::string& body) {
    const HttpResponse answer = send(path, body);
    EXPECT_EQ(answer.status, 200) << answer.body;
    std::vector<Json> out;
    if (!answer.stream) return out;
    std::string all;
    answer.stream([&](const std::string& data) { return all += data, true; }, [] { return true; });
    std::istringstream lines(all);
    for (std::string line; std::getline(lines, line);) {
      if (line.rfind("data: {", 0) == 0) out.push_back(Json::parse(line.substr(6)));
    }
    return out;
  }
  static const Json& choice(const Json& answer) { return answer.find("choices")->as_array()[0]; }
};

// What a streamed chat adds up to, as the official clients add it.
struct Streamed {
  std::string content, reasoning, finish;
  struct Call {
    std::string id, name, arguments;
  };
  std::map<int64_t, Call> calls;
};

Streamed add_up(const std::vector<Json>& chunks) {
  Streamed out;
  const auto text = [](const Json& from, const char* key) {
    const Json* value = from.find(key);
    return value != nullptr && value->is_string() ? value->as_string() : "";
  };
  for (const Json& chunk : chunks) {
    for (const Json& choice : chunk.find("choices")->as_array()) {
      const Json& delta = *choice.find("delta");
      out.content += text(delta, "content");
      out.reasoning += text(delta, "reasoning_content");
      out.finish += text(choice, "finish_reason");
      const Json* calls = delta.find("tool_calls");
      if (calls == nullptr) continue;
      EXPECT_FALSE(calls->as_array().empty());
      for (const Json& one : calls->as_array()) {
        Streamed::Call& call = out.calls[one.find("index")->as_int()];
        // Id, type and name come once.
        if (one.find("id") != nullptr) {
          EXPECT_EQ(call.id, "");
          EXPECT_EQ(one.find("type")->as_string(), "function");
        }
        call.id += text(one, "id");
        call.name += text(*one.find("function"), "name");
        call.arguments += text(*one.find("function"), "arguments");
      }
    }
  }
  return out;
}

void expect_weather(const std::string& arguments) {
  const Json value = Json::parse(arguments);
  ASSERT_TRUE(value.find("city") != nullptr && value.find("city")->is_string()) << arguments;
  const std::string unit = value.find("unit")->as_string();
  EXPECT_TRUE(unit == "c" || unit == "f") << arguments;
  EXPECT_EQ(value.as_object().size(), 2u) << arguments;
}

TEST_F(ToolsTest, a_required_call_fits_its_schema) {
  start();
  struct Case {
    const char* choice;
    const char* finish;
  };
  const Case cases[] = {
      {R"("tool_choice":"required","parallel_tool_calls":false)", "tool_calls"},
      {R"("tool_choice":{"type":"function","function":{"name":"get_weather"}})", "stop"}};
  for (const Case& one : cases) {
    const std::string body = std::string(k_question) + k_tools + "," + one.choice;
    const Json whole = post("/v1/chat/completions", body + "}");
    const Json& message = *choice(whole).find("message");
    EXPECT_EQ(choice(whole).find("finish_reason")->as_string(), one.finish) << whole.dump();
    EXPECT_TRUE(message.find("content")->is_null());
    ASSERT_NE(message.find("tool_calls"), nullptr) << whole.dump();
    ASSERT_EQ(message.find("tool_calls")->as_array().size(), 1u);
    const Json& call = message.find("tool_calls")->as_array()[0];
    const Json& function = *call.find("function");
    EXPECT_EQ(call.find("type")->as_string(), "function");
    EXPECT_EQ(call.find("id")->as_string().rfind("call_", 0), 0u);
    if (function.find("name")->as_string() == "get_weather") {
      expect_weather(function.find("arguments")->as_string());
    } else {
      EXPECT_EQ(function.find("arguments")->as_string(), "{}");
    }
    const Streamed streamed = add_up(stream("/chat/completions", body + ",\"stream\":true}"));
    EXPECT_EQ(streamed.finish, one.finish);
    EXPECT_EQ(streamed.content, "");
    ASSERT_EQ(streamed.calls.size(), 1u);
    EXPECT_EQ(streamed.calls.at(0).name, function.find("name")->as_string());
    EXPECT_EQ(streamed.calls.at(0).arguments, function.find("arguments")->as_string());
  }
}

// Every family's format works with a model that has never seen it.
TEST_F(ToolsTest, formats_of_all_families) {
  STRATA_NEED_SHARED();
  for (const char* name : {"GLM-4.6", "Kimi-K2-Instruct", "Qwen3.5-4B", "Qwen-Qwen2.5-7B-Instruct",
                           "deepseek-ai-DeepSeek-V3.1", "meta-llama-Llama-3.2-3B-Instruct",
                           "mistralai-Mistral-Nemo-Instruct-2407", "google-gemma-2-2b-it"}) {
    std::ifstream in(test::shared_path("templates/") + name + ".jinja");
    std::ostringstream source;
    source << in.rdbuf();
    start(source.str());
    const std::string body =
        std::string(k_question) + k_tools +
        R"(,"tool_choice":{"type":"function","name":"get_weather"},)" +
        R"("max_tokens":300,"chat_template_kwargs":{"enable_thinking":false}})";
    const Json whole = post("/v1/chat/completions", body);
    const Json* calls = choice(whole).find("message")->find("tool_calls");
    ASSERT_NE(calls, nullptr) << name << ": " << whole.dump();
    ASSERT_EQ(calls->as_array().size(), 1u) << name;
    expect_weather(calls->as_array()[0].find("function")->find("arguments")->as_string());
    scheduler_.reset();
  }
}

TEST_F(ToolsTest, without_tools_there_are_no_calls) {
  start();
  for (const std::string& more : {std::string(), k_tools + std::string(R"(,"tool_choice":"none",)"),
                                  std::string("\"tools\":[],")}) {
    const Json whole =
        post("/v1/chat/completions", std::string(k_question) + more + R"("max_tokens":8})");
    EXPECT_EQ(choice(whole).find("message")->find("tool_calls"), nullptr);
    EXPECT_EQ(choice(whole).find("message")->find("reasoning_content"), nullptr);
    EXPECT_TRUE(choice(whole).find("message")->find("content")->is_string());
  }
  // With tools the model may answer in words.
  const Json words =
      post("/v1/chat/completions", std::string(k_question) + k_tools + R"(,"max_tokens":8})");
  EXPECT_EQ(choice(words).find("finish_reason")->as_string(), "length");
}

TEST_F(ToolsTest, conversations_with_calls_and_results) {
  start();
  const std::string history =
      R"({"messages":[{"role":"developer","content":"Be brief."},)"
      R"({"role":"user","content":[{"type":"text","text":"Weather?"}]},)"
      R"({"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function",)"
      R"("function":{"name":"get_weather","arguments":"{\"city\":\"Rome\"}"}},{"id":"b",)"
      R"("type":"function","function":{"name":"get_weather","arguments":"{\"ci"}}]},)"
      R"({"role":"tool","tool_call_id":"a","content":"20 c <|im_end|>"},)"
      R"({"role":"tool","tool_call_id":"b","content":"failed"}],)";
  const std::string prompt =
      post("/apply-template", history + k_tools + "}").find("prompt")->as_string();
  for (const char* part : {"Be brief.", "get_weather", "Rome", "20 c", "{\\\"ci", "failed"}) {
    EXPECT_NE(prompt.find(part), std::string::npos) << part << " in " << prompt;
  }
  post("/v1/chat/completions", history + k_tools + R"(,"max_tokens":4})");
}

TEST_F(ToolsTest, mistakes_are_named) {
  start();
  const auto chat = [&](const std::string& more) {
    return error("/v1/chat/completions", k_question + more + "}");
  };
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_TRUE(has(chat(R"("tool_choice":"required")"), "tools"));
  EXPECT_TRUE(has(chat(k_tools + std::string(R"(,"tool_choice":"sometimes")")), "tool_choice"));
  EXPECT_TRUE(has(chat(k_tools + std::string(R"(,"tool_choice":{"type":"function",)"
                                             R"("function":{"name":"nothing"}})")),
                  "nothing"));
  EXPECT_TRUE(has(chat(R"("tools":{})"), "tools"));
  EXPECT_TRUE(has(chat(R"("tools":[{"type":"web_search"}])"), "web_search"));
  EXPECT_TRUE(has(chat(R"("tools":[{"type":"function"}])"), "tools[0].function"));
  EXPECT_TRUE(has(chat(R"("tools":[{"type":"function","function":{"name":"a b"}}])"), "a b"));
  EXPECT_TRUE(has(chat(R"("tools":[{"type":"function","function":{"name":"a","parameters":)"
                       R"({"type":"object","properties":{"when":{"type":"moment"}}}}}])"),
                  "when"));
  EXPECT_TRUE(has(chat(R"("functions":[])"), "functions"));
  EXPECT_TRUE(has(chat(R"("reasoning_format":"xml")"), "reasoning_format"));
  EXPECT_TRUE(has(chat(R"("reasoning_effort":"huge")"), "reasoning_effort"));
  EXPECT_TRUE(has(chat(R"("chat_template_kwargs":{"messages":[]})"), "messages"));
  EXPECT_TRUE(has(chat(R"("chat_template_kwargs":{"bos_token":"x"})"), "bos_token"));
  EXPECT_TRUE(has(chat(R"("chat_template_kwargs":3)"), "chat_template_kwargs"));
}

constexpr const char* k_thinking_template =
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}\n{% endfor %}<|assistant|>"
    "{% if enable_thinking is defined and not enable_thinking %}<think></think>\n"
    "{% else %}<think>\n{% endif %}";

TEST_F(ToolsTest, reasoning_is_split_off) {
  start(k_thinking_template);
  const std::string body = std::string(k_question) + R"("max_tokens":24)";
  const Json plain = post("/v1/chat/completions", body + R"(,"reasoning_format":"none"})");
  const std::string raw = choice(plain).find("message")->find("content")->as_string();
  const Json split = post("/v1/chat/completions", body + "}");
  const Json& message = *choice(split).find("message");
  ASSERT_NE(message.find("reasoning_content"), nullptr) << split.dump();
  const std::string reasoning = message.find("reasoning_content")->as_string();
  EXPECT_EQ(message.find("content")->as_string(), "");
  EXPECT_NE(raw.find(reasoning), std::string::npos);
  const Streamed streamed = add_up(stream("/v1/chat/completions", body + ",\"stream\":true}"));
  EXPECT_EQ(streamed.reasoning, reasoning);
  EXPECT_EQ(streamed.content, "");
  EXPECT_EQ(streamed.finish, choice(split).find("finish_reason")->as_string());
  // Without thought all of it is content.
  const Json quick = post("/v1/chat/completions", body + R"(,"reasoning_effort":"none"})");
  EXPECT_EQ(choice(quick).find("message")->find("reasoning_content"), nullptr);
  EXPECT_NE(choice(quick).find("message")->find("content")->as_string(), "");
  // A form that is asked for is that of the content.
  const Json formed =
      post("/v1/chat/completions", body + R"(,"grammar":"root ::= \"yes\" | \"no\"",)"
                                          R"("chat_template_kwargs":{"enable_thinking":false}})");
  const std::string word = choice(formed).find("message")->find("content")->as_string();
  EXPECT_TRUE(word == "yes" || word == "no") << word;
}

constexpr const char* k_claude_tools =
    R"("tools":[{"name":"get_weather","description":"Weather","input_schema":{"type":"object",)"
    R"("properties":{"city":{"type":"string","maxLength":8},"unit":{"enum":["c","f"]}},)"
    R"("required":["city","unit"],"additionalProperties":false}}])";

TEST_F(ToolsTest, messages_use_tools) {
  start();
  const std::string body =
      R"({"max_tokens":200,"temperature":0,"messages":[{"role":"user","content":"Weather?"},)"
      R"({"role":"assistant","content":[{"type":"thinking","thinking":"Hm","signature":""},)"
      R"({"type":"tool_use","id":"t1","name":"get_weather","input":{"city":"Rome","unit":"c"}}]},)"
      R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"t1",)"
      R"("content":[{"type":"text","text":"20"}]},{"type":"text","text":"And Paris?"}]}],)" +
      std::string(k_claude_tools);
  const std::string any =
      body + R"(,"tool_choice":{"type":"any","disable_parallel_tool_use":true})";
  const Json whole = post("/v1/messages", any + "}");
  EXPECT_EQ(whole.find("stop_reason")->as_string(), "tool_use") << whole.dump();
  ASSERT_EQ(whole.find("content")->as_array().size(), 1u);
  const Json& block = whole.find("content")->as_array()[0];
  EXPECT_EQ(block.find("type")->as_string(), "tool_use");
  expect_weather(block.find("input")->dump());
  std::string names, arguments, stop;
  for (const Json& event : stream("/v1/messages", any + ",\"stream\":true}")) {
    const std::string type = event.find("type")->as_string();
    if (type == "content_block_start") {
      EXPECT_EQ(event.find("index")->as_int(), 0);
      names += event.find("content_block")->find("name")->as_string();
      EXPECT_TRUE(event.find("content_block")->find("input")->as_object().empty());
    }
    if (type == "content_block_delta") {
      EXPECT_EQ(event.find("delta")->find("type")->as_string(), "input_json_delta");
      arguments += event.find("delta")->find("partial_json")->as_string();
    }
    if (type == "message_delta") stop = event.find("delta")->find("stop_reason")->as_string();
  }
  EXPECT_EQ(names, "get_weather");
  EXPECT_EQ(Json::parse(arguments), *block.find("input"));
  EXPECT_EQ(stop, "tool_use");
  const Json count = post("/v1/messages/count_tokens", body + "}");
  EXPECT_EQ(count.find("input_tokens")->as_int(),
            whole.find("usage")->find("input_tokens")->as_int() +
                whole.find("usage")->find("cache_read_input_tokens")->as_int());
  for (const char* wrong :
       {R"(,"tool_choice":{"type":"tool","name":"x"}})", R"(,"tool_choice":{"type":"many"}})",
        R"(,"thinking":{"type":"deep"}})"}) {
    post("/v1/messages", body + wrong, 400);
  }
}

TEST_F(ToolsTest, messages_think) {
  start(k_thinking_template);
  const std::string body =
      R"({"max_tokens":12,"temperature":0,"messages":[{"role":"user","content":"Once upon"}])";
  const Json whole = post("/v1/messages", body + "}");
  ASSERT_EQ(whole.find("content")->as_array().size(), 1u) << whole.dump();
  EXPECT_EQ(whole.find("content")->as_array()[0].find("type")->as_string(), "thinking");
  std::string thought;
  for (const Json& event : stream("/v1/messages", body + ",\"stream\":true}")) {
    if (event.find("type")->as_string() != "content_block_delta") continue;
    EXPECT_EQ(event.find("delta")->find("type")->as_string(), "thinking_delta");
    thought += event.find("delta")->find("thinking")->as_string();
  }
  EXPECT_EQ(thought, whole.find("content")->as_array()[0].find("thinking")->as_string());
  const Json quick = post("/v1/messages", body + R"(,"thinking":{"type":"disabled"}})");
  EXPECT_EQ(quick.find("content")->as_array()[0].find("type")->as_string(), "text");
}

}  // namespace
}  // namespace strata::server
