// The server over a real socket: what clients of OpenAI's and llama-server's addresses rely on.
#include "server/api.h"

#include <gtest/gtest.h>
#include <httplib.h>

#include <thread>

#include "base/error.h"
#include "base/json.h"
#include "running_server.h"

namespace strata::server {
namespace {

class ServerTest : public testing::Test {
 protected:
  void start(ApiOptions options = {}, SchedulerOptions batching = {4, 64, 64, true}) {
    HttpOptions http;
    http.workers = 32;
    http.max_body_bytes = 1 << 20;
    http.read_seconds = 5;
    server_ = std::make_unique<test::RunningServer>(options, batching, http);
  }
  httplib::Client client() const { return server_->client(); }
  Json post(const std::string& path, const std::string& body, int status = 200) const {
    return server_->post(path, body, status);
  }
  static std::string text_of(const Json& answer) {
    return answer.find("choices")->as_array()[0].find("text")->as_string();
  }

  std::unique_ptr<test::RunningServer> server_;
};

TEST_F(ServerTest, a_completion_is_what_the_engine_gives) {
  std::string want;
  start();
  const Json answer =
      post("/v1/completions", R"({"prompt":"Once upon","max_tokens":20,"temperature":0})");
  {
    const auto engine = test::open_demo();
    Session session(*engine);
    GenerateOptions options;
    options.max_tokens = 20;
    options.sampling.temperature = 0;
    want = session.generate(engine->tokenize("Once upon"), options).text;
  }
  EXPECT_EQ(text_of(answer), want);
  EXPECT_EQ(answer.find("object")->as_string(), "text_completion");
  EXPECT_EQ(answer.find("usage")->find("completion_tokens")->as_int(), 20);
  EXPECT_EQ(answer.find("choices")->as_array()[0].find("finish_reason")->as_string(), "length");
  EXPECT_EQ(answer.find("timings")->find("predicted_n")->as_int(), 20);
}

TEST_F(ServerTest, a_stream_has_the_same_text) {
  start();
  const std::string body =
      R"({"messages":[{"role":"user","content":[{"type":"text","text":"What is 2+2?"}]}],)"
      R"("temperature":0,"max_completion_tokens":8,)";
  const Json whole = post("/v1/chat/completions", body + "\"stream\":false}");
  auto http = client();
  const auto answer = http.Post("/chat/completions",
                                body + R"("stream":true,"stream_options":{"include_usage":true}})",
                                "application/json");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->get_header_value("Content-Type"), "text/event-stream");
  std::string text, finish;
  bool usage = false, done = false;
  std::istringstream lines(answer->body);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    ASSERT_EQ(line.rfind("data: ", 0), 0u) << line;
    if (line == "data: [DONE]") {
      done = true;
      continue;
    }
    ASSERT_FALSE(done);
    const Json chunk = Json::parse(line.substr(6));
    if (chunk.find("usage") != nullptr) usage = true;
    for (const Json& choice : chunk.find("choices")->as_array()) {
      if (const Json* content = choice.find("delta")->find("content")) text += content->as_string();
      if (choice.find("finish_reason")->is_string()) {
        finish = choice.find("finish_reason")->as_string();
      }
    }
  }
  EXPECT_TRUE(done);
  EXPECT_TRUE(usage);
  const Json& choice = whole.find("choices")->as_array()[0];
  EXPECT_EQ(text, choice.find("message")->find("content")->as_string());
  EXPECT_EQ(finish, choice.find("finish_reason")->as_string());
}

