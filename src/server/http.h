// HTTP, as far as the server needs it: a small interface over the library that speaks it.
//
// Purpose: routes, bodies, streamed answers, limits, TLS. What is behind it may change without
// anybody noticing.
// Limits: a body or a header larger than allowed, a client that is too slow, more connections than
// there are workers are dealt with here; a handler never sees them.
// Errors: a handler's strata::Error becomes its status and an error object (api.h); listening
// where one cannot is ErrorCode::io.
// Threads: handlers run on worker threads, several at once. stop() from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

namespace strata::server {

struct HttpOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8080;    // 0: any that is free
  uint32_t workers = 128;  // connections that are served at once
  uint64_t max_body_bytes = uint64_t{64} << 20;
  uint32_t read_seconds = 30;    // for a client to send, or to take, the next piece
  uint32_t idle_seconds = 5;     // that a connection is kept without a request
  std::string certificate, key;  // files; empty: no TLS
};

struct HttpRequest {
  std::string method, path, body, remote;
  std::multimap<std::string, std::string> headers;  // names in lower case
  // Whether the client is still there; one who has gone need not be answered.
  std::function<bool()> connected = [] { return true; };
  // Empty when absent.
  std::string header(const std::string& name) const;
};

// What goes out. A streamed answer is written by `stream`, which is called once, after the headers
// are out; it writes until it is done or `write` says that the client has gone.
struct HttpResponse {
  int status = 200;
  std::string type = "application/json";
  std::string body;
  std::multimap<std::string, std::string> headers;
  using Write = std::function<bool(const std::string& data)>;
  std::function<void(const Write& write, const std::function<bool()>& connected)> stream;
};

using HttpHandler = std::function<HttpResponse(const HttpRequest&)>;

class HttpServer {
 public:
  // Every request goes to the one handler.
  HttpServer(const HttpOptions& options, HttpHandler handler);
  ~HttpServer();
  // Binds; the port that it got.
  uint16_t bind();
  // Serves until stop().
  void serve();
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace strata::server
