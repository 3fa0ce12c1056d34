// strata serve: one model behind an HTTP address.
#include <csignal>
#include <cstring>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "engine/scheduler.h"
#include "server/api.h"
#include "server/http.h"
#include "strata/inputs.h"
#include "strata/open_engine.h"
#include "strata/verb.h"

namespace strata::app {
namespace {

// Answers that run when the server is told to stop have so long to come to their end.
constexpr double k_grace_seconds = 30;

std::atomic<int> g_signals{0};

void count_signal(int) { ++g_signals; }

std::vector<std::string> keys_of(const Options& options) {
  std::vector<std::string> keys;
  const auto add = [&](const std::string& text, char separator) {
    for (std::string word : split_words(text, separator)) {
      while (!word.empty() && std::isspace(static_cast<unsigned char>(word.back())) != 0) {
        word.pop_back();
      }
      if (!word.empty()) keys.push_back(std::move(word));
    }
  };
  for (const std::string& list : options.api_key) add(list, ',');
  if (options.api_key_file) {
    add(read_file(*options.api_key_file, 1 << 20), '\n');
    if (keys.empty()) {
      fail(ErrorCode::usage, "--api-key-file: '{}' holds no key", printable(*options.api_key_file));
    }
  }
  return keys;
}

}  // namespace

int serve_verb(const Options& options) {
  require_model(options);
  server::HttpOptions http;
  http.host = options.host;
  http.port = static_cast<uint16_t>(options.port);
  http.workers = static_cast<uint32_t>(options.threads_http);
  http.read_seconds = static_cast<uint32_t>(options.timeout);
  http.certificate = options.ssl_cert_file.value_or("");
  http.key = options.ssl_key_file.value_or("");

  SchedulerOptions batching;
  batching.n_parallel = static_cast<uint32_t>(options.n_sequences.value_or(4));
  batching.max_waiting = static_cast<uint32_t>(options.max_queue);
  batching.prefix_cache = options.cache_prompt;

  server::ApiOptions api_options;
  api_options.model_name =
      options.alias.value_or(std::filesystem::path(options.model).stem().string());
  api_options.api_keys = keys_of(options);
  api_options.loopback =
      options.host == "localhost" || options.host == "::1" || options.host.rfind("127.", 0) == 0;
  api_options.origins = options.cors_origin;
  api_options.metrics = options.metrics;
  api_options.slots = options.slots;
  api_options.json_log = options.log_format == "json";
  api_options.sampling = sampling_options(options);
  api_options.max_tokens = options.n_predict;

  const std::unique_ptr<Engine> engine = open_engine(options, std::nullopt, batching.n_parallel);
  Scheduler scheduler(*engine, batching);
  server::Api api(*engine, scheduler, api_options);
  server::HttpServer server(http, [&](const server::HttpRequest& r) { return api.handle(r); });
  const uint16_t port = server.bind();

  struct sigaction action = {};
  action.sa_handler = count_signal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);

  std::thread listener([&] { server.serve(); });
  const std::string address =
      options.host.find(':') == std::string::npos ? options.host : "[" + options.host + "]";
  log::info("listening on {}://{}:{}; {} sequences at once, context {}",
            http.certificate.empty() ? "http" : "https", address, port, batching.n_parallel,
            engine->info().n_context);
  if (!api_options.loopback && api_options.api_keys.empty()) {
    log::warning("anybody who can reach {} can use this server; --api-key asks for a key",
                 options.host);
  }
  while (g_signals == 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  log::info("stopping: no new requests; answers that run may end ({:.0f} s)", k_grace_seconds);
  server.stop();
  std::thread drained([&] {
    const auto until =
        std::chrono::steady_clock::now() + std::chrono::duration<double>(k_grace_seconds);
    while (!scheduler.drain(0.05) && g_signals < 2 && std::chrono::steady_clock::now() < until) {
    }
    scheduler.cancel_all();
  });
  drained.join();
  listener.join();
  return 0;
}

}  // namespace strata::app
