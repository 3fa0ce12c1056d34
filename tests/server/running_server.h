// The demo model behind a real socket, within the test's process.
#pragma once

#include <gtest/gtest.h>
#include <httplib.h>

#include <memory>
#include <string>
#include <thread>

#include "base/json.h"
#include "engine/scheduler.h"
#include "server/api.h"
#include "server/http.h"
#include "strata/engine.h"
#include "support.h"

namespace strata::test {

inline std::unique_ptr<Engine> open_demo(uint64_t n_context = 2048) {
  EngineOptions options;
  options.model = source_path("models/demo-q8_0.gguf");
  options.n_context = n_context;
  options.n_ubatch = 64;
  return Engine::open(options);
}

struct RunningServer {
  explicit RunningServer(server::ApiOptions options = {},
                         SchedulerOptions batching = {4, 64, 64, true},
                         server::HttpOptions http = {}, std::unique_ptr<Engine> with = nullptr)
      : engine(with ? std::move(with) : open_demo()), scheduler(*engine, batching) {
    options.model_name = "demo";
    api = std::make_unique<server::Api>(*engine, scheduler, options);
    http.port = 0;
    api->hook_into(http);
    server = std::make_unique<server::HttpServer>(
        http, [this](const server::HttpRequest& r) { return api->handle(r); });
    port = server->bind();
    thread = std::thread([this] { server->serve(); });
  }
  ~RunningServer() {
    server->stop();
    scheduler.cancel_all();
    server->cut();
    thread.join();
  }
  httplib::Client client() const {
    httplib::Client out("127.0.0.1", port);
    out.set_read_timeout(120, 0);
    return out;
  }
  Json post(const std::string& path, const std::string& body, int status = 200) const {
    auto http = client();
    const auto answer = http.Post(path.c_str(), body, "application/json");
    EXPECT_TRUE(answer) << path;
    if (!answer) return {};
    EXPECT_EQ(answer->status, status) << path << ": " << answer->body;
    return Json::parse(answer->body);
  }
  bool is_idle() const {
    const SchedulerState state = scheduler.state();
    return state.running == 0 && state.waiting == 0;
  }
  // An answer is out a moment before its place is told to be free.
  bool becomes_idle() const {
    for (int i = 0; i < 500 && !is_idle(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return is_idle();
  }

  std::unique_ptr<Engine> engine;
  Scheduler scheduler;
  std::unique_ptr<server::Api> api;
  std::unique_ptr<server::HttpServer> server;
  uint16_t port = 0;
  std::thread thread;
};

}  // namespace strata::test
