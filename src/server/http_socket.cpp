#include "server/http_socket.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "base/error.h"

namespace strata::server {

double clock_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

TlsContext::TlsContext(const std::string& certificate, const std::string& key) {
  context_ = SSL_CTX_new(TLS_server_method());
  if (context_ == nullptr) fail(ErrorCode::io, "TLS cannot be had from this system's OpenSSL");
  SSL_CTX_set_min_proto_version(context_, TLS1_2_VERSION);
  SSL_CTX_set_options(context_, SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE |
                                    SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_mode(context_, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                 SSL_MODE_RELEASE_BUFFERS);
  if (SSL_CTX_use_certificate_chain_file(context_, certificate.c_str()) != 1 ||
      SSL_CTX_use_PrivateKey_file(context_, key.c_str(), SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_check_private_key(context_) != 1) {
    ERR_clear_error();
    SSL_CTX_free(context_);
    fail(ErrorCode::io, "TLS: '{}' and '{}' are not a certificate and its key (PEM)",
         printable(certificate, 200), printable(key, 200));
  }
}

TlsContext::~TlsContext() { SSL_CTX_free(context_); }

HttpSocket::HttpSocket(int fd, const TlsContext* tls) : fd_(fd) {
  if (tls == nullptr) return;
  ssl_ = SSL_new(tls->get());
  if (ssl_ != nullptr) {
    SSL_set_fd(ssl_, fd);
    SSL_set_accept_state(ssl_);
    return;
  }
  close(fd);
  fail(ErrorCode::io, "no memory for a TLS connection");
}

HttpSocket::~HttpSocket() {
  SSL_free(ssl_);
  close(fd_);
}

HttpSocket::Io HttpSocket::error_of(int result) {
  const int error = SSL_get_error(ssl_, result);
  wants_to_write_ = error == SSL_ERROR_WANT_WRITE;
  const bool waits = wants_to_write_ || error == SSL_ERROR_WANT_READ;
  ERR_clear_error();
  return waits ? Io::again : Io::gone;
}

HttpSocket::Io HttpSocket::greet() {
  if (ssl_ == nullptr) return Io::done;
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl_);
  if (result != 1) return error_of(result);
  wants_to_write_ = false;
  return Io::done;
}

HttpSocket::Io HttpSocket::read(char* to, size_t most, size_t& got) {
  got = 0;
  if (ssl_ != nullptr) {
    ERR_clear_error();
    const int result = SSL_read_ex(ssl_, to, most, &got);
    if (result != 1) return error_of(result);
    wants_to_write_ = false;
    return Io::done;
  }
  ssize_t n = 0;
  do {
    n = recv(fd_, to, most, 0);
  } while (n < 0 && errno == EINTR);
  if (n > 0) {
    got = static_cast<size_t>(n);
    return Io::done;
  }
  return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? Io::again : Io::gone;
}

bool HttpSocket::has_pending() const { return ssl_ != nullptr && SSL_pending(ssl_) > 0; }

bool HttpSocket::write(std::string_view data, double until) {
  while (!data.empty()) {
    size_t sent = 0;
    short waits_for = POLLOUT;
    if (ssl_ != nullptr) {
      ERR_clear_error();
      const int result = SSL_write_ex(ssl_, data.data(), data.size(), &sent);
      if (result != 1) {
        if (error_of(result) == Io::gone) return false;
        if (!wants_to_write_) waits_for = POLLIN;
        wants_to_write_ = false;
      }
    } else {
      const ssize_t n = send(fd_, data.data(), data.size(), MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK) return false;
      if (n > 0) sent = static_cast<size_t>(n);
    }
    data.remove_prefix(sent);
    if (data.empty()) break;
    if (sent > 0) continue;
    const double left = until - clock_seconds();
    if (left <= 0) return false;
    pollfd one{fd_, waits_for, 0};
    const int ready = poll(&one, 1, static_cast<int>(std::min(left, 3600.0) * 1e3) + 1);
    if (ready < 0 && errno != EINTR) return false;
    if (ready > 0 && (one.revents & (POLLERR | POLLNVAL)) != 0) return false;
  }
  return true;
}

bool HttpSocket::has_left() const {
  pollfd one{fd_, POLLRDHUP, 0};
  return poll(&one, 1, 0) > 0 && (one.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) != 0;
}

void HttpSocket::shut_writing() {
  if (ssl_ != nullptr && SSL_is_init_finished(ssl_) != 0) {
    ERR_clear_error();
    SSL_shutdown(ssl_);  // says so to the peer; that it answers is not waited for
    ERR_clear_error();
  }
  shutdown(fd_, SHUT_WR);
}

void HttpSocket::shut() { shutdown(fd_, SHUT_RDWR); }

}  // namespace strata::server
