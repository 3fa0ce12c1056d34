// What clients and devices do wrong: nobody else notices, nothing is lost or mixed up, and
// afterwards the server is as before.
#include <gtest/gtest.h>
#include <httplib.h>
#include <signal.h>
#include <sys/wait.h>

#include <atomic>
#include <fstream>
#include <random>
#include <regex>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "cli/run_binary.h"
#include "engine/engine_impl.h"
#include "gguf/file.h"
#include "model/spec.h"
#include "runtime/faulty_device.h"
#include "server/raw_client.h"
#include "server/running_server.h"
#include "watchdog.h"

namespace strata::server {
namespace {

using test::body_of;
using test::RawClient;
using test::repeated;
using test::RunningServer;
using test::status_of;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void sleep_for(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

bool wait_until(const std::function<bool()>& condition, double seconds = 20) {
  for (const double end = now() + seconds; now() < end; sleep_for(0.002)) {
    if (condition()) return true;
  }
  return condition();
}

std::string request(const std::string& path, const std::string& body) {
  return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

const char* const k_prompts[] = {"Once upon a time", "Tom and Mia", "The dog", "One day,",
                                 "She said: \\\"I"};

std::string greedy(size_t prompt, bool stream) {
  return std::string("{\"prompt\":\"") + k_prompts[prompt % std::size(k_prompts)] +
         "\",\"max_tokens\":" + std::to_string(12 + prompt % 7) +
         ",\"temperature\":0,\"stream\":" + (stream ? "true" : "false") + "}";
}

// The text of an answer, streamed or not.
std::string text_of(const std::string& body) {
  std::string out;
  if (!body.empty() && body[0] == '{') {
    const Json answer = Json::parse(body);
    const Json* choices = answer.find("choices");
    return choices == nullptr ? "" : choices->as_array()[0].find("text")->as_string();
  }
  std::istringstream lines(body);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("data: {", 0) != 0) continue;
    const Json event = Json::parse(line.substr(6));
    const Json* choices = event.find("choices");
    if (choices == nullptr) continue;
    for (const Json& choice : choices->as_array()) out += choice.find("text")->as_string();
  }
  return out;
}

// Routes as the server's source lists them, so that a new one is tested, too.
std::set<std::pair<std::string, std::string>> routes() {
  std::ifstream in(test::source_path("src/server/api.cpp"));
  const std::string source{std::istreambuf_iterator<char>(in), {}};
  const std::regex route("\\{\"([A-Z]+)\", \"(/[^\"]*)\"");
  std::set<std::pair<std::string, std::string>> out;
  for (std::sregex_iterator at(source.begin(), source.end(), route), end; at != end; ++at) {
    out.emplace((*at)[1], (*at)[2]);
  }
  return out;
}

TEST(ServerFaults, without_the_key_nothing_but_health) {
  ApiOptions options;
  options.api_keys = {"secret"};
  options.metrics = true;
  const RunningServer server(options);
  const auto all = routes();
  ASSERT_GE(all.size(), 12u);
  auto http = server.client();
  for (const auto& [method, path] : all) {
    for (const std::string before : {"", "/v1"}) {
      for (const std::string after : {"", "/", "?key=secret", "/%2e", "//"}) {
        for (const std::string& verb : {method, std::string("HEAD"), std::string("PUT")}) {
          httplib::Request one;
          one.method = verb;
          one.path = before + path + after;
          one.set_header("Authorization", "Bearer wrong");
          const auto answer = http.send(one);
          ASSERT_TRUE(answer);
          const bool health = path == "/health" && (after.empty() || after[0] == '?');
          EXPECT_EQ(answer->status == 401, !health) << verb << " " << one.path;
        }
      }
    }
  }
  for (const char* path : {"/%68ealth", "/health/../v1/models", "/v1/health/../models", "//health",
                           "/HEALTH", "/health%2f..%2fprops"}) {
    httplib::Request one;
    one.method = "GET";
    one.path = path;
    const auto answer = http.send(one);
    ASSERT_TRUE(answer);
    EXPECT_TRUE(answer->status == 401 || answer->body == R"({"status":"ok"})") << path;
  }
}

TEST(ServerFaults, other_hosts_and_origins) {
  const RunningServer server;
  auto http = server.client();
  for (const char* host : {"evil.example", "localhost.evil.example", "evil.example:8080",
                           "127.0.0.1.evil.example", "2130706433", "[::2]", "127.0.0.1@evil"}) {
    EXPECT_EQ(http.Get("/v1/models", {{"Host", host}})->status, 403) << host;
  }
  for (const char* host : {"localhost", "localhost:1", "127.0.0.1", "127.8.8.8:80", "[::1]:80",
                           "LOCALHOST", "LocalHost:8080"}) {
    EXPECT_EQ(http.Get("/v1/models", {{"Host", host}})->status, 200) << host;
  }
  for (const char* origin :
       {"http://evil.example", "null", "http://localhost.evil.example", "http://127.evil.example",
        "http://127.0.0.1.evil.example", "https://localhost:80@evil.example"}) {
    EXPECT_FALSE(
        http.Get("/v1/models", {{"Origin", origin}})->has_header("Access-Control-Allow-Origin"))
        << origin;
  }
}

// Numbers of a client's are never the server's fault.
TEST(ServerFaults, no_value_of_any_field_is_an_error_of_the_server) {
  const test::Watchdog watchdog(std::chrono::seconds(550));
  ApiOptions options;
  options.max_tokens = 2;
  const RunningServer server(options);
  const std::string messages = R"("messages":[{"role":"user","content":"a"}])";
  const std::pair<std::string, std::string> endpoints[] = {
      {"/v1/completions", R"("prompt":"a")"}, {"/completion", R"("prompt":"a")"},
      {"/v1/chat/completions", messages},     {"/v1/messages", messages + R"(,"max_tokens":2)"},
      {"/tokenize", R"("content":"a")"},      {"/detokenize", R"("tokens":[1])"},
      {"/apply-template", messages},          {"/v1/embeddings", R"("input":"a")"},
      {"/v1/responses", R"("input":"a")"}};
  const char* const fields[] = {"prompt",
                                "messages",
                                "content",
                                "tokens",
                                "input",
                                "system",
                                "model",
                                "temperature",
                                "top_k",
                                "top_p",
                                "min_p",
                                "typical_p",
                                "repeat_penalty",
                                "presence_penalty",
                                "frequency_penalty",
                                "repeat_last_n",
                                "ignore_eos",
                                "seed",
                                "logit_bias",
                                "n_predict",
                                "max_tokens",
                                "max_completion_tokens",
                                "max_output_tokens",
                                "stop",
                                "stop_sequences",
                                "n",
                                "cache_prompt",
                                "priority",
                                "stream",
                                "stream_options",
                                "logprobs",
                                "top_logprobs",
                                "n_probs",
                                "grammar",
                                "json_schema",
                                "response_format",
                                "tools",
                                "tool_choice",
                                "parallel_tool_calls",
                                "functions",
                                "chat_template_kwargs",
                                "reasoning_format",
                                "reasoning_effort",
                                "thinking",
                                "metadata",
                                "user",
                                "echo",
                                "suffix",
                                "best_of",
                                "add_special",
                                "parse_special",
                                "with_pieces",
                                "encoding_format",
                                "dimensions",
                                "instructions",
                                "text",
                                "include",
                                "return_tokens",
                                "samplers",
                                "mirostat",
                                "dry_multiplier",
                                "id_slot",
                                "lora",
                                "post_sampling_probs"};
  const char* const values[] = {"null",
                                "true",
                                "-1",
                                "0",
                                "1e308",
                                "9223372036854775807",
                                "-9223372036854775808",
                                "1180591620717411303424",
                                "1.5",
                                "\"\"",
                                "\"x\"",
                                "\"\\u0000\"",
                                "[]",
                                "[1]",
                                "[\"a\",1,null]",
                                "[[[]]]",
                                "{}",
                                R"({"a":{"b":[1]}})",
                                R"([{"role":1}])",
                                R"([{"role":"user","content":[{}]}])",
                                R"({"type":"json_schema","json_schema":{"schema":{"type":7}}})",
                                R"([{"type":"function","function":{"name":1}}])"};
  // A part of all combinations; STRATA_TEST_REPEAT=17 tries all.
  std::mt19937 random(1);
  const auto part = static_cast<uint32_t>(repeated(60));
  log::set_sink([](log::Level, std::string_view) {});
  auto http = server.client();
  http.set_keep_alive(true);
  http.set_tcp_nodelay(true);
  for (const auto& [path, base] : endpoints) {
    for (const char* field : fields) {
      for (const char* value : values) {
        if (random() % 1000 >= part) continue;
        std::string body = "{" + base + ",\"" + field + "\":" + value + "}";
        const auto answer = http.Post(path.c_str(), body, "application/json");
        ASSERT_TRUE(answer) << path << " " << body;
        EXPECT_LT(answer->status, 500) << path << " " << body << answer->body;
        if (answer->status >= 400) {
          EXPECT_NE(Json::parse(answer->body).find("error"), nullptr) << answer->body;
        }
      }
    }
  }
  log::set_sink(nullptr);
  EXPECT_TRUE(server.becomes_idle());
}

TEST(ServerFaults, text_that_is_none) {
  const RunningServer server;
  const auto status = [&](const std::string& body) {
    auto http = server.client();
    const auto answer = http.Post("/v1/completions", body, "application/json");
    EXPECT_TRUE(answer);
    if (answer) Json::parse(answer->body);
    return answer ? answer->status : 0;
  };
  const std::string end = "\",\"max_tokens\":1}";
  // Bytes that are no UTF-8, surrogates without their other half, a byte order mark, a zero.
  for (const char* bad : {"\xff", "\xc3", "\xed\xa0\x80", "\xf5\x80\x80\x80", "\xc0\x80"}) {
    EXPECT_EQ(status(std::string("{\"prompt\":\"") + bad + end), 400) << bad;
    EXPECT_EQ(status(std::string(bad) + "{\"prompt\":\"a" + end), 400) << bad;
    EXPECT_EQ(status(std::string("{\"") + bad + "\":1,\"prompt\":\"a" + end), 400) << bad;
  }
  for (const char* odd : {"\\ud800", "\\udc00\\ud800", "\\ud83d\\ude00", "\\u0000", "\\uffff"}) {
    const int got = status(std::string("{\"prompt\":\"a") + odd + end);
    EXPECT_TRUE(got == 200 || got == 400) << odd << " " << got;
  }
  for (const size_t depth : {200u, 60'000u, 400'000u}) {
    for (const char* open : {"[", "{\"a\":", "[{\"a\":"}) {
      std::string nested;
      for (size_t i = 0; i < depth; ++i) nested += open;
      EXPECT_EQ(status(nested), 400);
      EXPECT_EQ(status("{\"prompt\":\"a\",\"x\":" + nested), 400);
    }
    // Within strings: grammars and patterns are compiled by recursion.
    EXPECT_EQ(status("{\"prompt\":\"a\",\"max_tokens\":1,\"grammar\":\"root ::= " +
                     std::string(depth, '(') + " [a] " + std::string(depth, ')') + "\"}"),
              400);
    const int pattern = status(
        "{\"prompt\":\"a\",\"max_tokens\":1,\"json_schema\":{\"type\":\"string\","
        "\"pattern\":\"^" +
        std::string(depth, '(') + "a" + std::string(depth, ')') + "$\"}}");
    EXPECT_EQ(pattern, 400);
  }
  // One long run of letters (regular expressions of tokenizers recurse on them).
  const int letters = status("{\"prompt\":\"" + std::string(1 << 20, 'a') + end);
  EXPECT_EQ(letters, 400);  // longer than the context
}

// However much of a request comes, the server waits for the rest or forgets it.
TEST(ServerFaults, truncated_requests) {
  const test::Watchdog watchdog(std::chrono::seconds(300));
  const RunningServer server;
  const std::string whole = request("/v1/completions", greedy(0, true));
  for (size_t n = 0; n < whole.size(); n += n < whole.size() - 3 ? 3 : 1) {
    RawClient one(server.port);
    one.send(std::string_view(whole).substr(0, n));
    if (n % 2 == 0) one.shut_writing();
    n % 5 == 0 ? one.reset() : one.close();
  }
  EXPECT_TRUE(wait_until([&] { return server.is_idle(); }));
  EXPECT_EQ(server.client().Get("/health")->status, 200);
}

TEST(ServerFaults, who_leaves_before_the_answer_is_not_computed_for) {
  const test::Watchdog watchdog(std::chrono::seconds(300));
  RunningServer server({}, {1, 64, 64, true});
  const std::string endless = R"({"prompt":"Once","max_tokens":1900,"ignore_eos":true})";
  // One runs, the others wait; streamed and not.
  std::vector<RawClient> clients;
  for (int i = 0; i < 5; ++i) {
    clients.emplace_back(server.port);
    std::string body = endless;
    if (i % 2 == 1) body.insert(1, "\"stream\":true,");
    clients.back().send(request("/v1/completions", body));
    if (i > 0) continue;
    EXPECT_TRUE(wait_until([&] { return server.scheduler.state().running == 1; }));
  }
  EXPECT_TRUE(wait_until([&] { return server.scheduler.state().waiting == 4; }));
  // Those that wait, first; the one that runs goes on.
  const uint64_t finished = server.scheduler.state().finished;
  const double begun = now();
  for (size_t i = 1; i < 5; ++i) clients[i].close();
  EXPECT_TRUE(wait_until([&] { return server.scheduler.state().waiting == 0; }));
  EXPECT_LT(now() - begun, 2);
  EXPECT_EQ(server.scheduler.state().running, 1u);
  clients[0].close();
  EXPECT_TRUE(wait_until([&] { return server.is_idle(); }, 2));
  // None came to its end.
  EXPECT_LT(server.scheduler.state().generated_tokens, 1800u);
  (void)finished;
  // While a long prompt is being read, before the first token.
  std::string prompt;
  for (int i = 0; i < 1500; ++i) prompt += "dog ";
  RawClient reading(server.port);
  reading.send(request("/v1/completions", "{\"prompt\":\"" + prompt + "\",\"max_tokens\":9}"));
  EXPECT_TRUE(wait_until([&] { return server.scheduler.state().running == 1; }));
  reading.close();
  EXPECT_TRUE(wait_until([&] { return server.is_idle(); }));
}

TEST(ServerFaults, what_others_ask_is_not_shown) {
  RunningServer server;
  RawClient one(server.port);
  one.send(request("/v1/completions",
                   R"({"prompt":"xyzzysecret plugh","max_tokens":1900,"ignore_eos":true,)"
                   R"("stream":true,"user":"xyzzysecret","stop":["xyzzysecret"]})"));
  one.receive_until("data: ", 20);
  auto http = server.client();
  for (const auto& [method, path] : routes()) {
    if (method != "GET") continue;
    const auto answer = http.Get(path);
    ASSERT_TRUE(answer) << path;
    EXPECT_EQ(answer->body.find("xyzzysecret"), std::string::npos) << path;
  }
}

TEST(ServerFaults, many_at_once_get_what_they_would_alone) {
  const test::Watchdog watchdog(std::chrono::seconds(550));
  RunningServer server({}, {8, 100'000, 64, true});
  std::vector<std::string> want;
  for (size_t i = 0; i < 35; ++i) {
    want.push_back(text_of(
        server.client().Post("/v1/completions", greedy(i, false), "application/json")->body));
  }
  const auto n = static_cast<size_t>(repeated(400));
  std::vector<std::thread> threads;
  std::atomic<int> lost{0}, mixed{0};
  for (size_t i = 0; i < n; ++i) {
    threads.emplace_back([&, i] {
      auto http = server.client();
      const auto answer = http.Post("/v1/completions", greedy(i, i % 2 == 1), "application/json");
      if (!answer || answer->status != 200) {
        ++lost;
      } else if (text_of(answer->body) != want[i % 35]) {
        ++mixed;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(lost, 0);
  EXPECT_EQ(mixed, 0);
}

// Clients that come and vanish at random. Afterwards the server is idle and as large as before.
TEST(ServerFaults, vanishing_clients) {
  const test::Watchdog watchdog(std::chrono::seconds(300));
  RunningServer server({}, {4, 64, 64, true});
  std::atomic<int> wrong{0}, right{0}, full{0};
  std::vector<std::string> want;
  for (size_t i = 0; i < 35; ++i) {
    want.push_back(text_of(
        server.client().Post("/v1/completions", greedy(i, false), "application/json")->body));
  }
  const auto storm = [&](double seconds, uint32_t seed) {
    std::vector<std::thread> threads;
    const double end = now() + seconds;
    for (uint32_t t = 0; t < 16; ++t) {
      threads.emplace_back([&, t] {
        std::mt19937 random(seed * 100 + t);
        while (now() < end) {
          const size_t which = random() % 35;
          const bool stream = random() % 2 == 0;
          const std::string text = request("/v1/completions", greedy(which, stream));
          RawClient one(server.port);
          switch (random() % 4) {
            case 0:  // leaves in the middle of its request
              one.send(std::string_view(text).substr(0, random() % text.size()));
              break;
            case 1:  // leaves at some time
              one.send(text);
              sleep_for(1e-3 * (random() % 30));
              break;
            case 2:  // reads a little
              one.send(text);
              one.receive(0.5, 1 + random() % 300);
              break;
            default: {
              auto http = server.client();
              const auto answer =
                  http.Post("/v1/completions", greedy(which, stream), "application/json");
              if (answer && answer->status == 429) {
                ++full;
              } else if (answer && answer->status == 200 && text_of(answer->body) == want[which]) {
                ++right;
              } else {
                ++wrong;
              }
            }
          }
          if (random() % 2 == 0) one.reset();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_TRUE(wait_until([&] { return server.is_idle(); }));
  };
  storm(3, 1);
  const int64_t before = test::own_figure("VmRSS");
  storm(4, 2);
  const int64_t grown = test::own_figure("VmRSS") - before;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(grown, 24 << 10) << "KiB";
#else
  (void)grown;
#endif
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(right, 0);
  EXPECT_EQ(server.client().Get("/health")->status, 200);
}

// ---- A device that fails

std::unique_ptr<Engine> with_faults(const std::shared_ptr<test::Faults>& faults) {
  std::unique_ptr<Engine> engine = test::open_demo();
  const gguf::File file = gguf::File::open(test::source_path("models/demo-q8_0.gguf"));
  runtime::Model::Devices devices;
  devices.push_back(
      std::make_unique<test::FaultyDevice>(device::open_device({"cpu", 1, 0}), faults));
  model::ModelSpec spec = model::read_spec(file);
  plan::Request plan_request;
  plan_request.n_context = 2048;
  plan_request.n_ubatch = 64;
  plan::Plan plan = plan::make(spec, {device::describe(*devices.back())}, plan_request);
  engine->impl().model =
      runtime::Model::load(file, std::move(spec), std::move(plan), std::move(devices));
  return engine;
}

TEST(ServerFaults, a_device_that_fails_ends_what_it_computed_and_no_more) {
  const test::Watchdog watchdog(std::chrono::seconds(300));
  const auto faults = std::make_shared<test::Faults>();
  RunningServer server({}, {4, 64, 64, true}, {}, with_faults(faults));
  std::vector<std::string> want;
  for (size_t i = 0; i < 4; ++i) {
    want.push_back(text_of(
        server.client().Post("/v1/completions", greedy(i, false), "application/json")->body));
    EXPECT_FALSE(want.back().empty());
  }
  for (int round = 0; round < repeated(20); ++round) {
    faults->fail_run_in(round % 9);
    std::vector<std::thread> threads;
    std::atomic<int> failed{0}, right{0}, wrong{0};
    for (size_t i = 0; i < 8; ++i) {
      threads.emplace_back([&, i] {
        const bool stream = i % 2 == 1;
        const auto answer =
            server.client().Post("/v1/completions", greedy(i % 4, stream), "application/json");
        if (!answer) {
          ++wrong;
          return;
        }
        const bool says_so = answer->body.find("injected") != std::string::npos &&
                             answer->body.find("\"error\"") != std::string::npos;
        if (says_so && (stream ? answer->status == 200 : answer->status == 500)) {
          ++failed;
          // An error is no end: nothing that looks like one.
          if (answer->body.find("\"finish_reason\":\"") != std::string::npos) ++wrong;
        } else if (answer->status == 200 && text_of(answer->body) == want[i % 4]) {
          ++right;
        } else {
          ++wrong;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_GT(failed, 0);
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(failed + right, 8);
    faults->work();
    EXPECT_TRUE(wait_until([&] { return server.is_idle(); }));
    const auto after =
        server.client().Post("/v1/completions", greedy(0, false), "application/json");
    ASSERT_TRUE(after);
    EXPECT_EQ(text_of(after->body), want[0]);
  }
}

// ---- The binary

class Binary {
 public:
  explicit Binary(const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {
        STRATA_BINARY, "serve", "-m", test::source_path("models/demo-q8_0.gguf"), "--port", "0",
        "-c",          "4096",  "-v"};
    words.insert(words.end(), more.begin(), more.end());
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    int pipe_ends[2];
    if (pipe(pipe_ends) != 0) throw std::runtime_error("no pipe");
    pid_ = fork();
    if (pid_ == 0) {
      dup2(pipe_ends[1], 2);
      ::close(pipe_ends[0]);
      ::close(pipe_ends[1]);
      execv(arguments[0], arguments.data());
      _exit(127);
    }
    ::close(pipe_ends[1]);
    err_ = pipe_ends[0];
    const std::string mark = "listening on ";
    for (const double end = now() + 120; now() < end;) {
      if (!read_some(1)) break;
      const size_t at = said_.find(mark);
      if (at == std::string::npos || said_.find(';', at) == std::string::npos) continue;
      port_ =
          static_cast<uint16_t>(std::stoi(said_.substr(said_.rfind(':', said_.find(';', at)) + 1)));
      return;
    }
    ADD_FAILURE() << "the server did not start: " << said_;
  }
  ~Binary() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      wait();
    }
    ::close(err_);
  }
  void signal(int which) const { kill(pid_, which); }
  // Exit status; 128 and more: by a signal. -1: not in that time.
  int wait(double seconds = 60) {
    int status = 0;
    for (const double end = now() + seconds; now() < end; read_some(0.005)) {
      if (waitpid(pid_, &status, WNOHANG) == pid_) {
        pid_ = 0;
        while (read_some(0)) {
        }
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      }
    }
    return -1;
  }
  uint16_t port() const { return port_; }
  const std::string& said() const { return said_; }

 private:
  bool read_some(double seconds) {
    pollfd one{err_, POLLIN, 0};
    if (poll(&one, 1, static_cast<int>(seconds * 1e3)) <= 0) return seconds > 0;
    char buffer[4096];
    const ssize_t n = ::read(err_, buffer, sizeof buffer);
    if (n > 0) said_.append(buffer, static_cast<size_t>(n));
    return n > 0;
  }

  pid_t pid_ = 0;
  int err_ = -1;
  uint16_t port_ = 0;
  std::string said_;
};

TEST(ServerFaults, told_to_stop_it_ends_its_streams) {
  const test::Watchdog watchdog(std::chrono::seconds(300));
  Binary server({"--log-format", "json"});
  ASSERT_NE(server.port(), 0);
  RawClient stream(server.port()), whole(server.port());
  const std::string body = R"({"prompt":"Once","max_tokens":600,"ignore_eos":true,"stream":true})";
  stream.send(request("/v1/completions", body));
  whole.send(request("/v1/completions", greedy(0, false)));
  std::string answer = stream.receive_until("data: ", 60);
  server.signal(SIGTERM);
  answer += stream.receive_all(60);
  EXPECT_NE(answer.find("\"finish_reason\":\"length\""), std::string::npos);
  EXPECT_NE(answer.find("data: [DONE]"), std::string::npos);
  EXPECT_TRUE(answer.ends_with("\r\n0\r\n\r\n"));
  EXPECT_EQ(status_of(whole.receive_all(60)), 200);
  EXPECT_EQ(server.wait(), 0) << server.said();
  // The log tells of both, each line an object.
  int told = 0;
  std::istringstream lines(server.said());
  for (std::string line; std::getline(lines, line);) {
    const size_t at = line.find("{\"method\"");
    if (at == std::string::npos) continue;
    const Json one = Json::parse(line.substr(at));
    EXPECT_EQ(one.find("status")->as_int(), 200);
    EXPECT_EQ(one.find("path")->as_string(), "/v1/completions");
    EXPECT_TRUE(one.find("complete")->as_bool());
    EXPECT_GT(one.find("bytes")->as_int(), 0);
    ++told;
  }
  EXPECT_EQ(told, 2) << server.said();
}

// What does not end in the time that it is given is ended, and the client is told: an answer that
// was cut off, or never began, does not look like one that is complete.
TEST(ServerFaults, told_to_stop_it_waits_only_so_long) {
  const test::Watchdog watchdog(std::chrono::seconds(300));
  Binary server({"-c", "200000", "-np", "2", "--shutdown-timeout", "1"});
  ASSERT_NE(server.port(), 0);
  RawClient stream(server.port()), whole(server.port()), waiting(server.port());
  const std::string body = R"({"prompt":"a","max_tokens":150000,"ignore_eos":true,"stream":)";
  stream.send(request("/v1/completions", body + "true}"));
  whole.send(request("/v1/completions", body + "false}"));
  std::string answer = stream.receive_until("data: ", 60);
  // Both places are taken when the stream goes on while the others are there.
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  waiting.send(request("/v1/completions", greedy(0, false)));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  server.signal(SIGTERM);
  const double told = now();
  answer += stream.receive_all(60);
  EXPECT_TRUE(answer.ends_with("\r\n0\r\n\r\n")) << answer.substr(answer.size() - 400);
  EXPECT_EQ(answer.find("\"finish_reason\":\"stop\""), std::string::npos);
  EXPECT_NE(
      answer.find("\"message\":\"the server is shutting down\",\"type\":\"unavailable_error\""),
      std::string::npos);
  EXPECT_EQ(status_of(whole.receive_all(60)), 503);
  EXPECT_EQ(status_of(waiting.receive_all(60)), 503);
  EXPECT_EQ(server.wait(), 0) << server.said();
  // Not at once, and long before it would have come to its end.
  EXPECT_GE(now() - told, 0.9);
  EXPECT_LT(now() - told, 20);
}

// "one, two" are two keys, as people write lists.
TEST(ServerFaults, space_around_a_key_is_not_of_it) {
  const test::Watchdog watchdog(std::chrono::seconds(300));
  Binary server({"--api-key", "one, two ,\tthree"});
  ASSERT_NE(server.port(), 0);
  for (const char* key : {"one", "two", "three"}) {
    RawClient client(server.port());
    client.send(std::string("GET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n") +
                "Authorization: Bearer " + key + "\r\n\r\n");
    EXPECT_EQ(status_of(client.receive_all(60)), 200) << key;
  }
}

TEST(ServerFaults, told_twice_it_ends_at_once) {
  const test::Watchdog watchdog(std::chrono::seconds(300));
  Binary server({"-c", "200000"});
  ASSERT_NE(server.port(), 0);
  RawClient stream(server.port());
  stream.send(request("/v1/completions",
                      R"({"prompt":"a","max_tokens":150000,"ignore_eos":true,"stream":true})"));
  stream.receive_until("data: ", 60);
  server.signal(SIGINT);
  EXPECT_EQ(server.wait(0.5), -1);
  server.signal(SIGTERM);
  EXPECT_EQ(server.wait(5), 128 + SIGTERM);
}

}  // namespace
}  // namespace strata::server
