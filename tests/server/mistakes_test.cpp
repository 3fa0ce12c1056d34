// What a client is told of its mistakes: the field that is to blame, by OpenAI's and llama-server's
// names, in words that help.
#include <gtest/gtest.h>
#include <httplib.h>

#include <thread>

#include "base/json.h"
#include "server/api.h"
#include "server/demo_api.h"
#include "server/running_server.h"
#include "support.h"

namespace strata::server {
namespace {

constexpr const char* k_user = R"({"role":"user","content":"a"})";

// Roles must alternate and begin with the user's, as in Mistral's and Gemma's templates.
constexpr const char* k_strict_template =
    "{% if messages[0].role == 'system' %}{% set rest = messages[1:] %}{% else %}"
    "{% set rest = messages %}{% endif %}"
    "{% for m in rest %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) "
    "or m.role not in ['user', 'assistant'] %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}"
    "{% endif %}{% if m.role == 'user' %}<u>{{ m.content }}{% elif m.role == 'assistant' %}"
    "<a>{{ m.content.strip() + mood[1:] if mood is defined else m.content }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<a>{% endif %}";

// Any role at all is written down.
constexpr const char* k_open_template =
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}<|assistant|>";

class MistakesTest : public test::DemoApi {
 protected:
  MistakesTest() {
    n_context_ = 2048;
    n_parallel_ = 2;
  }
  // The error object.
  Json error(const std::string& path, const std::string& body) {
    const HttpResponse answer = send(path, body);
    EXPECT_EQ(answer.status, 400) << body << "\n" << answer.body;
    if (answer.status != 400) return Json::object({{"message", ""}, {"param", ""}});
    return *Json::parse(answer.body).find("error");
  }
  std::string param(const std::string& path, const std::string& body) {
    const Json found = error(path, body);
    const Json* name = found.find("param");
    return name->is_string() ? name->as_string() : "null: " + found.dump();
  }
  std::string message(const std::string& path, const std::string& body) {
    return error(path, body).find("message")->as_string();
  }
  std::string chat(const std::string& more, const std::string& messages = k_user) {
    return "{\"max_tokens\":1,\"messages\":[" + messages + "]" + more + "}";
  }
  void expect_success(const std::string& path, const std::string& body) {
    const HttpResponse answer = send(path, body);
    EXPECT_EQ(answer.status, 200) << body << "\n" << answer.body;
  }
  static bool has(const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  }
};

TEST_F(MistakesTest, the_field_is_named) {
  start();
  const std::string function = R"(,"tools":[{"type":"function","function":{"name":"f"}},)"
                               R"({"type":"function","function":)";
  const std::pair<std::string, const char*> chats[] = {
      {R"(,"grammar":"root ::= (")", "grammar"},
      {R"(,"grammar":"root ::= root")", "grammar"},
      {R"(,"json_schema":{"type":7})", "json_schema"},
      {R"(,"response_format":{"type":"xml"})", "response_format.type"},
      {R"(,"response_format":{"type":"json_object","schema":{"type":7}})",
       "response_format.schema"},
      {R"(,"response_format":{"type":"json_schema","json_schema":{"schema":{"type":"moment"}}})",
       "response_format.json_schema.schema"},
      {R"(,"response_format":{"type":"json_schema","json_schema":{}})",
       "response_format.json_schema.schema"},
      {R"(,"tools":3)", "tools"},
      {R"(,"tools":[3])", "tools[0]"},
      {R"(,"tools":[{"type":"web_search"}])", "tools[0].type"},
      {R"(,"tools":[{"type":"function"}])", "tools[0].function"},
      {function + R"({"name":"a b"}}])", "tools[1].function.name"},
      {function + R"({"name":"f"}}])", "tools[1].function.name"},
      {function + R"({"name":"g","description":1}}])", "tools[1].function.description"},
      {function + R"({"name":"g","parameters":[]}}])", "tools[1].function.parameters"},
      {function + R"({"name":"g","parameters":{"type":"string"}}}])",
       "tools[1].function.parameters"},
      {function +
           R"({"name":"g","parameters":{"type":"object","properties":{"a":{"type":"moment"}}}}}])",
       "tools[1].function.parameters"},
      {R"(,"tool_choice":"required")", "tool_choice"},
      {R"(,"logit_bias":{"x":1})", "logit_bias"},
      {R"(,"logit_bias":{"99999999":1})", "logit_bias"},
      {R"(,"logit_bias":{"1":"a"})", "logit_bias"},
      {R"(,"n":0)", "n"},
      {R"(,"n":129)", "n"},
      {R"(,"chat_template_kwargs":{"messages":[]})", "chat_template_kwargs"},
      {R"(,"chat_template_kwargs":3)", "chat_template_kwargs"},
      {R"(,"top_logprobs":2)", "top_logprobs"},
      {R"(,"logprobs":false,"top_logprobs":2)", "top_logprobs"},
      {R"(,"logprobs":true,"top_logprobs":-1)", "top_logprobs"},
      {R"(,"top_logprobs":-1)", "top_logprobs"},
      {R"(,"logprobs":true,"top_logprobs":21)", "top_logprobs"},
  };
  for (const auto& [more, field] : chats) {
    EXPECT_EQ(param("/v1/chat/completions", chat(more)), field) << more;
  }
  const std::pair<const char*, const char*> messages[] = {
      {"3", "messages[0]"},
      {R"({"content":"a"})", "messages[0].role"},
      {R"({"role":"user","content":"a"},{"role":5})", "messages[1].role"},
      {R"({"role":"user","content":7})", "messages[0].content"},
      {R"({"role":"user","content":[{"type":"text"},{"type":"image_url"}]})",
       "messages[0].content[1].type"},
      {R"({"role":"assistant","tool_calls":[{"function":{}}]})",
       "messages[0].tool_calls[0].function.name"},
      {R"({"role":"function","content":"a"})", "messages[0].role"},
  };
  for (const auto& [list, field] : messages) {
    EXPECT_EQ(param("/v1/chat/completions", chat("", list)), field) << list;
  }
  const std::pair<const char*, const char*> prompts[] = {
      {R"({"prompt":[]})", "prompt"},
      {R"({"prompt":[[1],[]]})", "prompt[1]"},
      {R"({"prompt":[1,-1]})", "prompt[1]"},
      {R"({"prompt":[[1],["a",null]]})", "prompt[1][1]"},
      {R"({"prompt":[1,[1]]})", "prompt"},
      {R"({"prompt":"a","grammar":"root ::= x"})", "grammar"},
      {R"({"prompt":"a","json_schema":{"enum":[]}})", "json_schema"},
      {R"({"prompt":"a","logit_bias":[[99999999,1]]})", "logit_bias"},
  };
  for (const auto& [body, field] : prompts) {
    EXPECT_EQ(param("/v1/completions", body), field) << body;
    EXPECT_EQ(param("/completion", body), field) << body;
  }
  // More than can be followed at once is found when the first state is made; and only while an
  // answer is written that no token goes on.
  const std::string ambiguous = R"("root ::= a{1,9} \na ::= [a-z]* [a-z]* [a-z]*")";
  const HttpResponse answer =
      send("/completion", R"({"prompt":"a","n_predict":50,"grammar":)" + ambiguous + "}");
  if (answer.status != 200) {
    EXPECT_EQ(Json::parse(answer.body).find("error")->find("param")->as_string(), "grammar");
  }
  EXPECT_TRUE(scheduler_->drain(20));
}

TEST_F(MistakesTest, responses_and_messages_have_names_of_their_own) {
  start(k_strict_template);
  const std::pair<const char*, const char*> bodies[] = {
      {R"({"input":[{"role":"user","content":"a"},{"role":"wizard","content":"b"}]})",
       "input[1].role"},
      {R"({"input":[{"role":"user","content":[{"type":"input_image"}]}]})",
       "input[0].content[0].type"},
      {R"({"input":"a","text":{"format":{"type":"json_schema","schema":{"type":7}}}})",
       "text.format.schema"},
      {R"({"input":"a","tools":[{"type":"web_search"},{"type":"function","name":"a b"}]})",
       "tools[1].name"},
      {R"({"input":"a","tools":[{"type":"web_search"},{"type":"function","name":"f",)"
       R"("parameters":{"type":"object","properties":{"x":{"type":"moment"}}}}]})",
       "tools[1].parameters"},
      {R"({"input":"a","reasoning":{"effort":"huge"}})", "reasoning.effort"},
      {R"({"input":"a","n":3})", "n"},
  };
  for (const auto& [body, field] : bodies) {
    EXPECT_EQ(param("/v1/responses", body), field) << body;
  }
  const std::string head = R"({"max_tokens":1,"system":"s","messages":[)";
  EXPECT_TRUE(has(message("/v1/messages", head + k_user + R"(,{"role":"wizard","content":"b"}]})"),
                  "'messages[1].role' is 'wizard'"));
  EXPECT_TRUE(has(message("/v1/messages", head + k_user +
                                              R"(],"tools":[{"name":"f",)"
                                              R"("input_schema":[]}]})"),
                  "'tools[0].input_schema' must be a schema"));
  // As OpenAI's clients write it: without the schema every call would be empty.
  EXPECT_TRUE(
      has(message("/v1/messages", head + k_user + R"(],"tools":[{"name":"f","parameters":{}}]})"),
          "'tools[0].input_schema' is missing"));
  EXPECT_TRUE(
      has(message("/v1/messages", head + R"({"role":"user","content":[{"type":"video"}]}]})"),
          "'messages[0].content[0].type'"));
}

TEST_F(MistakesTest, a_prompt_too_long_is_told_in_numbers) {
  start();
  std::string words;
  for (int i = 0; i < 3000; ++i) words += "dog ";
  const auto expect = [&](const std::string& path, const std::string& body, const char* field) {
    const Json found = error(path, body);
    EXPECT_EQ(found.find("type")->as_string(), "exceed_context_size_error");
    EXPECT_EQ(found.find("param")->as_string(), field);
    EXPECT_EQ(found.find("n_ctx")->as_int(), 2048);
    const int64_t n = found.find("n_prompt_tokens")->as_int();
    const std::string number = std::to_string(n);
    EXPECT_GE(n, 3000);
    EXPECT_TRUE(has(found.find("message")->as_string(), number.c_str()));
  };
  const std::string text = "\"" + words + "\"";
  expect("/completion", "{\"prompt\":" + text + "}", "prompt");
  expect("/v1/completions", "{\"prompt\":[\"a\"," + text + "]}", "prompt[1]");
  expect("/v1/chat/completions", R"({"messages":[{"role":"user","content":)" + text + "}]}",
         "messages");
  expect("/v1/responses", "{\"input\":" + text + "}", "input");
  expect("/v1/embeddings", "{\"input\":" + text + "}", "input");
  expect("/v1/embeddings", "{\"input\":[\"a\"," + text + "]}", "input[1]");
  // The numbers are the model's own count.
  const Json tokens =
      Json::parse(send("/tokenize", "{\"add_special\":true,\"content\":" + text + "}").body);
  EXPECT_EQ(error("/completion", "{\"prompt\":" + text + "}").find("n_prompt_tokens")->as_int(),
            static_cast<int64_t>(tokens.find("tokens")->as_array().size()));
}

// The first prompt has begun when the second is refused; it is cancelled, and over a moment later.
TEST_F(MistakesTest, what_still_runs_does_not_need_the_api) {
  for (int i = 0; i < 10; ++i) {
    start();
    std::string words;
    for (int k = 0; k < 3000; ++k) words += "dog ";
    error("/v1/completions", R"({"ignore_eos":true,"prompt":["a",")" + words + "\"]}");
    api_.reset();
    EXPECT_TRUE(scheduler_->drain(20));
  }
}

TEST_F(MistakesTest, wrong_numbers_are_repeated) {
  start();
  EXPECT_EQ(message("/completion", R"({"prompt":"a","top_k":1.5})"),
            "'top_k' must be a whole number, not 1.5");
  EXPECT_EQ(message("/completion", R"({"prompt":"a","top_k":"1"})"),
            "'top_k' must be a whole number, not string");
}

TEST_F(MistakesTest, prompts_of_all_kinds_in_one_list) {
  start();
  const Json id = Json::parse(send("/tokenize", R"({"content":"Once upon"})").body);
  const std::string ids = id.find("tokens")->dump();
  const auto texts = [&](const std::string& prompt) {
    const HttpResponse answer =
        send("/v1/completions", R"({"max_tokens":6,"temperature":0,"prompt":)" + prompt + "}");
    EXPECT_EQ(answer.status, 200) << answer.body;
    std::vector<std::string> out;
    const Json body = Json::parse(answer.body);
    if (body.find("choices") == nullptr) return out;
    for (const Json& one : body.find("choices")->as_array()) {
      out.push_back(one.find("text")->as_string());
    }
    return out;
  };
  const std::string by_ids = texts(ids).at(0);
  const std::string by_text = texts("\"The dog\"").at(0);
  EXPECT_EQ(texts("[" + ids + ",\"The dog\"]"), (std::vector{by_ids, by_text}));
  EXPECT_EQ(texts("[\"The dog\"," + ids + "]"), (std::vector{by_text, by_ids}));
  EXPECT_TRUE(has(message("/v1/completions", R"({"prompt":[]})"), "empty list"));
}

TEST_F(MistakesTest, one_form_only) {
  start();
  const std::string grammar = R"(,"grammar":"root ::= \"a\"")";
  const std::string format = R"(,"response_format":{"type":"json_object"})";
  const std::string schema = R"(,"json_schema":{"type":"object"})";
  for (const auto& [more, one, other] :
       {std::tuple{grammar + format, "'grammar'", "'response_format'"},
        std::tuple{grammar + schema, "'grammar'", "'json_schema'"},
        std::tuple{schema + format, "'json_schema'", "'response_format'"}}) {
    for (const auto& [path, body] :
         {std::pair{"/v1/chat/completions", chat(more)},
          std::pair{"/v1/completions", R"({"prompt":"a")" + more + "}"}}) {
      const std::string says = message(path, body);
      EXPECT_TRUE(has(says, one) && has(says, other)) << says;
    }
  }
  // Plain text is no form.
  expect_success("/v1/chat/completions", chat(grammar + R"(,"response_format":{"type":"text"})"));
}

