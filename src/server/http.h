// HTTP, as far as the server needs it: a small interface over what speaks it.
//
// Purpose: requests in, answers and streams out, limits, TLS. What is behind it may change without
// anybody noticing.
// How: one thread waits for all connections at once (epoll) and reads requests; only a request that
// is complete takes a worker, whose thread then runs the handler and writes. Idle connections and
// slow clients therefore cost a few hundred bytes and no thread, however many there are. It is ours
// because the library that is packaged (cpp-httplib 0.11) has a thread for every connection and no
// bound on the time for a head or a body, on chunked bodies or on what compressed ones become, and
// cannot tell a handler that its client has left.
// Limits: a head or a body that is too large or too slow, more connections than allowed are dealt
// with here; a handler never sees them. See HttpOptions.
// Errors: what cannot be served gets a status and an error object (api.h); listening where one
// cannot is ErrorCode::io.
// Threads: handlers and hooks run on several threads at once. stop() and cut() from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace strata::server {

struct HttpRequest {
  std::string method, path, body, remote;
  std::string target, query;  // as sent; the path is decoded, the query is what follows its '?'
  std::string id;             // the client's own X-Request-Id when it can be used, else a new one
  std::multimap<std::string, std::string> headers;  // names in lower case
  // Whether the client is still there. Whoever works longer than a moment asks every 100 ms.
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

// How it went, when the last byte is out or the client has gone.
struct HttpSent {
  int status = 0;
  uint64_t bytes = 0;  // of the body
  double seconds = 0;  // since the request's head was there
  bool streamed = false;
  bool complete = false;
};

struct HttpOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8080;  // 0: any that is free
  // Open at once. Further ones are answered with 503, but for vital requests.
  uint32_t connections = 1024;
  uint32_t workers = 0;  // requests that are worked on at once; further ones wait. 0: all
  uint64_t max_body_bytes = uint64_t{64} << 20;
  uint64_t max_held_bytes = uint64_t{1} << 30;  // of all bodies together
  uint32_t head_seconds = 10;                   // for a request's head, TLS's greeting included
  uint32_t read_seconds = 30;                   // for a client to send, or to take, the next piece
  uint32_t bytes_per_second = 1024;             // the least, from then on
  uint32_t idle_seconds = 60;                   // that a connection is kept without a request
  std::string certificate, key;                 // files; empty: no TLS

  // Requests that are answered when there is no place for others.
  std::function<bool(const HttpRequest&)> vital;
  // Looks at a head before a large body is read; what it returns is sent instead.
  std::function<std::optional<HttpResponse>(const HttpRequest&)> refuse;
  // After every answer, those that no handler gave included. In a request that could not be read
  // fields may be empty.
  std::function<void(const HttpRequest&, const HttpSent&)> sent;
};

using HttpHandler = std::function<HttpResponse(const HttpRequest&)>;

class HttpServer {
 public:
  // Every request goes to the one handler.
  HttpServer(const HttpOptions& options, HttpHandler handler);
  ~HttpServer();
  // Binds; the port that it got.
  uint16_t bind();
  // Serves until stop(), then until the answers that are on their way are through.
  void serve();
  void stop();
  // Ends what is still open, after stop().
  void cut();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// {"error": ...} for what is refused before a handler is asked.
HttpResponse http_error(int status, const std::string& message);

}  // namespace strata::server
