// The web page's files and what they are served with; the address behind its picture of the memory.
#include "server/page.h"

#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <thread>

#include "base/json.h"
#include "server/api.h"
#include "support.h"

namespace strata::server {
namespace {

HttpRequest get(const std::string& path, std::multimap<std::string, std::string> headers = {}) {
  HttpRequest request;
  request.method = "GET";
  request.path = path;
  request.headers = std::move(headers);
  return request;
}

TEST(Page, is_small_and_whole) {
  size_t all = 0;
  std::set<std::string_view> tags;
  for (const PageFile& file : page_files()) {
    all += file.body.size();
    EXPECT_FALSE(file.body.empty()) << file.path;
    EXPECT_FALSE(file.type.empty()) << file.path;
    EXPECT_TRUE(tags.insert(file.tag).second) << file.path;
    EXPECT_TRUE(is_page(std::string(file.path)));
    // What the page asks for is there.
    for (size_t at = 0; (at = file.body.find("\"web/", at)) != std::string_view::npos; ++at) {
      const size_t end = file.body.find('"', at + 1);
      const std::string path = "/" + std::string(file.body.substr(at + 1, end - at - 1));
      EXPECT_TRUE(is_page(path)) << file.path << " asks for " << path;
    }
  }
  EXPECT_LT(all, 150u * 1024);
  EXPECT_TRUE(is_page("/"));
  EXPECT_TRUE(is_page("/index.html"));
  EXPECT_FALSE(is_page("/web/"));
  EXPECT_FALSE(is_page("/web/../web/app.js"));
  EXPECT_FALSE(is_page(""));
}

// Nothing that the policy would not let run, nothing from elsewhere, no way for text to become
// HTML.
TEST(Page, has_no_inline_scripts_and_no_html_from_strings) {
  for (const PageFile& file : page_files()) {
    for (const char* word :
         {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function",
          "srcdoc", " style=\"", " onclick=\"", "DOMParser", "createContextualFragment"}) {
      EXPECT_EQ(file.body.find(word), std::string_view::npos) << file.path << ": " << word;
    }
    for (const char* word : {"src=\"http", "href=\"http", "url(http", "from \"http", "@import"}) {
      EXPECT_EQ(file.body.find(word), std::string_view::npos) << file.path << ": " << word;
    }
    if (file.path != "/") continue;
    for (size_t at = 0; (at = file.body.find("<script", at)) != std::string_view::npos; ++at) {
      const std::string_view tag = file.body.substr(at, file.body.find("</script>", at) - at);
      EXPECT_NE(tag.find("src=\"web/"), std::string_view::npos) << tag;
      EXPECT_EQ(tag.back(), '>') << tag;
    }
  }
}

TEST(Page, headers_and_tags) {
  const HttpResponse whole = page(get("/"));
  EXPECT_EQ(whole.status, 200);
  EXPECT_EQ(whole.type, "text/html; charset=utf-8");
  const auto header = [](const HttpResponse& response, const char* name) {
    const auto found = response.headers.find(name);
    return found == response.headers.end() ? std::string() : found->second;
  };
  const std::string policy = header(whole, "Content-Security-Policy");
  for (const char* part :
       {"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'",
        "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"}) {
    EXPECT_NE(policy.find(part), std::string::npos) << part;
  }
  EXPECT_EQ(policy.find("unsafe"), std::string::npos);
  EXPECT_EQ(header(whole, "X-Content-Type-Options"), "nosniff");
  EXPECT_EQ(header(whole, "Referrer-Policy"), "no-referrer");
  EXPECT_EQ(header(whole, "Cache-Control"), "no-cache");
  const std::string tag = header(whole, "ETag");
  EXPECT_EQ(page(get("/", {{"if-none-match", "\"other\""}})).status, 200);
  for (const std::string& given : {tag, "W/" + tag, "\"a\", " + tag, std::string("*")}) {
    const HttpResponse same = page(get("/", {{"if-none-match", given}}));
    EXPECT_EQ(same.status, 304);
    EXPECT_TRUE(same.body.empty());
    EXPECT_EQ(header(same, "ETag"), tag);
  }
  EXPECT_EQ(page(get("/web/app.js")).type, "text/javascript; charset=utf-8");
  EXPECT_EQ(page(get("/web/base.css")).type, "text/css; charset=utf-8");
  EXPECT_EQ(page(get("/web/icon.svg")).type, "image/svg+xml");
}

class PageServer : public testing::Test {
 protected:
  void start(ApiOptions options) {
    EngineOptions engine;
    engine.model = std::string(STRATA_SOURCE_DIR) + "/models/demo-q8_0.gguf";
    engine.n_context = 512;
    engine.n_ubatch = 64;
    engine_ = Engine::open(engine);
    SchedulerOptions batching;
    batching.n_parallel = 3;
    scheduler_ = std::make_unique<Scheduler>(*engine_, batching);
    options.model_name = "demo";
    api_ = std::make_unique<Api>(*engine_, *scheduler_, options);
  }
  int status(const HttpRequest& request) { return api_->handle(request).status; }

  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<Api> api_;
};

TEST_F(PageServer, files_are_open_the_rest_is_not) {
  ApiOptions options;
  options.api_keys = {"secret"};
  start(options);
  for (const PageFile& file : page_files()) {
    EXPECT_EQ(status(get(std::string(file.path))), 200) << file.path;
    // By another machine's name nothing is given out.
    EXPECT_EQ(status(get(std::string(file.path), {{"host", "evil.example"}})), 403) << file.path;
  }
  HttpRequest head = get("/");
  head.method = "HEAD";
  EXPECT_EQ(status(head), 200);
  for (const char* path : {"/memory", "/props", "/slots", "/metrics", "/v1/models", "/models",
                           "/web", "/web/", "/web/none.js", "/nothing", "/index.html/"}) {
    EXPECT_EQ(status(get(path)), 401) << path;
  }
  HttpRequest post = get("/web/app.js");
  post.method = "POST";
  EXPECT_GE(status(post), 400);
  EXPECT_EQ(status(get("/memory", {{"authorization", "Bearer secret"}})), 200);
}

TEST_F(PageServer, can_be_left_out) {
  ApiOptions options;
  options.page = false;
  start(options);
  EXPECT_EQ(status(get("/")), 404);
  EXPECT_EQ(status(get("/web/app.js")), 404);
  EXPECT_EQ(status(get("/memory")), 200);
}

// The picture is of what the engine holds and the scheduler does.
TEST_F(PageServer, memory) {
  start({});
  const auto ask = [&] { return Json::parse(api_->handle(get("/memory")).body); };
  const Json before = ask();
  const MemoryUse held = engine_->memory()[0];
  const Json& device = before.find("devices")->as_array()[0];
  const Json& planned = *device.find("planned");
  const auto bytes = [&](const char* name) {
    return static_cast<uint64_t>(planned.find(name)->as_int());
  };
  EXPECT_EQ(bytes("weights"), held.weights);
  EXPECT_EQ(bytes("kv_cache"), held.kv_cache);
  EXPECT_EQ(bytes("activations") + bytes("boundary") + bytes("logits") + bytes("scratch"),
            held.compute);
  EXPECT_EQ(bytes("total"), held.total());
  EXPECT_GE(static_cast<uint64_t>(device.find("budget_bytes")->as_int()), held.total());
  EXPECT_EQ(device.find("name")->as_string(), held.device);
  EXPECT_EQ(device.find("layers")->find("attention")->as_array().size(), engine_->info().n_layers);
  EXPECT_EQ(before.find("requests")->find("parallel")->as_int(), 3);

  const auto kv = [](const Json& state, const char* name) {
    return state.find("kv")->find(name)->as_int();
  };
  EXPECT_EQ(kv(before, "blocks") * kv(before, "block_tokens"), 512);
  EXPECT_EQ(kv(before, "empty"), kv(before, "blocks"));
  HttpRequest wanted = get("/v1/completions");
  wanted.method = "POST";
  std::string prompt;
  for (int i = 0; i < 100; ++i) prompt += "dog ";
  wanted.body = "{\"prompt\":\"" + prompt + "\",\"max_tokens\":4,\"ignore_eos\":true}";
  ASSERT_EQ(status(wanted), 200);
  // The answer is out a moment before the scheduler has told of it.
  Json after = ask();
  for (int i = 0; i < 500 && after.find("requests")->find("running")->as_int() > 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    after = ask();
  }
  EXPECT_EQ(after.find("tokens")->find("generated")->as_int(), 4);
  EXPECT_EQ(after.find("requests")->find("finished")->as_int(), 1);
  EXPECT_EQ(kv(after, "used"), 0);
  EXPECT_GE(kv(after, "kept"), 3);  // of a hundred tokens, whole blocks of 32
  EXPECT_EQ(kv(after, "used") + kv(after, "kept") + kv(after, "empty"), kv(after, "blocks"));
  EXPECT_GT(after.find("devices")->as_array()[0].find("busy_seconds")->as_real(), 0);
}

// What a request that says nothing gets is what the page shows as the default.
TEST_F(PageServer, defaults_of_settings) {
  ApiOptions options;
  options.sampling.temperature = 0.25;
  options.sampling.top_k = 7;
  options.max_tokens = 99;
  start(options);
  const Json props = Json::parse(api_->handle(get("/props")).body);
  const Json& params = *props.find("default_generation_settings")->find("params");
  EXPECT_EQ(params.find("temperature")->as_real(), 0.25);
  EXPECT_EQ(params.find("top_k")->as_int(), 7);
  EXPECT_EQ(params.find("max_tokens")->as_int(), 99);
}

}  // namespace
}  // namespace strata::server