TEST_F(MistakesTest, roles_are_known_or_the_templates_own) {
  for (const char* chat_template : {k_strict_template, k_open_template}) {
    start(chat_template);
    const bool open = chat_template == k_open_template;
    const std::string body = chat("", std::string(k_user) + R"(,{"role":"wizard","content":"b"})");
    if (open) {
      expect_success("/v1/chat/completions", body);
      EXPECT_TRUE(has(send("/apply-template", body).body, "<|wizard|>b"));
    } else {
      for (const char* path : {"/v1/chat/completions", "/apply-template"}) {
        EXPECT_EQ(param(path, body), "messages[1].role");
        EXPECT_TRUE(has(message(path, body), "'wizard'"));
      }
    }
    for (const char* role : {"system", "developer", "user"}) {
      expect_success("/v1/chat/completions",
                     chat("", (std::string(role) == "user"
                                   ? ""
                                   : R"({"role":")" + std::string(role) + R"(","content":"s"},)") +
                                  std::string(k_user)));
    }
    expect_success(
        "/v1/chat/completions",
        chat("", std::string(k_user) + R"(,{"role":"assistant","tool_calls":[{"id":"c","function":)"
                                       R"({"name":"f","arguments":"{}"}}]},)"
                                       R"({"role":"tool","tool_call_id":"c","content":"5"})"));
  }
}

