#include "server/client.h"

#include <httplib.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "base/error.h"
#include "base/start_thread.h"

namespace strata::server {
namespace {

constexpr size_t k_max_error_bytes = size_t{64} << 10;
constexpr size_t k_max_line_bytes = size_t{16} << 20;

struct Address {
  std::string origin;  // "http://host:port"
  std::string path;    // before "/chat/completions"
};

Address address_of(const std::string& url) {
  const size_t scheme = url.find("://");
  const std::string name = scheme == std::string::npos ? "" : url.substr(0, scheme);
  const auto refuse = [&] {
    fail(ErrorCode::usage,
         "--url: '{}' is not the address of a server; write http://HOST:PORT or https://HOST",
         printable(url, 200));
  };
  if (name != "http" && name != "https") refuse();
  const size_t slash = url.find('/', scheme + 3);
  Address out;
  out.origin = url.substr(0, slash);
  if (out.origin.size() <= scheme + 3) refuse();
  out.path = slash == std::string::npos ? "" : url.substr(slash);
  if (out.path.find_first_of("?# \r\n") != std::string::npos) refuse();
  while (!out.path.empty() && out.path.back() == '/') out.path.pop_back();
  if (!out.path.ends_with("/v1")) out.path += "/v1";
  return out;
}

// What a server says of a request that it does not take.
[[noreturn]] void refused(int status, const std::string& body) {
  std::string words, type;
  try {
    const Json json = Json::parse(body);
    const Json* error = json.find("error");
    const Json* message = error == nullptr ? nullptr : error->find("message");
    const Json* kind = error == nullptr ? nullptr : error->find("type");
    if (message != nullptr && message->is_string()) words = message->as_string();
    if (kind != nullptr && kind->is_string()) type = kind->as_string();
  } catch (const Error&) {
    // Not JSON: a proxy's page, perhaps.
  }
  if (words.empty()) words = fmt::format("the server answered with status {}", status);
  ErrorCode code = status >= 500 ? ErrorCode::internal : ErrorCode::bad_request;
  if (status == 429 || status == 503) code = ErrorCode::busy;
  if (type == "exceed_context_size_error") code = ErrorCode::does_not_fit;
  if (status == 401 || status == 403) words += "; --api-key KEY gives a key";
  fail(code, "{}", printable(words, 1000));
}

const Json* at(const Json* json, const char* key) {
  return json == nullptr || !json->is_object() ? nullptr : json->find(key);
}

uint64_t count(const Json* json, const char* key) {
  const Json* value = at(json, key);
  return value != nullptr && value->is_int() && value->as_int() > 0
             ? static_cast<uint64_t>(value->as_int())
             : 0;
}

double milliseconds(const Json* json, const char* key) {
  const Json* value = at(json, key);
  return value != nullptr && value->is_number() ? value->as_real() / 1e3 : 0;
}

}  // namespace

std::vector<std::string> EventReader::push(std::string_view bytes) {
  std::vector<std::string> out;
  for (const char c : bytes) {
    if (c != '\n') {
      if (line_.size() >= k_max_line_bytes) {
        fail(ErrorCode::io, "the server sends a line that does not end");
      }
      line_ += c;
      continue;
    }
    if (!line_.empty() && line_.back() == '\r') line_.pop_back();
    if (line_.empty()) {
      if (!data_.empty()) out.push_back(std::move(data_));
      data_.clear();
    } else if (line_.rfind("data:", 0) == 0) {
      if (!data_.empty()) data_ += '\n';
      data_ += line_.substr(line_.size() > 5 && line_[5] == ' ' ? 6 : 5);
    }
    line_.clear();
  }
  return out;
}

struct ChatClient::Impl {
  ClientOptions options;
  Address address;
  httplib::Client http;
  std::string model;

  explicit Impl(const ClientOptions& given)
      : options(given), address(address_of(given.url)), http(address.origin) {
    if (!http.is_valid()) {
      fail(ErrorCode::usage, "--url: '{}' is not the address of a server",
           printable(given.url, 200));
    }
    http.set_connection_timeout(options.seconds, 0);
    // A long prompt may be read for minutes before the first word; Ctrl-C ends the wait.
    http.set_read_timeout(24 * 3600, 0);
    http.set_tcp_nodelay(true);
  }

  httplib::Headers headers() const {
    httplib::Headers out;
    if (!options.api_key.empty()) out.emplace("Authorization", "Bearer " + options.api_key);
    return out;
  }

