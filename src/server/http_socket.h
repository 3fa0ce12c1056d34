// One accepted connection, plain or TLS: reads that never wait, writes that wait no longer than
// they may.
//
// Errors: making a context throws ErrorCode::io; a connection's own end is Io::gone.
// Ownership: owns the file descriptor.
// Threads: one at a time, but has_left() and shut(), which any thread may call while it lives.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

struct ssl_st;
struct ssl_ctx_st;

namespace strata::server {

// A certificate and its key. TLS 1.2 and later.
class TlsContext {
 public:
  TlsContext(const std::string& certificate, const std::string& key);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;
  ssl_ctx_st* get() const { return context_; }

 private:
  ssl_ctx_st* context_ = nullptr;
};

class HttpSocket {
 public:
  enum class Io { done, again, gone };

  // The descriptor does not block. Without a context: no TLS.
  HttpSocket(int fd, const TlsContext* tls);
  ~HttpSocket();
  HttpSocket(const HttpSocket&) = delete;
  HttpSocket& operator=(const HttpSocket&) = delete;

  int fd() const { return fd_; }
  // TLS's greeting; at once done without it.
  Io greet();
  Io read(char* to, size_t most, size_t& got);
  // What waits for io is the other direction.
  bool wants_to_write() const { return wants_to_write_; }
  // Bytes that poll() does not know of.
  bool has_pending() const;
  // All of it, or false: the client has gone, or did not take it until then (clock_seconds()).
  bool write(std::string_view data, double until);
  // The client has closed its side, or the connection is broken.
  bool has_left() const;
  // Nothing more will be sent.
  void shut_writing();
  // Ends reads and writes of whichever thread.
  void shut();

 private:
  Io error_of(int result);

  int fd_;
  ssl_st* ssl_ = nullptr;
  bool wants_to_write_ = false;
};

// Of the clock that only goes forward.
double clock_seconds();

}  // namespace strata::server