TEST_F(ServerTest, wrong_fields_are_named) {
  start();
  const auto message = [&](const std::string& body) {
    return post("/v1/completions", body, 400).find("error")->find("message")->as_string();
  };
  EXPECT_NE(message(R"({"prompt":"a","temperature":"hot"})").find("temperature"),
            std::string::npos);
  EXPECT_NE(message(R"({"prompt":"a","max_tokens":1.5})").find("max_tokens"), std::string::npos);
  EXPECT_NE(message(R"({"prompt":{}})").find("prompt"), std::string::npos);
  EXPECT_NE(message(R"({})").find("prompt"), std::string::npos);
  const auto param = [&](const std::string& body) {
    return post("/v1/completions", body, 400).find("error")->find("param")->as_string();
  };
  EXPECT_EQ(param(R"({"prompt":"a","temperature":"hot"})"), "temperature");
  EXPECT_EQ(param(R"({"prompt":"a","stream_options":{"include_usage":1}})"),
            "stream_options.include_usage");
  message("[1]");
  message("{");
  message("");
  message("{\"prompt\":\"\xff\xfe\"");
  message(std::string(3000, '['));
  EXPECT_NE(message(R"({"prompt":"a","n":129})").find("'n' is 129"), std::string::npos);
  EXPECT_NE(message(R"({"prompt":"a","logit_bias":{"x":1}})").find("logit_bias"),
            std::string::npos);
  const Json large =
      post("/v1/completions", "{\"prompt\":\"" + std::string(2 << 20, 'a') + "\"}", 413);
  EXPECT_EQ(large.find("error")->find("type")->as_string(), "invalid_request_error");
  std::string long_prompt;
  for (int i = 0; i < 3000; ++i) long_prompt += "dog ";
  EXPECT_EQ(post("/v1/completions", "{\"prompt\":\"" + long_prompt + "\"}", 400)
                .find("error")
                ->find("type")
                ->as_string(),
            "exceed_context_size_error");
  auto http = client();
  EXPECT_EQ(http.Get("/nothing")->status, 404);
  EXPECT_EQ(http.Get("/v1/completions")->status, 405);
}

TEST_F(ServerTest, keys_hosts_and_origins) {
  ApiOptions options;
  options.api_keys = {"secret", "other"};
  options.metrics = true;
  start(options);
  auto http = client();
  EXPECT_EQ(http.Get("/health")->status, 200);
  EXPECT_EQ(http.Get("/v1/models")->status, 401);
  const auto refused = http.Get("/v1/models", {{"Authorization", "Bearer wrong"}});
  EXPECT_EQ(refused->status, 401);
  EXPECT_EQ(refused->get_header_value("WWW-Authenticate"), "Bearer");
  for (const char* scheme : {"bearer", "BEARER", "bEaReR ", "Bearer  "}) {
    EXPECT_EQ(http.Get("/v1/models", {{"Authorization", std::string(scheme) + " secret"}})->status,
              200)
        << scheme;
  }
  EXPECT_EQ(http.Get("/v1/models", {{"Authorization", "Basic secret"}})->status, 401);
  EXPECT_EQ(http.Get("/v1/models", {{"Authorization", "Bearersecret"}})->status, 401);
  EXPECT_EQ(http.Get("/v1/models", {{"Authorization", "Bearer secret"}})->status, 200);
  EXPECT_EQ(http.Get("/v1/models", {{"x-api-key", "other"}})->status, 200);
  EXPECT_EQ(http.Get("/health", {{"Host", "evil.example"}})->status, 403);
  EXPECT_EQ(http.Get("/health", {{"Origin", "http://localhost:3000"}})
                ->get_header_value("Access-Control-Allow-Origin"),
            "http://localhost:3000");
  const auto foreign = http.Get("/health", {{"Origin", "http://evil.example"}});
  EXPECT_EQ(foreign->status, 403);
  EXPECT_FALSE(foreign->has_header("Access-Control-Allow-Origin"));
  EXPECT_EQ(http.Get("/health", {{"X-Request-Id", "abc-1"}})->get_header_value("X-Request-Id"),
            "abc-1");
  const auto metrics = http.Get("/metrics", {{"x-api-key", "other"}});
  EXPECT_NE(metrics->body.find("strata_time_to_first_token_seconds_bucket{"), std::string::npos);
}

TEST_F(ServerTest, many_clients_get_their_own_answers) {
  start();
  const char* prompts[] = {"Once upon", "Tom and Mia", "The dog", "One day,"};
  std::vector<std::string> want;
  const auto body = [&](int i) {
    return std::string("{\"prompt\":\"") + prompts[i % 4] +
           "\",\"max_tokens\":24,\"temperature\":0}";
  };
  for (int i = 0; i < 4; ++i) want.push_back(text_of(post("/v1/completions", body(i))));
  std::vector<std::thread> threads;
  std::vector<std::string> got(24);
  for (int i = 0; i < 24; ++i) {
    threads.emplace_back([&, i] { got[i] = text_of(post("/v1/completions", body(i))); });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < 24; ++i) EXPECT_EQ(got[i], want[i % 4]) << i;
}

