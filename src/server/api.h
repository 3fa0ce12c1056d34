// The server's addresses: what a request means and what goes back.
//
// Purpose: OpenAI's chat and completions, llama-server's own addresses and field names, health,
// metrics, tokens. One scheduler behind all of them.
// Not for: sockets (http.h), batches (engine/scheduler.h).
// Errors: every answer that is no success holds {"error": {"message", "type", "param", "code"}}.
// Unknown fields are ignored and named in the log; a wrong type is 400 with the field named.
// Threads: handle() from many threads at once.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "engine/scheduler.h"
#include "server/http.h"
#include "server/metrics.h"
#include "strata/engine.h"

namespace strata::server {

struct Call;

struct ApiOptions {
  std::string model_name;  // as clients see it
  std::string model_path, build_info;
  std::vector<std::string> api_keys;  // empty: open to all
  bool loopback = true;               // other hosts' names are refused then
  std::vector<std::string> origins;   // allowed in browsers besides this machine's; "*": all
  bool metrics = true;
  bool slots = true;
  bool page = true;  // the web page at /
  bool json_log = false;
  SamplingOptions sampling;  // what a request does not say
  int64_t max_tokens = -1;
  std::optional<Pooling> pooling;        // of embeddings; absent: the model's own, else the last
  int32_t embd_normalize = k_euclidean;  // see strata/embedding.h
  bool embeddings_only = false;          // what generates text is refused
  // Of conversations, unless a request says otherwise.
  bool split_reasoning = true;
  Json template_variables = Json::object();
};

class Api {
 public:
  Api(Engine& engine, Scheduler& scheduler, ApiOptions options);
  HttpResponse handle(const HttpRequest& request);
  // HttpOptions' hooks: what is answered even when the server is full, whom it is not worth reading
  // a body of, and the access log.
  static bool is_vital(const HttpRequest& request);
  std::optional<HttpResponse> refusal(const HttpRequest& request) const;
  void log_access(const HttpRequest& request, const HttpSent& sent) const;
  void hook_into(HttpOptions& options);

 private:
  HttpResponse route(const HttpRequest& request);
  // Why the request may not pass, if so.
  std::optional<HttpResponse> guard(const HttpRequest& request) const;
  bool origin_allowed(const HttpRequest& request) const;
  void add_cors(const HttpRequest& request, HttpResponse& response) const;

  HttpResponse health() const;
  Json model_json() const;
  HttpResponse models() const;
  HttpResponse model(const std::string& name) const;
  HttpResponse props() const;
  Json default_settings() const;
  HttpResponse slots() const;
  HttpResponse metrics();
  HttpResponse memory() const;  // the plan, and how full it is
  HttpResponse tokenize(const HttpRequest& request) const;
  HttpResponse detokenize(const HttpRequest& request) const;
  HttpResponse apply_template(const HttpRequest& request) const;

  HttpResponse chat(const HttpRequest& request);
  HttpResponse completions(const HttpRequest& request);
  HttpResponse native(const HttpRequest& request);     // llama-server's form of completions
  HttpResponse messages(const HttpRequest& request);   // Anthropic's form
  HttpResponse responses(const HttpRequest& request);  // OpenAI's newer form
  HttpResponse embeddings(const HttpRequest& request);
  HttpResponse count_tokens(const HttpRequest& request) const;
  std::shared_ptr<Call> new_call(const HttpRequest& request, const char* id_prefix) const;
  // Number of the request's key, from 1; 0: none is asked for, or it is not one of them.
  uint32_t key_of(const HttpRequest& request) const;
  void finish(const HttpRequest& request, HttpResponse& response) const;

  Engine& engine_;
  Scheduler& scheduler_;
  ApiOptions options_;
  // Answers that a client left are noted down in it until they have ended.
  std::shared_ptr<Metrics> metrics_ = std::make_shared<Metrics>();
};

// The body as JSON; ErrorCode::bad_request when there is none.
Json parse_body(const HttpRequest& request);
// {"error": ...}; the status follows from the code, "param" from a FieldError.
HttpResponse error_response(const Error& error);
// `param`: the field that is wrong, where it is one.
HttpResponse error_response(int status, const std::string& type, const std::string& message,
                            const std::string& param = "");

}  // namespace strata::server
