#include "server/api.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cctype>
#include <ctime>
#include <iterator>

#include "base/error.h"
#include "base/field_error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/stopping_error.h"
#include "base/utf8.h"
#include "server/call.h"
#include "server/fields.h"
#include "server/page.h"
#include "server/request.h"

namespace strata::server {
namespace {

const double k_started = seconds_now();

// The same time for equal and for different keys of one length.
bool same_key(const std::string& a, const std::string& b) {
  unsigned char difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < b.size(); ++i) {
    difference |= static_cast<unsigned char>(a[a.empty() ? 0 : i % a.size()] ^ b[i]);
  }
  return difference == 0;
}

std::string lower(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

std::string bearer(const HttpRequest& request) {
  const std::string header = request.header("authorization");
  const std::string scheme = "bearer ";
  if (lower(header.substr(0, scheme.size())) == scheme) {
    return header.substr(std::min(header.find_first_not_of(' ', scheme.size()), header.size()));
  }
  return request.header("x-api-key");
}

// What pages may send without being asked about it: clients of OpenAI's and Anthropic's.
constexpr const char* k_allowed_headers =
    "authorization, content-type, x-api-key, x-request-id, anthropic-version, anthropic-beta, "
    "anthropic-dangerous-direct-browser-access, openai-organization, openai-project";

// The names that a preflight asks for, when they can be allowed as they are; else those above.
std::string headers_to_allow(const HttpRequest& request) {
  constexpr size_t k_most = 2048;
  const std::string asked = request.header("access-control-request-headers");
  const bool plain = !asked.empty() && asked.size() <= k_most &&
                     std::all_of(asked.begin(), asked.end(), [](unsigned char c) {
                       return std::isalnum(c) != 0 || c == '-' || c == '_' || c == ',' || c == ' ';
                     });
  return plain ? asked : k_allowed_headers;
}

// "localhost", "127.0.0.1" from "Localhost:8080", "[::1]:8080". Empty: not of this form.
std::string host_of(const std::string& header) {
  const size_t bracket = header.rfind('[', 0) == 0 ? header.find(']') : 0;
  if (bracket == std::string::npos) return "";
  const size_t colon = std::min(header.find(':', bracket), header.size());
  if (!std::all_of(header.begin() + static_cast<std::ptrdiff_t>(std::min(colon + 1, header.size())),
                   header.end(), [](char c) { return c >= '0' && c <= '9'; })) {
    return "";
  }
  return lower(header.substr(0, colon));
}

// An address of this machine's own, not a name that begins like one.
bool is_local(const std::string& host) {
  in_addr address{};
  return host == "localhost" || host == "[::1]" ||
         (host.rfind("127.", 0) == 0 && inet_pton(AF_INET, host.c_str(), &address) == 1);
}

HttpResponse json_response(const Json& json) {
  HttpResponse out;
  out.body = json.dump();
  return out;
}

// Anthropic's clients expect {"type": "error", "error": {"type", "message"}}.
void wrap_error(HttpResponse& response) {
  const Json body = Json::parse(response.body);
  const Json* error = body.find("error");
  if (error == nullptr) return;
  std::string type = error->find("type")->as_string();
  if (response.status == 429) type = "rate_limit_error";
  if (response.status >= 500) type = "api_error";
  if (type == "exceed_context_size_error") type = "invalid_request_error";
  response.body =
      Json::object(
          {{"type", "error"},
           {"error", Json::object({{"type", type}, {"message", *error->find("message")}})}})
          .dump();
}

}  // namespace

Json parse_body(const HttpRequest& request) {
  if (request.body.empty()) fail(ErrorCode::bad_request, "the request has no body; send JSON");
  return Json::parse(request.body, 100);
}

HttpResponse error_response(int status, const std::string& type, const std::string& message,
                            const std::string& param) {
  HttpResponse out;
  out.status = status;
  out.body = Json::object({{"error", Json::object({{"message", message},
                                                   {"type", type},
                                                   {"param", param.empty() ? Json() : Json(param)},
                                                   {"code", status}})}})
                 .dump();
  return out;
}

HttpResponse error_response(const Error& error) {
  const auto* of_field = dynamic_cast<const FieldError*>(&error);
  const std::string field = of_field == nullptr ? "" : of_field->field();
  switch (error.code()) {
    case ErrorCode::usage:
    case ErrorCode::bad_request:
      return error_response(400, "invalid_request_error", error.what(), field);
    case ErrorCode::does_not_fit: {
      HttpResponse out = error_response(400, "exceed_context_size_error", error.what(), field);
      // llama-server's clients read how much too long it is.
      if (const auto* context = dynamic_cast<const ContextError*>(&error)) {
        Json body = Json::parse(out.body);
        Json inner = *body.find("error");
        inner.set("n_prompt_tokens", context->n_prompt_tokens());
        inner.set("n_ctx", context->n_context());
        body.set("error", std::move(inner));
        out.body = body.dump();
      }
      return out;
    }
    case ErrorCode::unsupported:
      return error_response(501, "not_supported_error", error.what());
    case ErrorCode::cancelled:
      return error_response(499, "client_closed_request", error.what());
    case ErrorCode::busy: {
      const bool stopping = dynamic_cast<const StoppingError*>(&error) != nullptr;
      HttpResponse out = error_response(stopping ? 503 : 429, "unavailable_error", error.what());
      out.headers.emplace("Retry-After", "1");
      return out;
    }
    default:
      return error_response(500, "server_error", error.what());
  }
}

Api::Api(Engine& engine, Scheduler& scheduler, ApiOptions options)
    : engine_(engine), scheduler_(scheduler), options_(std::move(options)) {}

std::shared_ptr<Call> Api::new_call(const HttpRequest& request, const char* id_prefix) const {
  auto call = std::make_shared<Call>();
  call->arrived = seconds_now();
  call->created = static_cast<int64_t>(std::time(nullptr));
  call->id = random_id(id_prefix);
  call->cache_scope = key_of(request);
  call->model = options_.model_name;
  return call;
}

bool Api::origin_allowed(const HttpRequest& request) const {
  const std::string origin = lower(request.header("origin"));
  if (origin.empty()) return true;  // no page asks
  for (const std::string& one : options_.origins) {
    if (one == "*" || lower(one) == origin) return true;
  }
  const size_t scheme = origin.find("://");
  if (scheme == std::string::npos) return false;
  // This machine's pages, and the server's own under whatever name it was reached.
  const std::string place = origin.substr(scheme + 3);
  return is_local(host_of(place)) || place == lower(request.header("host"));
}

void Api::add_cors(const HttpRequest& request, HttpResponse& response) const {
  const std::string origin = request.header("origin");
  if (origin.empty() || !origin_allowed(request)) return;
  response.headers.emplace("Access-Control-Allow-Origin", origin);
  response.headers.emplace("Vary", "Origin");
  response.headers.emplace("Access-Control-Expose-Headers", "X-Request-Id, Retry-After");
  if (request.method != "OPTIONS") return;
  response.headers.emplace("Access-Control-Allow-Methods", "GET, POST, OPTIONS");
  response.headers.emplace("Access-Control-Allow-Headers", headers_to_allow(request));
  response.headers.emplace("Vary", "Access-Control-Request-Headers");
  response.headers.emplace("Access-Control-Max-Age", "600");
}

uint32_t Api::key_of(const HttpRequest& request) const {
  const std::string key = bearer(request);
  uint32_t number = 0;
  for (uint32_t i = 0; i < options_.api_keys.size(); ++i) {
    if (same_key(key, options_.api_keys[i])) number = i + 1;
  }
  return number;
}

std::optional<HttpResponse> Api::guard(const HttpRequest& request) const {
  // A page that a browser was lured to must not reach a server on this machine by another name.
  const std::string host = request.header("host");
  if (options_.loopback && !host.empty() && !is_local(host_of(host))) {
    return error_response(403, "permission_error",
                          "this server answers to localhost only; --host opens it to others");
  }
  // A browser would hide the answer from the page, but it would be made.
  if (!origin_allowed(request)) {
    return error_response(403, "permission_error",
                          "pages of other origins may not ask; --cors-origin allows one");
  }
  // The page's files hold nothing of anybody; what it asks for is behind the key.
  const bool open = is_vital(request) || (options_.page && is_page(request.path));
  if (!options_.api_keys.empty() && !open && key_of(request) == 0) {
    HttpResponse out =
        error_response(401, "authentication_error", "the API key is missing or wrong");
    out.headers.emplace("WWW-Authenticate", "Bearer");
    return out;
  }
  return std::nullopt;
}

bool Api::is_vital(const HttpRequest& request) {
  return request.path == "/health" || request.path == "/v1/health";
}

std::optional<HttpResponse> Api::refusal(const HttpRequest& request) const {
  if (request.method == "OPTIONS") return std::nullopt;
  std::optional<HttpResponse> out = guard(request);
  if (out) finish(request, *out);
  return out;
}

void Api::hook_into(HttpOptions& options) {
  options.vital = &Api::is_vital;
  options.refuse = [this](const HttpRequest& request) { return refusal(request); };
  options.sent = [this](const HttpRequest& r, const HttpSent& sent) { log_access(r, sent); };
}

HttpResponse Api::handle(const HttpRequest& request) {
  HttpResponse response;
  try {
    if (request.method == "OPTIONS") {
      response.status = 204;
    } else if (std::optional<HttpResponse> refused = guard(request)) {
      response = std::move(*refused);
    } else {
      response = route(request);
    }
  } catch (const Error& error) {
    response = error_response(error);
  } catch (const std::exception& error) {
    response = error_response(500, "server_error", error.what());
  }
  finish(request, response);
  return response;
}

void Api::finish(const HttpRequest& request, HttpResponse& response) const {
  if (response.status >= 400 && request.path.find("/messages") != std::string::npos) {
    wrap_error(response);
  }
  add_cors(request, response);
}

void Api::log_access(const HttpRequest& request, const HttpSent& sent) const {
  if (options_.json_log) {
    log::info("{}", Json::object({{"method", printable(request.method)},
                                  {"path", printable(request.path, 200)},
                                  {"time", std::time(nullptr)},  // of its end
                                  {"status", sent.status},
                                  {"remote", request.remote},
                                  {"request_id", request.id},
                                  {"seconds", sent.seconds},
                                  {"bytes", sent.bytes},
                                  {"streamed", sent.streamed},
                                  {"complete", sent.complete}})
                        .dump());
  } else {
    log::debug("{} {} {} {} {:.3f} s, {} bytes{} {}", request.remote, printable(request.method),
               printable(request.path, 200), sent.status, sent.seconds, sent.bytes,
               sent.complete ? "" : ", not to the end", request.id);
  }
}

HttpResponse Api::route(const HttpRequest& request) {
  struct Route {
    const char* method;
    const char* path;
    std::function<HttpResponse()> answer;
  };
  if (options_.page && is_page(request.path) &&
      (request.method == "GET" || request.method == "HEAD")) {
    return page(request);
  }
  std::string path = request.path;
  if (path.size() > 1 && path.back() == '/') path.pop_back();
  // llama-server's clients leave the version out; these two it answers in its own form.
  if (path == "/completions") path = "/completion";
  if (path.rfind("/v1/", 0) == 0) path = path.substr(3);
  const Route routes[] = {
      {"GET", "/health", [&] { return health(); }},
      {"GET", "/models", [&] { return models(); }},
      {"GET", "/props", [&] { return props(); }},
      {"GET", "/slots", [&] { return slots(); }},
      {"GET", "/metrics", [&] { return metrics(); }},
      {"GET", "/memory", [&] { return memory(); }},
      {"POST", "/tokenize", [&] { return tokenize(request); }},
      {"POST", "/detokenize", [&] { return detokenize(request); }},
      {"POST", "/apply-template", [&] { return apply_template(request); }},
      {"POST", "/chat/completions", [&] { return chat(request); }},
      {"POST", "/completion", [&] { return native(request); }},
      {"POST", "/completions", [&] { return completions(request); }},
      {"POST", "/messages", [&] { return messages(request); }},
      {"POST", "/responses", [&] { return responses(request); }},
      {"POST", "/embedding", [&] { return embeddings(request); }},
      {"POST", "/embeddings", [&] { return embeddings(request); }},
      {"POST", "/messages/count_tokens", [&] { return count_tokens(request); }},
  };
  if (request.method == "GET" && path.rfind("/models/", 0) == 0) return model(path.substr(8));
  bool other_method = false;
  const std::string method = request.method == "HEAD" ? "GET" : request.method;
  const char* const generating[] = {"/chat/completions", "/completion", "/completions", "/messages",
                                    "/responses"};
  if (options_.embeddings_only &&
      std::find(std::begin(generating), std::end(generating), path) != std::end(generating)) {
    return error_response(501, "not_supported_error",
                          "this server was started with --embeddings: it generates no text");
  }
  for (const Route& one : routes) {
    if (path != one.path) continue;
    if (method == one.method) return one.answer();
    other_method = true;
  }
  if (other_method) {
    return error_response(405, "invalid_request_error",
                          fmt::format("{} does not take {}", request.path, request.method));
  }
  return error_response(404, "not_found_error",
                        fmt::format("there is nothing at {}", printable(request.path, 200)));
}

HttpResponse Api::health() const { return json_response(Json::object({{"status", "ok"}})); }

Json Api::model_json() const {
  const ModelInfo& info = engine_.info();
  return Json::object({{"id", options_.model_name},
                       {"object", "model"},
                       {"created", int64_t{0}},
                       {"owned_by", "strata"},
                       {"meta", Json::object({{"n_vocab", info.n_vocab},
                                              {"n_ctx_train", info.n_context_trained},
                                              {"n_embd", info.n_embd},
                                              {"n_params", info.parameters}})}});
}

HttpResponse Api::models() const {
  return json_response(
      Json::object({{"object", "list"}, {"data", Json(Json::Array{model_json()})}}));
}

HttpResponse Api::model(const std::string& name) const {
  if (name == options_.model_name) return json_response(model_json());
  return error_response(404, "not_found_error",
                        fmt::format("there is no model '{}' here; there is '{}'",
                                    printable(name, 200), printable(options_.model_name, 200)));
}

HttpResponse Api::props() const {
  const ModelInfo& info = engine_.info();
  return json_response(
      Json::object({{"model_alias", options_.model_name},
                    {"model_family", info.family},
                    {"n_ctx", info.n_context},
                    {"pipeline", info.pipeline},
                    {"total_slots", scheduler_.state().parallel},
                    {"default_generation_settings", default_settings()},
                    {"model_path", options_.model_path},
                    {"build_info", options_.build_info},
                    {"modalities", Json::object({{"vision", false}, {"audio", false}})},
                    {"chat_template", engine_.chat_template()}}));
}

// What a request that says nothing gets, under llama-server's names.
Json Api::default_settings() const {
  return Json::object({{"n_ctx", engine_.info().n_context},
                       {"params", sampling_json(options_.sampling, options_.max_tokens)}});
}

HttpResponse Api::slots() const {
  if (!options_.slots) {
    return error_response(501, "not_supported_error", "this server was started with --no-slots");
  }
  // llama-server's shape, without what others ask and get.
  const SchedulerState s = scheduler_.state();
  const size_t n = std::max<size_t>(s.parallel, s.slots.size());
  Json list = Json::array();
  for (size_t i = 0; i < n; ++i) {
    const bool busy = i < s.slots.size();
    const SlotState slot = busy ? s.slots[i] : SlotState{};
    const auto decoded = static_cast<int64_t>(slot.generated);
    const int64_t remain = slot.max_tokens < 0 ? -1 : slot.max_tokens - decoded;
    list.push(Json::object(
        {{"id", static_cast<uint64_t>(i)},
         {"id_task", busy ? static_cast<int64_t>(slot.request) : int64_t{-1}},
         {"n_ctx", engine_.info().n_context},
         {"speculative", false},
         {"is_processing", busy},
         {"n_prompt_tokens", slot.prompt_tokens},
         {"n_prompt_tokens_processed", slot.prompt_read},
         {"n_prompt_tokens_cache", slot.cached_tokens},
         {"params", Json::object({{"n_predict", slot.max_tokens}})},
         {"next_token",
          Json(Json::Array{Json::object(
              {{"has_next_token", busy}, {"n_remain", remain}, {"n_decoded", decoded}})})}}));
  }
  return json_response(list);
}

HttpResponse Api::metrics() {
  if (!options_.metrics) {
    return error_response(501, "not_supported_error", "start the server with --metrics");
  }
  HttpResponse out;
  out.type = "text/plain; version=0.0.4";
  out.body = metrics_->text(options_.model_name, scheduler_.state(), engine_.memory(),
                           seconds_now() - k_started);
  return out;
}

HttpResponse Api::tokenize(const HttpRequest& request) const {
  const Json body = parse_body(request);
  Fields fields(body);
  const std::string content = fields.string("content").value_or("");
  const auto tokens = engine_.tokenize(content, fields.boolean("add_special").value_or(false),
                                       fields.boolean("parse_special").value_or(true));
  const bool pieces = fields.boolean("with_pieces").value_or(false);
  // Millions of tokens may come of a body: they become text one by one.
  HttpResponse out;
  out.body = "{\"tokens\":[";
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0) out.body += ',';
    if (!pieces) {
      out.body += std::to_string(tokens[i]);
      continue;
    }
    const std::string piece = engine_.detokenize({&tokens[i], 1}, true);
    out.body += "{\"id\":" + std::to_string(tokens[i]) + ",\"piece\":";
    if (is_valid_utf8(piece)) {
      out.body += Json(piece).dump();
    } else {
      // A part of a character: its bytes, as llama-server has it.
      Json bytes = Json::array();
      for (const char c : piece) bytes.push(static_cast<int64_t>(static_cast<unsigned char>(c)));
      out.body += bytes.dump();
    }
    out.body += '}';
  }
  out.body += "]}";
  return out;
}

HttpResponse Api::detokenize(const HttpRequest& request) const {
  const Json body = parse_body(request);
  Fields fields(body);
  const Json* list = fields.list("tokens");
  if (list == nullptr) fields.refuse("tokens", "is missing: a list of token ids");
  std::vector<TokenId> tokens;
  const auto n = static_cast<int64_t>(engine_.info().n_tokens);
  for (const Json& one : list->as_array()) {
    if (!one.is_int() || one.as_int() < 0 || one.as_int() >= n) {
      fields.refuse("tokens", fmt::format("must hold ids from 0 to {}", n - 1));
    }
    tokens.push_back(static_cast<TokenId>(one.as_int()));
  }
  return json_response(Json::object({{"content", engine_.detokenize(tokens, true)}}));
}

}  // namespace strata::server