TEST_F(MistakesTest, a_conversation_that_the_template_refuses) {
  start(k_strict_template);
  const char* const path = "/v1/chat/completions";
  const std::string assistant = R"({"role":"assistant","content":"b"})";
  const std::string system = R"({"role":"system","content":"s"})";
  const std::string user = k_user;
  Json found = error(path, chat("", user + "," + assistant + "," + user + "," + user));
  std::string says = found.find("message")->as_string();
  EXPECT_EQ(found.find("param")->as_string(), "messages[3]");
  for (const char* part : {"chat template", "'messages[3]'", "'user'", "same role",
                           "Conversation roles must alternate user/assistant"}) {
    EXPECT_TRUE(has(says, part)) << part << " in " << says;
  }
  says = message(path, chat("", assistant));
  EXPECT_TRUE(has(says, "'messages[0]'") && has(says, "begins with an answer")) << says;
  says = message(path, chat("", user + "," + system));
  EXPECT_TRUE(has(says, "'messages[1]'") && has(says, "behind other messages")) << says;
  // As the client wrote it, not as the template is given it.
  EXPECT_EQ(param("/v1/responses", R"({"instructions":"s","input":[)" + user + "," + user + "]}"),
            "input[1]");
  says = message("/v1/messages",
                 R"({"max_tokens":1,"system":"s","messages":[)" + user + "," + user + "]}");
  EXPECT_TRUE(has(says, "'messages[1]'")) << says;
  // Where the template itself fails, its variables may be the reason.
  found = error(path, chat(R"(,"chat_template_kwargs":{"mood":5})", user + "," + assistant));
  says = found.find("message")->as_string();
  EXPECT_EQ(found.find("param")->as_string(), "chat_template_kwargs") << says;
  EXPECT_TRUE(has(says, "mood") && has(says, "line")) << says;
}

