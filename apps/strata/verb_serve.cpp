// strata serve: one model behind an HTTP address.
#include <unistd.h>

#include <cctype>
#include <csignal>
#include <cstring>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/start_thread.h"
#include "base/temporaries.h"
#include "engine/chat.h"
#include "engine/scheduler.h"
#include "server/api.h"
#include "server/http.h"
#include "strata/inputs.h"
#include "strata/open_engine.h"
#include "strata/verb.h"

namespace strata::app {
namespace {

// Answers that are ended when the server stops are taken by their clients in so long, or cut off.
constexpr double k_cut_seconds = 2;

std::atomic<int> g_signals{0};
std::atomic<bool> g_loading{true};

// While the model loads nobody has been answered: there is nothing to bring to an end. Later the
// second one ends the program as if nothing handled it.
void count_signal(int signal) {
  if (!g_loading && ++g_signals <= 1) return;
  remove_temporaries();
  _exit(g_loading ? 0 : 128 + signal);
}

// Serves on a thread of its own. Ends it with what is open, whatever comes.
class Listening {
 public:
  explicit Listening(server::HttpServer& server) : server_(server) {
    thread_ = start_thread([this] {
      server_.serve();
      done_ = true;
    });
  }
  ~Listening() {
    server_.cut();
    thread_.join();
  }
  bool is_done() const { return done_; }

