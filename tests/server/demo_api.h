// The demo model behind the server's addresses, without a socket.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "engine/scheduler.h"
#include "server/api.h"
#include "strata/engine.h"
#include "support.h"

namespace strata::test {

class DemoApi : public testing::Test {
 protected:
  void start(const std::optional<std::string>& chat_template = {}) {
    api_.reset();
    scheduler_.reset();
    EngineOptions options;
    options.model = source_path("models/demo-q8_0.gguf");
    options.n_context = n_context_;
    options.chat_template = chat_template;
    engine_ = Engine::open(options);
    scheduler_ = std::make_unique<Scheduler>(*engine_, SchedulerOptions{n_parallel_, 64, 64, true});
    server::ApiOptions api;
    api.model_name = "demo";
    api_ = std::make_unique<server::Api>(*engine_, *scheduler_, api);
  }
  server::HttpResponse send(const std::string& path, const std::string& body) {
    server::HttpRequest request;
    request.method = "POST";
    request.path = path;
    request.body = body;
    request.headers.emplace("host", "localhost");
    return api_->handle(request);
  }

  uint64_t n_context_ = 4096;
  uint32_t n_parallel_ = 4;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<server::Api> api_;
};

}  // namespace strata::test