  [[noreturn]] void unreachable(httplib::Error error) const {
    fail(ErrorCode::io, "cannot talk to {}: {}", printable(address.origin, 200), why(error));
  }
  std::string why(httplib::Error error) const {
    switch (error) {
      case httplib::Error::Connection:
        return "no connection; is a server running there?";
      case httplib::Error::ConnectionTimeout:
        return fmt::format("no answer within {} s; is a server running there?", options.seconds);
      case httplib::Error::Read:
      case httplib::Error::Write:
        return "the connection ended before the answer; does the server speak HTTP, and is it http "
               "or https?";
      case httplib::Error::SSLConnection:
        return "no TLS connection; does the server speak https?";
      case httplib::Error::SSLServerVerification:
        return "its certificate is not one that this machine trusts (the variable SSL_CERT_FILE "
               "names others)";
      default:
        return httplib::to_string(error);
    }
  }
};

ChatClient::ChatClient(const ClientOptions& options) : impl_(std::make_unique<Impl>(options)) {}
ChatClient::~ChatClient() = default;

std::string ChatClient::model() {
  const auto answer = impl_->http.Get((impl_->address.path + "/models").c_str(), impl_->headers());
  if (!answer) impl_->unreachable(answer.error());
  if (answer->status != 200) refused(answer->status, answer->body.substr(0, k_max_error_bytes));
  const Json body = Json::parse(answer->body);
  const Json* list = at(&body, "data");
  const Json* id = list != nullptr && list->is_array() && !list->as_array().empty()
                       ? at(&list->as_array()[0], "id")
                       : nullptr;
  if (id == nullptr || !id->is_string()) {
    fail(ErrorCode::io, "{} answers, but tells of no model; is it a server of OpenAI's protocol?",
         printable(impl_->address.origin, 200));
  }
  impl_->model = id->as_string();
  return impl_->model;
}

ChatClient::Answer ChatClient::chat(const std::vector<ChatMessage>& messages, const Json& fields,
                                    const Sinks& sinks) {
  if (impl_->model.empty()) model();
  Json body = fields;
  Json list = Json::array();
  for (const ChatMessage& message : messages) {
    list.push(Json::object({{"role", message.role}, {"content", message.content}}));
  }
  body.set("model", impl_->model);
  body.set("messages", std::move(list));
  body.set("stream", true);
  body.set("stream_options", Json::object({{"include_usage", true}}));

  Answer out;
  out.result.reason = StopReason::end_of_generation;
  EventReader events;
  std::string error_body;
  std::optional<Error> failed;
  bool finished = false, done = false;
  int status = 0;

  const auto take = [&](const std::string& data) {
    if (data == "[DONE]") {
      done = true;
      return;
    }
    const Json event = Json::parse(data);
    if (event.find("error") != nullptr) refused(500, data);
    if (const Json* usage = at(&event, "usage"); usage != nullptr && usage->is_object()) {
      out.tokens = count(usage, "completion_tokens");
      out.result.prompt_tokens = static_cast<uint32_t>(count(usage, "prompt_tokens"));
      out.result.cached_tokens =
          static_cast<uint32_t>(count(at(usage, "prompt_tokens_details"), "cached_tokens"));
    }
    if (const Json* timings = at(&event, "timings"); timings != nullptr && timings->is_object()) {
      out.result.prompt_seconds = milliseconds(timings, "prompt_ms");
      out.result.generate_seconds = milliseconds(timings, "predicted_ms");
    }
    const Json* choices = at(&event, "choices");
    if (choices == nullptr || !choices->is_array() || choices->as_array().empty()) return;
    const Json& choice = choices->as_array()[0];
    const Json* delta = at(&choice, "delta");
    for (const char* name : {"reasoning_content", "reasoning"}) {
      const Json* text = at(delta, name);
      if (text == nullptr || !text->is_string()) continue;
      if (sinks.reasoning) sinks.reasoning(text->as_string());
      break;
    }
    if (const Json* text = at(delta, "content"); text != nullptr && text->is_string()) {
      out.result.text += text->as_string();
      if (sinks.content) sinks.content(text->as_string());
    }
    if (const Json* reason = at(&choice, "finish_reason");
        reason != nullptr && reason->is_string()) {
      finished = true;
      if (reason->as_string() == "length") out.result.reason = StopReason::length;
    }
  };

  httplib::Request request;
  request.method = "POST";
  request.path = impl_->address.path + "/chat/completions";
  request.headers = impl_->headers();
  request.headers.emplace("Content-Type", "application/json");
  request.headers.emplace("Accept", "text/event-stream");
  request.body = body.dump();
  request.response_handler = [&](const httplib::Response& response) {
    status = response.status;
    return true;
  };
  request.content_receiver = [&](const char* bytes, size_t n, uint64_t, uint64_t) {
    if (sinks.cancelled && sinks.cancelled()) return false;
    if (status != 200) {
      error_body.append(bytes, std::min(n, k_max_error_bytes - error_body.size()));
      return true;
    }
    try {
      for (const std::string& data : events.push({bytes, n})) take(data);
    } catch (const Error& error) {
      failed = error;
      return false;
    }
    return true;
  };

  // The wait for the next word must end when the user says so.
  std::atomic<bool> over{false}, stopped{false};
  std::thread watch = start_thread([&] {
    while (!over) {
      if (sinks.cancelled && sinks.cancelled()) {
        stopped = true;
        impl_->http.stop();
        return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  });
  httplib::Response response;
  httplib::Error error = httplib::Error::Success;
  const bool sent = impl_->http.send(request, response, error);
  over = true;
  watch.join();

  if (stopped || (sinks.cancelled && sinks.cancelled())) {
    out.result.reason = StopReason::cancelled;
    return out;
  }
  if (failed) throw *failed;
  if (sent && status != 200) refused(status, error_body);
  if (!sent && status == 0) impl_->unreachable(error);
  if (!finished && !done) {
    fail(ErrorCode::io, "{} ended the connection in mid-answer", printable(impl_->address.origin));
  }
  return out;
}

}  // namespace strata::server
