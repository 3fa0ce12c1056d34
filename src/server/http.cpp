#include "server/http.h"

#include <httplib.h>

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "base/log.h"

namespace strata::server {
namespace {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

}  // namespace

std::string HttpRequest::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string() : found->second;
}

struct HttpServer::Impl {
  HttpOptions options;
  HttpHandler handler;
  std::unique_ptr<httplib::Server> server;

  void answer(const httplib::Request& in, httplib::Response& out) const {
    HttpRequest request;
    request.method = in.method;
    request.path = in.path;
    request.body = in.body;
    request.remote = in.remote_addr;
    for (const auto& [name, value] : in.headers) request.headers.emplace(lower(name), value);
    auto response = std::make_shared<HttpResponse>(handler(request));
    out.status = response->status;
    for (const auto& [name, value] : response->headers) out.set_header(name.c_str(), value);
    if (!response->stream) {
      out.set_content(response->body, response->type.c_str());
      return;
    }
    out.set_header("Cache-Control", "no-cache");
    out.set_header("X-Accel-Buffering", "no");
    out.set_chunked_content_provider(
        response->type.c_str(), [response](size_t, httplib::DataSink& sink) {
          const auto connected = [&] { return sink.is_writable(); };
          response->stream(
              [&](const std::string& data) {
                return sink.is_writable() && sink.write(data.data(), data.size());
              },
              connected);
          sink.done();
          return true;
        });
  }
};

HttpServer::HttpServer(const HttpOptions& options, HttpHandler handler)
    : impl_(std::make_unique<Impl>()) {
  impl_->options = options;
  impl_->handler = std::move(handler);
  if (options.certificate.empty() != options.key.empty()) {
    fail(ErrorCode::usage, "TLS needs both --ssl-cert-file and --ssl-key-file");
  }
  if (options.certificate.empty()) {
    impl_->server = std::make_unique<httplib::Server>();
  } else {
    impl_->server =
        std::make_unique<httplib::SSLServer>(options.certificate.c_str(), options.key.c_str());
    if (!impl_->server->is_valid()) {
      fail(ErrorCode::io, "TLS: '{}' and '{}' are not a certificate and its key",
           printable(options.certificate, 200), printable(options.key, 200));
    }
  }
  httplib::Server& server = *impl_->server;
  server.new_task_queue = [n = options.workers] { return new httplib::ThreadPool(n); };
  server.set_payload_max_length(options.max_body_bytes);
  server.set_read_timeout(options.read_seconds, 0);
  server.set_write_timeout(options.read_seconds, 0);
  server.set_keep_alive_timeout(options.idle_seconds);
  server.set_tcp_nodelay(true);
  const auto handle = [impl = impl_.get()](const httplib::Request& in, httplib::Response& out) {
    impl->answer(in, out);
  };
  server.Get(".*", handle);
  server.Post(".*", handle);
  server.Options(".*", handle);
  server.Delete(".*", handle);
  server.Put(".*", handle);
  server.set_error_handler([](const httplib::Request&, httplib::Response& out) {
    if (!out.body.empty()) return;
    const char* what = out.status == 413 ? "the body is larger than this server takes"
                                         : "the request is not one that can be read";
    out.set_content(fmt::format("{{\"error\":{{\"message\":\"{}\",\"type\":"
                                "\"invalid_request_error\",\"param\":null,\"code\":{}}}}}",
                                what, out.status),
                    "application/json");
  });
}

HttpServer::~HttpServer() = default;

uint16_t HttpServer::bind() {
  const HttpOptions& options = impl_->options;
  if (options.port == 0) {
    const int port = impl_->server->bind_to_any_port(options.host.c_str());
    if (port > 0) return static_cast<uint16_t>(port);
  } else if (impl_->server->bind_to_port(options.host.c_str(), options.port)) {
    return options.port;
  }
  fail(ErrorCode::io,
       "cannot listen on {}:{}; is the port taken, or the address not this machine's?",
       printable(options.host), options.port);
}

void HttpServer::serve() { impl_->server->listen_after_bind(); }

void HttpServer::stop() { impl_->server->stop(); }

}  // namespace strata::server