// A client that goes away frees its place.
TEST_F(ServerTest, many_prompts_and_the_older_shape_of_logprobs) {
  start();
  const Json answer = post(
      "/v1/completions",
      R"({"prompt":["Once upon","The cat"],"n":2,"max_tokens":6,"temperature":0,"logprobs":2})");
  const auto& choices = answer.find("choices")->as_array();
  ASSERT_EQ(choices.size(), 4u);
  std::string alone[2];
  uint64_t prompt_tokens = 0;
  for (int i = 0; i < 2; ++i) {
    const Json one = post("/v1/completions", fmt::format(R"({{"prompt":"{}","max_tokens":6,)"
                                                         R"("temperature":0}})",
                                                         i == 0 ? "Once upon" : "The cat"));
    alone[i] = text_of(one);
    prompt_tokens += static_cast<uint64_t>(one.find("usage")->find("prompt_tokens")->as_int());
  }
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(choices[i].find("index")->as_int(), static_cast<int64_t>(i));
    const std::string text = choices[i].find("text")->as_string();
    EXPECT_EQ(text, alone[i / 2]);
    const Json& logprobs = *choices[i].find("logprobs");
    const auto& tokens = logprobs.find("tokens")->as_array();
    ASSERT_EQ(tokens.size(), 6u);
    std::string joined;
    for (size_t t = 0; t < tokens.size(); ++t) {
      // Offsets count characters; the demo model's are ASCII.
      EXPECT_EQ(logprobs.find("text_offset")->as_array()[t].as_int(),
                static_cast<int64_t>(joined.size()));
      joined += tokens[t].as_string();
      EXPECT_LE(logprobs.find("token_logprobs")->as_array()[t].as_real(), 0);
      EXPECT_EQ(logprobs.find("top_logprobs")->as_array()[t].as_object().size(), 2u);
    }
    // A control token is a token, but no text.
    EXPECT_TRUE(joined.ends_with(text)) << joined;
  }
  EXPECT_EQ(answer.find("usage")->find("completion_tokens")->as_int(), 24);
  EXPECT_EQ(answer.find("usage")->find("prompt_tokens")->as_int(),
            static_cast<int64_t>(prompt_tokens));
  // Texts and ids may be mixed in one prompt.
  const Json tokens = post("/tokenize", R"({"content":" upon"})");
  const std::string ids = tokens.find("tokens")->dump();
  const Json mixed = post("/v1/completions", fmt::format(R"({{"prompt":["Once",{}],"max_tokens":6,)"
                                                         R"("temperature":0}})",
                                                         ids.substr(1, ids.size() - 2)));
  EXPECT_EQ(text_of(mixed), alone[0]);
  post("/v1/completions", R"({"prompt":[1,-1]})", 400);
  post("/v1/completions", R"({"prompt":[999999999]})", 400);
  post("/v1/completions", R"({"prompt":["a"],"echo":true})", 400);
}

TEST_F(ServerTest, slots_tell_what_runs_and_not_what_it_says) {
  start();
  std::thread asker([&] {
    post("/completion", R"({"prompt":"xyzzy upon a time","n_predict":1500,"ignore_eos":true})");
  });
  auto http = client();
  bool seen = false;
  for (int i = 0; i < 10'000 && !seen; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    const std::string body = http.Get("/slots")->body;
    const Json slots = Json::parse(body);
    ASSERT_EQ(slots.as_array().size(), 4u);
    EXPECT_EQ(body.find("xyzzy"), std::string::npos);
    const Json& first = slots.as_array()[0];
    if (!first.find("is_processing")->as_bool()) continue;
    const Json& next = first.find("next_token")->as_array()[0];
    const int64_t decoded = next.find("n_decoded")->as_int();
    if (decoded == 0) continue;
    seen = true;
    EXPECT_EQ(next.find("n_remain")->as_int(), 1500 - decoded);
    EXPECT_EQ(first.find("n_prompt_tokens_processed")->as_int(),
              first.find("n_prompt_tokens")->as_int());
    EXPECT_FALSE(slots.as_array()[1].find("is_processing")->as_bool());
  }
  EXPECT_TRUE(seen);
  asker.join();
}

