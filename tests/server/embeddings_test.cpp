// Embeddings over the server's addresses: OpenAI's form, llama-server's, and what is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <thread>

#include "base/error.h"
#include "base/json.h"
#include "server/api.h"
#include "support.h"

namespace strata::server {
namespace {

using Vector = std::vector<double>;

class EmbeddingsTest : public testing::Test {
 protected:
  void SetUp() override {
    EngineOptions options;
    options.model = std::string(STRATA_SOURCE_DIR) + "/models/demo-q8_0.gguf";
    options.n_context = 512;
    options.n_ubatch = 64;
    engine_ = Engine::open(options);
    start();
  }
  void start(ApiOptions options = {}) {
    api_.reset();
    scheduler_.reset();
    scheduler_ = std::make_unique<Scheduler>(*engine_, SchedulerOptions{});
    options.model_name = "demo";
    api_ = std::make_unique<Api>(*engine_, *scheduler_, options);
  }
  Json post(const std::string& path, const std::string& body, int status = 200) const {
    HttpRequest request;
    request.method = "POST";
    request.path = path;
    request.body = body;
    const HttpResponse response = api_->handle(request);
    EXPECT_EQ(response.status, status)
        << path << " " << body.substr(0, 200) << ": " << response.body;
    return Json::parse(response.body);
  }
  std::string refusal(const std::string& body, const std::string& path = "/v1/embeddings") const {
    return post(path, body, 400).find("error")->find("message")->as_string();
  }
  // What the engine gives, scaled by the formula.
  Vector want(const std::string& text, Pooling pooling, size_t dimensions = SIZE_MAX) {
    // One at a time: the scheduler has the engine otherwise.
    api_.reset();
    scheduler_.reset();
    const auto raw = engine_->embed(engine_->tokenize(text, true, false), pooling);
    start();
    Vector out(raw.begin(), raw.begin() + static_cast<ptrdiff_t>(std::min(raw.size(), dimensions)));
    double sum = 0;
    for (const double x : out) sum += x * x;
    for (double& x : out) x /= std::sqrt(sum);
    return out;
  }
  static Vector vector_of(const Json& list) {
    Vector out;
    for (const Json& one : list.as_array()) out.push_back(one.as_real());
    return out;
  }
  static Vector nth(const Json& answer, size_t i) {
    const Json& one = answer.find("data")->as_array().at(i);
    EXPECT_EQ(one.find("index")->as_int(), static_cast<int64_t>(i));
    EXPECT_EQ(one.find("object")->as_string(), "embedding");
    return vector_of(*one.find("embedding"));
  }
  static void expect_near(const Vector& got, const Vector& want) {
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-6) << i;
  }

  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<Api> api_;
};

TEST_F(EmbeddingsTest, openais_form) {
  const Vector hello = want("Hello world", Pooling::last);
  const Vector other = want("The dog ran.", Pooling::last);
  const Json one = post("/v1/embeddings", R"({"model":"any","input":"Hello world"})");
  EXPECT_EQ(one.find("object")->as_string(), "list");
  EXPECT_EQ(one.find("model")->as_string(), "demo");
  EXPECT_EQ(one.find("data")->as_array().size(), 1u);
  expect_near(nth(one, 0), hello);
  const auto n = static_cast<int64_t>(engine_->tokenize("Hello world", true, false).size());
  EXPECT_EQ(one.find("usage")->find("prompt_tokens")->as_int(), n);
  EXPECT_EQ(one.find("usage")->find("total_tokens")->as_int(), n);

  const Json two = post("/v1/embeddings", R"({"input":["Hello world","The dog ran."]})");
  ASSERT_EQ(two.find("data")->as_array().size(), 2u);
  expect_near(nth(two, 0), hello);
  expect_near(nth(two, 1), other);

  std::string ids;
  for (const TokenId id : engine_->tokenize("Hello world", true, false)) {
    ids += (ids.empty() ? "" : ",") + std::to_string(id);
  }
  expect_near(nth(post("/v1/embeddings", R"({"input":[)" + ids + "]}"), 0), hello);
  const Json lists = post("/v1/embeddings", R"({"input":[[)" + ids + R"(],[)" + ids + "]]}");
  expect_near(nth(lists, 0), hello);
  expect_near(nth(lists, 1), hello);
}

TEST_F(EmbeddingsTest, pooling_dimensions_and_norms) {
  expect_near(nth(post("/v1/embeddings", R"({"input":"Hello world","pooling":"mean"})"), 0),
              want("Hello world", Pooling::mean));
  expect_near(nth(post("/v1/embeddings", R"({"input":"Hello world","dimensions":7})"), 0),
              want("Hello world", Pooling::last, 7));
  ApiOptions options;
  options.pooling = Pooling::cls;
  const Vector first = want("Hello world", Pooling::cls);
  start(options);
  expect_near(nth(post("/v1/embeddings", R"({"input":"Hello world"})"), 0), first);
  options.embd_normalize = 0;
  start(options);
  double largest = 0;
  for (const double x : nth(post("/v1/embeddings", R"({"input":"Hello world"})"), 0)) {
    largest = std::max(largest, std::fabs(x));
  }
  EXPECT_NEAR(largest, 32760, 0.01);
  double sum = 0;
  const Json taxicab = post("/v1/embeddings", R"({"input":"Hello world","embd_normalize":1})");
  for (const double x : nth(taxicab, 0)) sum += std::fabs(x);
  EXPECT_NEAR(sum, 1, 1e-5);
}

TEST_F(EmbeddingsTest, base64_is_the_same_floats) {
  const Vector floats = nth(post("/v1/embeddings", R"({"input":"Hello world"})"), 0);
  const Json answer =
      post("/v1/embeddings", R"({"input":"Hello world","encoding_format":"base64"})");
  const std::string text = answer.find("data")->as_array()[0].find("embedding")->as_string();
  std::string bytes;
  uint32_t group = 0, bits = 0;
  for (const char c : text) {
    static const std::string digits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if (c == '=') break;
    group = group << 6 | static_cast<uint32_t>(digits.find(c));
    bits += 6;
    if (bits >= 8) bytes += static_cast<char>(group >> (bits -= 8) & 255);
  }
  EXPECT_EQ(text.size() % 4, 0u);
  ASSERT_EQ(bytes.size(), floats.size() * 4);
  for (size_t i = 0; i < floats.size(); ++i) {
    float value = 0;
    std::memcpy(&value, bytes.data() + 4 * i, 4);
    EXPECT_EQ(value, static_cast<float>(floats[i]));
  }
}

TEST_F(EmbeddingsTest, llama_servers_form) {
  const Vector hello = want("Hello world", Pooling::last);
  for (const char* path : {"/embedding", "/embeddings"}) {
    const Json answer = post(path, R"({"content":"Hello world"})");
    ASSERT_EQ(answer.as_array().size(), 1u);
    EXPECT_EQ(answer.as_array()[0].find("index")->as_int(), 0);
    const auto& rows = answer.as_array()[0].find("embedding")->as_array();
    ASSERT_EQ(rows.size(), 1u);
    expect_near(vector_of(rows[0]), hello);
  }
  // Every position, as it is.
  const Json all = post("/embeddings", R"({"input":["Hello world","The dog"],"pooling":"none"})");
  ASSERT_EQ(all.as_array().size(), 2u);
  api_.reset();
  scheduler_.reset();
  const auto raw = engine_->embed(engine_->tokenize("The dog", true, false), Pooling::none);
  start();
  Vector got;
  for (const Json& row : all.as_array()[1].find("embedding")->as_array()) {
    const Vector one = vector_of(row);
    EXPECT_EQ(one.size(), engine_->info().n_embd);
    got.insert(got.end(), one.begin(), one.end());
  }
  ASSERT_EQ(got.size(), raw.size());
  for (size_t i = 0; i < raw.size(); ++i) EXPECT_EQ(static_cast<float>(got[i]), raw[i]);
}

TEST_F(EmbeddingsTest, mistakes_name_what_is_wrong) {
  const auto says = [](const std::string& message, const char* what) {
    EXPECT_NE(message.find(what), std::string::npos) << message;
  };
  says(refusal("{}"), "'input' is missing");
  says(refusal(R"({"input":null})"), "'input' is missing");
  says(refusal(R"({"input":5})"), "'input' must be");
  says(refusal(R"({"input":[]})"), "'input' holds 0 texts");
  says(refusal(R"({"input":["a",5]})"), "'input[1]' must be");
  says(refusal(R"({"input":[[1],[]]})"), "'input[1]' is empty");
  says(refusal(R"({"input":[1,-1]})"), "'input' must hold token ids");
  says(refusal(R"({"input":[[1],[1,1000000000000]]})"), "'input[1]' must hold token ids");
  says(refusal(R"({"input":[1.5]})"), "'input' must hold token ids");
  says(refusal(R"({"input":"a","dimensions":0})"), "'dimensions' is 0");
  says(refusal(R"({"input":"a","dimensions":1000000})"), "'dimensions' is 1000000");
  says(refusal(R"({"input":"a","encoding_format":"hex"})"), "'encoding_format' is 'hex'");
  says(refusal(R"({"input":"a","embd_normalize":-2})"), "'embd_normalize' is -2");
  says(refusal(R"({"input":"a","pooling":"rank"})"), "'pooling' is 'rank'");
  says(refusal(R"({"input":"a","pooling":"none"})"), "'none'");
  std::string many = R"({"input":["a")";
  for (int i = 0; i < 2048; ++i) many += R"(,"a")";
  says(refusal(many + "]}"), "2049");
  // Both counts, and whose they are; nothing is cut off silently.
  std::string ids = "5";
  for (int i = 0; i < 512; ++i) ids += ",5";
  const Json answer = post("/v1/embeddings", R"({"input":["a",[)" + ids + "]]}", 400);
  EXPECT_EQ(answer.find("error")->find("type")->as_string(), "exceed_context_size_error");
  const std::string message = answer.find("error")->find("message")->as_string();
  says(message, "'input[1]'");
  says(message, "513 tokens");
  says(message, "holds 512");
}

// Short and odd texts of unequal lengths, many at once from many clients.
TEST_F(EmbeddingsTest, many_unequal_texts_at_once) {
  std::string body = R"({"pooling":"mean","input":[)";
  std::vector<std::string> texts{
      ".", " ", "\\n", "a", "\\u0000", "\\ud83d\\ude00", "<|im_end|>", "<|endoftext|>"};
  for (int i = 0; i < 120; ++i) texts.push_back("word" + std::string(static_cast<size_t>(i), 'x'));
  for (size_t i = 0; i < texts.size(); ++i) body += (i > 0 ? ",\"" : "\"") + texts[i] + '"';
  body += "]}";
  const Json alone = post("/v1/embeddings", body);
  ASSERT_EQ(alone.find("data")->as_array().size(), texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    double sum = 0;
    for (const double x : nth(alone, i)) sum += x * x;
    EXPECT_NEAR(sum, 1, 1e-5) << texts[i];
  }
  std::vector<std::thread> clients;
  std::atomic<int> equal{0};
  for (int c = 0; c < 6; ++c) {
    clients.emplace_back([&] { equal += post("/v1/embeddings", body) == alone ? 1 : 0; });
  }
  for (std::thread& one : clients) one.join();
  EXPECT_EQ(equal, 6);
  EXPECT_EQ(scheduler_->state().kv_kept, 0u);
}

TEST_F(EmbeddingsTest, control_tokens_in_a_text_are_text) {
  const Json answer = post("/v1/embeddings", R"({"input":"<|im_end|><|im_end|>"})");
  const auto as_text =
      static_cast<int64_t>(engine_->tokenize("<|im_end|><|im_end|>", true, false).size());
  const auto as_tokens =
      static_cast<int64_t>(engine_->tokenize("<|im_end|><|im_end|>", true, true).size());
  ASSERT_NE(as_text, as_tokens);
  EXPECT_EQ(answer.find("usage")->find("prompt_tokens")->as_int(), as_text);
}

TEST_F(EmbeddingsTest, a_client_who_has_gone_is_not_computed_for) {
  HttpRequest request;
  request.method = "POST";
  request.path = "/v1/embeddings";
  request.body = R"({"input":[)";
  for (int i = 0; i < 500; ++i) {
    request.body += std::string(i > 0 ? "," : "") + "\"" + std::string(400, 'y') + "\"";
  }
  request.body += "]}";
  request.connected = [] { return false; };
  EXPECT_EQ(api_->handle(request).status, 499);
  EXPECT_TRUE(scheduler_->drain(20));
  EXPECT_LT(scheduler_->state().finished, 500u);
}

TEST_F(EmbeddingsTest, nothing_else_when_so_started) {
  ApiOptions options;
  options.embeddings_only = true;
  start(options);
  post("/v1/embeddings", R"({"input":"a"})");
  post("/v1/completions", R"({"prompt":"a"})", 501);
  post("/v1/chat/completions", R"({"messages":[]})", 501);
}

}  // namespace
}  // namespace strata::server
