// A client that sends whatever bytes it is told to, for what a proper one would not do.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace strata::test {

class RawClient {
 public:
  explicit RawClient(uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      ::close(fd_);
      throw std::runtime_error("cannot connect");
    }
    const int one = 1;
    ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  }
  RawClient(RawClient&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  RawClient& operator=(RawClient&&) = delete;
  ~RawClient() { close(); }

  int fd() const { return fd_; }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  // Without a goodbye.
  void reset() {
    const linger now{1, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close();
  }
  void shut_writing() const { ::shutdown(fd_, SHUT_WR); }

  // False when the other side takes no more.
  bool send(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t n = ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      text.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }
  // What comes next, at most `most` bytes; empty at the end, or after the time.
  std::string receive(double seconds, size_t most = 1 << 16) {
    pollfd one{fd_, POLLIN, 0};
    if (::poll(&one, 1, static_cast<int>(seconds * 1e3)) <= 0) return "";
    std::string out(most, 0);
    const ssize_t n = ::recv(fd_, out.data(), out.size(), 0);
    out.resize(n > 0 ? static_cast<size_t>(n) : 0);
    ended_ = n <= 0;
    return out;
  }
  // Until the text is there, or the end, or the time; everything that came.
  std::string receive_until(std::string_view text, double seconds) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    std::string out;
    while (!ended_ && (text.empty() || out.find(text) == std::string::npos)) {
      const double left =
          std::chrono::duration<double>(end - std::chrono::steady_clock::now()).count();
      if (left <= 0) break;
      out += receive(left);
    }
    return out;
  }
  std::string receive_all(double seconds = 20) { return receive_until("", seconds); }
  // The other side has closed.
  bool ended() const { return ended_; }

 private:
  int fd_;
  bool ended_ = false;
};

// 0 when it is no answer.
inline int status_of(const std::string& answer) {
  return answer.rfind("HTTP/1.1 ", 0) == 0 && answer.size() > 12 ? std::stoi(answer.substr(9, 3))
                                                                 : 0;
}

inline std::string body_of(const std::string& answer) {
  const size_t at = answer.find("\r\n\r\n");
  return at == std::string::npos ? "" : answer.substr(at + 4);
}

// A figure of /proc/self/status: "VmRSS" in KiB, "Threads".
inline int64_t own_figure(const std::string& name) {
  std::FILE* file = std::fopen("/proc/self/status", "r");
  if (file == nullptr) return 0;
  char line[256];
  int64_t value = 0;
  while (std::fgets(line, sizeof line, file) != nullptr) {
    if (std::string_view(line).substr(0, name.size() + 1) == name + ":") {
      value = std::stoll(line + name.size() + 1);
    }
  }
  std::fclose(file);
  return value;
}

}  // namespace strata::test