TEST_F(ServerTest, clients_of_different_keys_share_no_prompt) {
  ApiOptions options;
  options.api_keys = {"one", "two"};
  start(options);
  auto http = client();
  const auto cached = [&](const char* key) {
    std::string words;
    for (int i = 0; i < 100; ++i) words += "cat dog ";
    const httplib::Headers headers{{"Authorization", std::string("Bearer ") + key}};
    const auto answer =
        http.Post("/v1/completions", headers,
                  Json::object({{"prompt", words}, {"max_tokens", 1}}).dump(), "application/json");
    return Json::parse(answer->body).find("timings")->find("cache_n")->as_int();
  };
  EXPECT_EQ(cached("one"), 0);
  EXPECT_GT(cached("one"), 0);
  EXPECT_EQ(cached("two"), 0);
  EXPECT_GT(cached("two"), 0);
}

TEST_F(ServerTest, a_grammar_that_cannot_be_followed_is_refused_and_hurts_nobody) {
  start();
  // More alternatives than are followed at once: found when the grammar's first state is made.
  // (Such as begin with a text are none too many: see LongLists in grammar_test.cpp.)
  std::string gbnf = "root ::= [ab] \"0\"";
  for (int i = 1; i < 5000; ++i) gbnf += fmt::format(" | [ab] \"{}\"", i);
  const std::string body =
      Json::object({{"prompt", "a"}, {"max_tokens", 3}, {"grammar", gbnf}}).dump();
  for (const char* path : {"/v1/completions", "/completion"}) {
    const Json answer = post(path, body, 400);
    EXPECT_NE(answer.find("error")->find("message")->as_string().find("too many alternatives"),
              std::string::npos);
  }
  post("/v1/completions", R"({"prompt":"a","max_tokens":3,"n":3})");
}

TEST_F(ServerTest, llama_servers_own_completion) {
  start();
  const Json answer =
      post("/completion", R"({"prompt":"Once upon","n_predict":5,"temperature":0,"seed":7,)"
                          R"("return_tokens":true,"n_probs":2,"stop":["xyzzy"]})");
  EXPECT_EQ(answer.find("stop_type")->as_string(), "limit");
  EXPECT_EQ(answer.find("tokens")->as_array().size(), 5u);
  EXPECT_EQ(answer.find("tokens_predicted")->as_int(), 5);
  EXPECT_EQ(answer.find("completion_probabilities")->as_array().size(), 5u);
  EXPECT_EQ(answer.find("completion_probabilities")
                ->as_array()[0]
                .find("top_logprobs")
                ->as_array()
                .size(),
            2u);
  const Json& settings = *answer.find("generation_settings");
  EXPECT_EQ(settings.find("seed")->as_int(), 7);
  EXPECT_EQ(settings.find("n_predict")->as_int(), 5);
  EXPECT_EQ(settings.find("temperature")->as_real(), 0);
  EXPECT_EQ(settings.find("stop")->as_array()[0].as_string(), "xyzzy");
  EXPECT_TRUE(answer.find("prompt")->as_string().ends_with("Once upon"));
  const Json both = post("/completions", R"({"prompt":["Once upon","a"],"n_predict":2})");
  EXPECT_EQ(both.as_array().size(), 2u);
}