 private:
  server::HttpServer& server_;
  std::atomic<bool> done_{false};
  std::thread thread_;
};

std::vector<std::string> keys_of(const Options& options) {
  // No key begins or ends with it: a header's value cannot.
  static constexpr const char* k_space = " \t\r\n\v\f";
  std::vector<std::string> keys;
  const auto add = [&](const std::string& text, char separator) {
    for (const std::string& word : split_words(text, separator)) {
      const size_t first = word.find_first_not_of(k_space), last = word.find_last_not_of(k_space);
      if (first != std::string::npos) keys.push_back(word.substr(first, last - first + 1));
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

// As browsers send them: "https://a.example:8080", without a path.
std::vector<std::string> origins_of(const Options& options) {
  std::vector<std::string> out;
  for (std::string origin : options.cors_origin) {
    while (!origin.empty() && origin.back() == '/') origin.pop_back();
    const size_t scheme = origin.find("://");
    const bool whole = scheme != std::string::npos && scheme > 0 && scheme + 3 < origin.size() &&
                       origin.find_first_of("/ ,*", scheme + 3) == std::string::npos;
    if (!whole && origin != "*" && origin != "null") {
      fail(ErrorCode::usage,
           "--cors-origin: '{}' is not an origin; write it as https://example.com:8080, without a "
           "path, or * for all",
           printable(origin, 200));
    }
    out.push_back(std::move(origin));
  }
  return out;
}

}  // namespace

int serve_verb(const Options& options) {
  require_model(options);
  server::HttpOptions http;
  http.host = options.host;
  http.port = static_cast<uint16_t>(options.port);
  http.connections = static_cast<uint32_t>(options.max_connections);
  http.workers = static_cast<uint32_t>(options.threads_http.value_or(0));
  http.read_seconds = static_cast<uint32_t>(options.timeout);
  http.certificate = options.ssl_cert_file.value_or("");
  http.key = options.ssl_key_file.value_or("");

  SchedulerOptions batching;
  batching.n_parallel = static_cast<uint32_t>(options.n_sequences.value_or(4));
  batching.max_waiting = static_cast<uint32_t>(options.max_queue);
  batching.prefix_cache = options.cache_prompt;

  if (options.alias && options.alias->empty()) fail(ErrorCode::usage, "--alias: the name is empty");
  server::ApiOptions api_options;
  api_options.model_name =
      options.alias.value_or(std::filesystem::path(options.model).stem().string());
  api_options.model_path = options.model;
  api_options.build_info = "strata-" STRATA_VERSION;
  api_options.api_keys = keys_of(options);
  std::string host = options.host;
  std::transform(host.begin(), host.end(), host.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  api_options.loopback = host == "localhost" || host == "::1" || host.rfind("127.", 0) == 0;
  api_options.origins = origins_of(options);
  api_options.metrics = options.metrics;
  api_options.slots = options.slots;
  api_options.page = options.webui;
  api_options.json_log = options.log_format == "json";
  api_options.sampling = sampling_options(options);
  api_options.max_tokens = options.n_predict;
  api_options.split_reasoning = options.reasoning_format != "none";
  if (options.chat_template_kwargs) {
    try {
      api_options.template_variables = Json::parse(*options.chat_template_kwargs);
    } catch (const Error& error) {
      fail(ErrorCode::usage, "--chat-template-kwargs: {}", error.what());
    }
    if (!api_options.template_variables.is_object()) {
      fail(ErrorCode::usage, "--chat-template-kwargs: must be a JSON object, not {}",
           api_options.template_variables.type_name());
    }
    try {
      Chat::check_variables(api_options.template_variables);
    } catch (const Error& error) {
      fail(ErrorCode::usage, "--chat-template-kwargs: {}", error.what());
    }
  }
  if (options.pooling) api_options.pooling = parse_pooling(*options.pooling);
  api_options.embd_normalize = static_cast<int32_t>(options.embd_normalize);
  api_options.embeddings_only = options.embeddings_only;

  std::unique_ptr<Engine> engine;
  std::unique_ptr<Scheduler> scheduler;
  std::unique_ptr<server::Api> api;
  // Until the model is there, clients are told so.
  std::atomic<server::Api*> ready{nullptr};
  http.vital = &server::Api::is_vital;
  http.refuse = [&](const server::HttpRequest& request) {
    const server::Api* there = ready;
    return there != nullptr ? there->refusal(request) : std::nullopt;
  };
  http.sent = [&](const server::HttpRequest& request, const server::HttpSent& sent) {
    if (const server::Api* there = ready) there->log_access(request, sent);
  };
  server::HttpServer server(http, [&](const server::HttpRequest& request) {
    server::Api* there = ready;
    return there != nullptr ? there->handle(request) : server::http_error(503, "Loading model");
  });
  struct sigaction action = {};
  action.sa_handler = count_signal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  const uint16_t port = server.bind();
  const Listening listening(server);

  engine = open_engine(options, std::nullopt, batching.n_parallel);
  scheduler = std::make_unique<Scheduler>(*engine, batching);
  api = std::make_unique<server::Api>(*engine, *scheduler, api_options);

  g_loading = false;
  ready = api.get();
  const std::string address =
      options.host.find(':') == std::string::npos ? options.host : "[" + options.host + "]";
  log::info("listening on {}://{}:{}; {} sequences at once, each of up to {} tokens, {} in all",
            http.certificate.empty() ? "http" : "https", address, port, batching.n_parallel,
            engine->info().n_context, engine->info().n_cache);
  if (!api_options.loopback && api_options.api_keys.empty()) {
    log::warning("anybody who can reach {} can use this server; --api-key asks for a key",
                 options.host);
  }
  while (g_signals == 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  log::info("stopping: no new requests; answers that run may end ({} s)", options.shutdown_timeout);
  server.stop();
  const auto now = [] { return std::chrono::steady_clock::now(); };
  const auto seconds = [](double n) {
    return std::chrono::duration_cast<std::chrono::steady_clock::duration>(
        std::chrono::duration<double>(n));
  };
  const auto end = now() + seconds(static_cast<double>(options.shutdown_timeout));
  while (!scheduler->drain(0.05) && now() < end) {
  }
  scheduler->cancel_all();
  const auto cut = now() + seconds(k_cut_seconds);
  while (!listening.is_done() && now() < cut) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return 0;
}

}  // namespace strata::app