TEST(Preflight, names_that_clients_send_are_allowed) {
  ApiOptions options;
  options.origins = {"https://App.example"};
  options.api_keys = {"k"};
  const test::RunningServer server(options);
  auto http = server.client();
  const std::string asked =
      "authorization,content-type,x-stainless-lang,x-stainless-package-version,anthropic-version,"
      "anthropic-dangerous-direct-browser-access,x-api-key";
  const auto ask = [&](const char* origin, const std::string& names) {
    httplib::Headers headers{{"Origin", origin}, {"Access-Control-Request-Method", "POST"}};
    if (!names.empty()) headers.emplace("Access-Control-Request-Headers", names);
    return http.Options("/v1/chat/completions", headers);
  };
  for (const char* origin : {"https://app.example", "http://localhost:3000"}) {
    const auto answer = ask(origin, asked);
    EXPECT_EQ(answer->status, 204);
    EXPECT_EQ(answer->get_header_value("Access-Control-Allow-Origin"), origin);
    EXPECT_EQ(answer->get_header_value("Access-Control-Allow-Headers"), asked);
  }
  EXPECT_FALSE(ask("https://evil.example", asked)->has_header("Access-Control-Allow-Headers"));
  // What is no list of names is not said back.
  for (const std::string& odd : {std::string("a: b"), std::string("a;b"), std::string("<x>"),
                                 std::string(4000, 'a'), std::string()}) {
    const std::string allowed =
        ask("https://app.example", odd)->get_header_value("Access-Control-Allow-Headers");
    EXPECT_NE(allowed, odd);
    for (const char* name : {"authorization", "content-type", "x-api-key", "anthropic-version"}) {
      EXPECT_NE(allowed.find(name), std::string::npos) << name;
    }
  }
}

}  // namespace
// Each entry of a list is a request of its own: more than there is ever room for are refused
// before the first is taken, and take nobody's place.
TEST_F(MistakesTest, MorePromptsThanThereIsRoomForAreRefusedAtOnce) {
  start();  // 2 run and 64 wait
  const auto prompts = [](size_t n) {
    Json list = Json::array();
    for (size_t i = 0; i < n; ++i) list.push("a");
    return Json::object({{"prompt", list}, {"max_tokens", 1}}).dump();
  };
  for (const char* path : {"/v1/completions", "/completion"}) {
    // A place is told to be free a moment after its answer.
    const auto busy = [&] {
      const SchedulerState state = scheduler_->state();
      return state.running + state.waiting > 0;
    };
    for (int i = 0; i < 500 && busy(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    const uint64_t before = scheduler_->state().finished;
    const Json found = error(path, prompts(67));
    EXPECT_EQ(found.find("param")->as_string(), "prompt") << path;
    EXPECT_NE(found.find("message")->as_string().find("67"), std::string::npos) << found.dump();
    EXPECT_NE(found.find("message")->as_string().find("66"), std::string::npos) << found.dump();
    EXPECT_EQ(scheduler_->state().finished, before);
    EXPECT_EQ(send(path, prompts(66)).status, 200) << path;
  }
}

}  // namespace strata::server