TEST_F(ServerTest, who_leaves_a_stream_is_not_computed_for) {
  start();
  for (int i = 0; i < 8; ++i) {
    auto http = client();
    size_t seen = 0;
    httplib::Request request;
    request.method = "POST";
    request.path = "/v1/completions";
    request.set_header("Content-Type", "application/json");
    request.body = R"({"prompt":"Once upon","ignore_eos":true,"max_tokens":100000,"stream":true})";
    request.content_receiver = [&](const char*, size_t n, uint64_t, uint64_t) {
      seen += n;
      return seen < 500;
    };
    http.send(request);
  }
  for (int i = 0; i < 5000 && server_->scheduler.state().running > 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(server_->scheduler.state().running, 0u);
  EXPECT_EQ(server_->scheduler.state().waiting, 0u);
}

TEST_F(ServerTest, tokens_and_templates) {
  start();
  const Json tokens = post("/tokenize", R"({"content":"Once upon a time"})");
  const Json text = post("/detokenize", tokens.dump());
  EXPECT_EQ(text.find("content")->as_string(), "Once upon a time");
  const Json prompt =
      post("/apply-template", R"({"messages":[{"role":"user","content":"Hello"}]})");
  EXPECT_NE(prompt.find("prompt")->as_string().find("Hello"), std::string::npos);
  // Pieces: text, or the bytes of what is only a part of a character.
  const Json pieces = post("/tokenize", R"({"content":"The fox 🦊 ran","with_pieces":true})");
  std::string joined;
  bool in_parts = false;
  for (const Json& one : pieces.find("tokens")->as_array()) {
    EXPECT_TRUE(one.find("id")->is_int());
    const Json& piece = *one.find("piece");
    if (piece.is_string()) {
      joined += piece.as_string();
      continue;
    }
    in_parts = true;
    for (const Json& byte : piece.as_array()) joined += static_cast<char>(byte.as_int());
  }
  EXPECT_EQ(joined, "The fox 🦊 ran");
  EXPECT_TRUE(in_parts);
  EXPECT_EQ(post("/tokenize", R"({"content":""})").dump(), R"({"tokens":[]})");
  post("/detokenize", R"({"tokens":[-1]})", 400);
  post("/detokenize", R"({"tokens":["a"]})", 400);
}

// Anthropic's form: named events, no [DONE], errors wrapped.
TEST_F(ServerTest, messages) {
  start();
  const std::string body = R"({"model":"any","max_tokens":8,"temperature":0,"system":"Be short.",)"
                           R"("messages":[{"role":"user","content":"What is 2+2?"}])";
  const Json whole = post("/v1/messages", body + "}");
  EXPECT_EQ(whole.find("type")->as_string(), "message");
  EXPECT_EQ(whole.find("model")->as_string(), "any");
  const std::string text = whole.find("content")->as_array()[0].find("text")->as_string();
  EXPECT_GT(whole.find("usage")->find("output_tokens")->as_int(), 0);
  auto http = client();
  const auto answer = http.Post("/v1/messages", body + ",\"stream\":true}", "application/json");
  ASSERT_TRUE(answer);
  std::string streamed, names;
  std::istringstream lines(answer->body);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("event: ", 0) == 0 && names.find(line.substr(7)) == std::string::npos) {
      names += line.substr(7) + " ";
    }
    if (line.rfind("data: ", 0) != 0) continue;
    const Json event = Json::parse(line.substr(6));
    if (const Json* delta = event.find("delta")) {
      if (const Json* part = delta->find("text")) streamed += part->as_string();
    }
  }
  EXPECT_EQ(streamed, text);
  EXPECT_EQ(names,
            "message_start content_block_start content_block_delta content_block_stop "
            "message_delta message_stop ");
  const Json error = post("/v1/messages", R"({"messages":[{"role":"user","content":"a"}]})", 400);
  EXPECT_EQ(error.find("type")->as_string(), "error");
  EXPECT_EQ(error.find("error")->find("type")->as_string(), "invalid_request_error");
}

// Whatever the model would say: the answer is of the form that was asked for.
TEST_F(ServerTest, answers_of_a_given_form) {
  start();
  const auto text = [&](const std::string& more) {
    const Json answer =
        post("/v1/completions", R"({"prompt":"Once upon","max_tokens":200,"seed":7,)" + more + "}");
    EXPECT_EQ(answer.find("choices")->as_array()[0].find("finish_reason")->as_string(), "stop");
    return text_of(answer);
  };
  const std::string schema =
      R"({"type":"object","properties":{"name":{"type":"string","maxLength":12},)"
      R"("age":{"type":"integer","minimum":3,"maximum":9}},"required":["name","age"],)"
      R"("additionalProperties":false})";
  const std::string wrapped =
      R"("response_format":{"type":"json_schema","json_schema":{"name":"a","schema":)" + schema +
      "}}";
  for (const std::string& field : {"\"json_schema\":" + schema, wrapped}) {
    const Json value = Json::parse(text(field));
    EXPECT_TRUE(value.find("name")->is_string());
    EXPECT_GE(value.find("age")->as_int(), 3);
    EXPECT_LE(value.find("age")->as_int(), 9);
  }
  const std::string word = text("\"grammar\":\"root ::= \\\"yes\\\" | \\\"no\\\"\"");
  EXPECT_TRUE(word == "yes" || word == "no") << word;
  post("/v1/completions", R"({"prompt":"a","grammar":"root ::= ("})", 400);
  post("/v1/completions", R"({"prompt":"a","response_format":{"type":"xml"}})", 400);
  post("/v1/completions", R"({"prompt":"a","json_schema":{"type":"nothing"}})", 400);
}

}  // namespace
}  // namespace strata::server
