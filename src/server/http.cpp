#include "server/http.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <limits>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "server/http_answer.h"
#include "server/http_parser.h"
#include "server/http_socket.h"
#include "server/http_workers.h"

namespace strata::server {
namespace {

constexpr double k_never = std::numeric_limits<double>::infinity();
// Beyond the limit there are so many connections that vital requests may come over.
constexpr size_t k_spare = 32;
constexpr double k_spare_seconds = 2;
// A client that still sends is listened to for a while, or it would never see why it was refused.
constexpr double k_ending_seconds = 1, k_refused_seconds = 5;
constexpr uint64_t k_refused_bytes = uint64_t{256} << 20;
constexpr uint64_t k_large_body = 64 << 10;  // worth asking first whether it is wanted
constexpr double k_pause_seconds = 0.2;      // of accepting, without descriptors

struct Connection {
  enum class Phase { greeting, reading, working, ending };

  Connection(int fd, const TlsContext* tls, const HttpLimits& limits)
      : socket(fd, tls), parser(limits), phase(tls == nullptr ? Phase::reading : Phase::greeting) {}

  HttpSocket socket;
  HttpParser parser;
  std::string remote;
  std::string rest;  // read already, of the next request
  Phase phase;
  bool kept = false;   // has had a request before
  bool spare = false;  // beyond the limit
  uint32_t events = 0;
  double deadline = k_never;
  double head_at = 0;
  uint64_t held = 0;       // of the body
  uint64_t discarded = 0;  // in Phase::ending

  bool is_idle() const { return phase == Phase::reading && kept && !parser.begun(); }
};
using ConnectionPtr = std::shared_ptr<Connection>;

std::string address_text(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, text, sizeof text);
  } else if (address.ss_family == AF_INET6) {
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, text,
              sizeof text);
  }
  const std::string out = text;
  return out.rfind("::ffff:", 0) == 0 && out.find('.') != std::string::npos ? out.substr(7) : out;
}

void set_option(int fd, int level, int name, int value) {
  setsockopt(fd, level, name, &value, sizeof value);
}

}  // namespace

std::string HttpRequest::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string() : found->second;
}

struct HttpServer::Impl {
  HttpOptions options;
  HttpHandler handler;
  HttpLimits limits;
  std::unique_ptr<TlsContext> tls;
  std::vector<int> listeners;
  int poller = -1, waker = -1;
  std::atomic<bool> stopping{false}, cutting{false};

  // The serving thread's.
  std::unordered_map<int, ConnectionPtr> connections;
  double next_deadline = k_never;  // no deadline lies before it
  double listen_again = k_never;
  bool listening = false;
  size_t working = 0;
  std::vector<char> buffer = std::vector<char>(64 << 10);

  std::atomic<uint64_t> held{0};
  std::mutex mutex;
  struct Returned {
    ConnectionPtr connection;
    bool keep = false;
  };
  std::vector<Returned> returned;
  std::unique_ptr<HttpWorkers> workers;  // last: its threads use the others

  Impl(const HttpOptions& given, HttpHandler handle) : options(given), handler(std::move(handle)) {
    limits.body = options.max_body_bytes;
    if (options.certificate.empty() != options.key.empty()) {
      fail(ErrorCode::usage, "TLS needs both --ssl-cert-file and --ssl-key-file");
    }
    if (!options.certificate.empty()) {
      tls = std::make_unique<TlsContext>(options.certificate, options.key);
    }
    poller = epoll_create1(EPOLL_CLOEXEC);
    waker = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (poller < 0 || waker < 0) {
      fail(ErrorCode::io, "the system gives no epoll: {}", std::strerror(errno));
    }
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = waker;
    epoll_ctl(poller, EPOLL_CTL_ADD, waker, &event);
    workers = std::make_unique<HttpWorkers>(options.workers == 0 ? SIZE_MAX : options.workers);
  }

  ~Impl() {
    workers.reset();
    connections.clear();
    for (const int fd : listeners) close(fd);
    if (poller >= 0) close(poller);
    if (waker >= 0) close(waker);
  }

  void wake() const {
    const uint64_t one = 1;
    // Full means that it is awake.
    [[maybe_unused]] const ssize_t n = ::write(waker, &one, sizeof one);
  }

  // ---- Listening

  uint16_t bind();
  void listen(bool on);
  void accept_all(int listener);
  void accept_one(int fd, const sockaddr_storage& from);
  bool make_room();

  // ---- Connections, on the serving thread

  void serve();
  void watch(Connection& connection, uint32_t events);
  void set_deadline(Connection& connection, double at) {
    connection.deadline = at;
    next_deadline = std::min(next_deadline, at);
  }
  void ready(const ConnectionPtr& connection);
  void read(const ConnectionPtr& connection);
  bool feed(const ConnectionPtr& connection, std::string_view bytes);
  bool take_head(const ConnectionPtr& connection);
  void take_body(Connection& connection);
  void give_to_worker(const ConnectionPtr& connection);
  void take_back(const Returned& one);
  void refuse(const ConnectionPtr& connection, HttpResponse response);
  void end(const ConnectionPtr& connection, double seconds);
  void discard(const ConnectionPtr& connection);
  void drop(const ConnectionPtr& connection);
  void expire();

  // ---- On a worker's thread

  void work(const ConnectionPtr& connection);
  double until(size_t bytes) const {
    return clock_seconds() + options.read_seconds +
           static_cast<double>(bytes) / std::max(1u, options.bytes_per_second);
  }
};

uint16_t HttpServer::Impl::bind() {
  // Files that may be open: connections, and what the rest of the program has.
  rlimit files{};
  const rlim_t wanted = options.connections + k_spare + 512;
  if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < wanted) {
    files.rlim_cur = std::min(wanted, files.rlim_max);
    setrlimit(RLIMIT_NOFILE, &files);
  }
  const auto refuse = [&](const char* why) {
    fail(ErrorCode::io, "cannot listen on {}:{}: {}", printable(options.host), options.port, why);
  };
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int error =
          getaddrinfo(options.host.c_str(), std::to_string(options.port).c_str(), &hints, &found);
      error != 0) {
    refuse(gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  uint16_t port = options.port;
  int error = EADDRNOTAVAIL;
  // A name may have several addresses ("localhost" has two): all of them, with one port.
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    sockaddr_storage address{};
    std::memcpy(&address, one->ai_addr, one->ai_addrlen);
    auto& v4 = reinterpret_cast<sockaddr_in&>(address);
    auto& v6 = reinterpret_cast<sockaddr_in6&>(address);
    (one->ai_family == AF_INET6 ? v6.sin6_port : v4.sin_port) = htons(port);
    const int fd = socket(one->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
      error = errno;
      continue;
    }
    set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (one->ai_family == AF_INET6) set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    if (::bind(fd, reinterpret_cast<sockaddr*>(&address), one->ai_addrlen) != 0 ||
        ::listen(fd, 1024) != 0) {
      error = errno;
      close(fd);
      if (error == EADDRINUSE && options.port != 0) refuse("the port is taken");
      continue;
    }
    listeners.push_back(fd);
    socklen_t size = sizeof address;
    getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
    port = ntohs(one->ai_family == AF_INET6 ? v6.sin6_port : v4.sin_port);
  }
  if (listeners.empty()) refuse(std::strerror(error));
  return port;
}

void HttpServer::Impl::listen(bool on) {
  if (on == listening) return;
  listening = on;
  for (const int fd : listeners) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    epoll_ctl(poller, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, fd, &event);
  }
}

void HttpServer::Impl::accept_all(int listener) {
  for (int i = 0; i < 64; ++i) {
    sockaddr_storage from{};
    socklen_t size = sizeof from;
    const int fd =
        accept4(listener, reinterpret_cast<sockaddr*>(&from), &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      accept_one(fd, from);
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    const int error = errno;  // closing another may change it
    if (error != EAGAIN && error != EWOULDBLOCK && !make_room()) {
      log::warning(
          "new connections wait {} s: {}; a larger limit of open files (ulimit -n) or a smaller "
          "--max-connections helps",
          k_pause_seconds, std::strerror(error));
      listen(false);
      listen_again = clock_seconds() + k_pause_seconds;
    }
    return;
  }
}

// Closes a connection that nobody would miss.
bool HttpServer::Impl::make_room() {
  ConnectionPtr least;
  for (const auto& [fd, one] : connections) {
    if (one->phase != Connection::Phase::ending && !one->is_idle()) continue;
    if (!least || one->deadline < least->deadline) least = one;
  }
  if (!least) return false;
  drop(least);
  return true;
}

void HttpServer::Impl::accept_one(int fd, const sockaddr_storage& from) {
  const size_t most = options.connections;
  if (connections.size() >= most) make_room();
  if (connections.size() >= most + k_spare) {
    if (!tls) {
      // What has come of its request is taken, so that the answer is not lost with it.
      [[maybe_unused]] ssize_t n = recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
      const std::string answer =
          answer_text({}, http_error(503, "the server has no place for another connection"), false);
      n = send(fd, answer.data(), answer.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      shutdown(fd, SHUT_WR);
    }
    close(fd);
    return;
  }
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  // Clients that vanish without a word.
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 30);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
  ConnectionPtr connection;
  try {
    connection = std::make_shared<Connection>(fd, tls.get(), limits);
  } catch (const Error& error) {
    log::warning("{}", error.what());
    return;
  }
  connection->remote = address_text(from);
  connection->spare = connections.size() >= most;
  set_deadline(*connection,
               clock_seconds() + (connection->spare ? k_spare_seconds : options.head_seconds));
  connections.emplace(fd, connection);
  watch(*connection, EPOLLIN);
}

// 0: none.
void HttpServer::Impl::watch(Connection& connection, uint32_t events) {
  if (events == connection.events) return;
  epoll_event event{};
  event.events = events;
  event.data.fd = connection.socket.fd();
  const int what = events == 0              ? EPOLL_CTL_DEL
                   : connection.events == 0 ? EPOLL_CTL_ADD
                                            : EPOLL_CTL_MOD;
  epoll_ctl(poller, what, connection.socket.fd(), &event);
  connection.events = events;
}

void HttpServer::Impl::serve() {
  sigset_t pipe;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
  listen(true);
  std::vector<epoll_event> events(256);
  bool shut = false;
  for (;;) {
    if (stopping) {
      if (!shut) {
        shut = true;
        listen(false);
        for (const int fd : listeners) close(fd);
        listeners.clear();
        std::vector<ConnectionPtr> all;
        for (const auto& [fd, one] : connections) all.push_back(one);
        for (const ConnectionPtr& one : all) {
          if (one->phase == Connection::Phase::working) continue;
          if (one->phase != Connection::Phase::ending) one->socket.shut_writing();
          drop(one);
        }
      }
      if (cutting) {
        for (const auto& [fd, one] : connections) one->socket.shut();
      }
      if (working == 0) break;
    }
    const double wait = std::min(next_deadline, listen_again) - clock_seconds();
    const int milliseconds =
        wait == k_never ? -1 : static_cast<int>(std::clamp(wait, 0.0, 3600.0) * 1e3) + 1;
    const int n = epoll_wait(poller, events.data(), static_cast<int>(events.size()), milliseconds);
    if (n < 0 && errno != EINTR) fail(ErrorCode::io, "epoll: {}", std::strerror(errno));
    for (int i = 0; i < n; ++i) {
      const int fd = events[i].data.fd;
      if (fd == waker) {
        uint64_t count = 0;
        [[maybe_unused]] const ssize_t got = ::read(waker, &count, sizeof count);
      } else if (std::find(listeners.begin(), listeners.end(), fd) != listeners.end()) {
        accept_all(fd);
      } else if (const auto found = connections.find(fd); found != connections.end()) {
        const ConnectionPtr connection = found->second;
        if (connection->phase != Connection::Phase::working) ready(connection);
      }
    }
    std::vector<Returned> back;
    {
      const std::lock_guard lock(mutex);
      back.swap(returned);
    }
    for (const Returned& one : back) take_back(one);
    if (const double now = clock_seconds(); now >= next_deadline) expire();
    if (clock_seconds() >= listen_again) {
      listen_again = k_never;
      if (!stopping) listen(true);
    }
  }
}

void HttpServer::Impl::expire() {
  const double now = clock_seconds();
  std::vector<ConnectionPtr> late;
  next_deadline = k_never;
  for (const auto& [fd, one] : connections) {
    if (one->deadline <= now) {
      late.push_back(one);
    } else {
      next_deadline = std::min(next_deadline, one->deadline);
    }
  }
  for (const ConnectionPtr& one : late) {
    if (one->phase == Connection::Phase::reading && one->parser.begun()) {
      refuse(one, http_error(408, "the request came too slowly"));
    } else {
      drop(one);
    }
  }
}

void HttpServer::Impl::drop(const ConnectionPtr& connection) {
  watch(*connection, 0);
  held -= std::exchange(connection->held, 0);
  // The socket closes with the last that holds it.
  connections.erase(connection->socket.fd());
}

void HttpServer::Impl::ready(const ConnectionPtr& connection) {
  Connection& c = *connection;
  if (c.phase == Connection::Phase::greeting) {
    switch (c.socket.greet()) {
      case HttpSocket::Io::gone:
        return drop(connection);
      case HttpSocket::Io::again:
        return watch(c, c.socket.wants_to_write() ? EPOLLOUT : EPOLLIN);
      case HttpSocket::Io::done:
        c.phase = Connection::Phase::reading;
        watch(c, EPOLLIN);
    }
  }
  if (c.phase == Connection::Phase::ending) {
    discard(connection);
  } else {
    read(connection);
  }
}

void HttpServer::Impl::read(const ConnectionPtr& connection) {
  Connection& c = *connection;
  // Others have their turn after a while, unless what was read already waits in here.
  for (int round = 0; round < 8 || c.socket.has_pending(); ++round) {
    size_t got = 0;
    const HttpSocket::Io io = c.socket.read(buffer.data(), buffer.size(), got);
    if (io == HttpSocket::Io::gone) return drop(connection);
    if (io == HttpSocket::Io::again) break;
    if (!feed(connection, {buffer.data(), got})) return;
  }
  watch(c, c.socket.wants_to_write() ? EPOLLOUT : EPOLLIN);
}

// False when the connection is no longer one to read from.
bool HttpServer::Impl::feed(const ConnectionPtr& connection, std::string_view bytes) {
  Connection& c = *connection;
  using State = HttpParser::State;
  const bool begun = c.parser.begun();
  while (!bytes.empty()) {
    const State before = c.parser.state();
    bytes.remove_prefix(c.parser.feed(bytes));
    const State state = c.parser.state();
    if (state == State::failed) {
      refuse(connection, http_error(c.parser.status(), c.parser.problem()));
      return false;
    }
    if (before == State::head && state != State::head && !take_head(connection)) return false;
    if (state == State::done) {
      c.rest = bytes;
      give_to_worker(connection);
      return false;
    }
  }
  if (c.parser.state() == State::body) {
    take_body(c);
    if (held > options.max_held_bytes) {
      HttpResponse full = http_error(503, "the server holds too many large requests already");
      full.headers.emplace("Retry-After", "5");
      refuse(connection, std::move(full));
      return false;
    }
  } else if (!begun && c.parser.begun() && c.kept) {
    set_deadline(c, clock_seconds() + options.head_seconds);
  }
  return true;
}

// False when it was refused.
bool HttpServer::Impl::take_head(const ConnectionPtr& connection) {
  Connection& c = *connection;
  c.head_at = clock_seconds();
  HttpRequest& request = c.parser.request();
  request.remote = c.remote;
  request.id = request_id(request.header("x-request-id"));
  if (c.spare && !(options.vital && options.vital(request))) {
    HttpResponse full = http_error(503, "the server has no place for another connection");
    full.headers.emplace("Retry-After", "1");
    refuse(connection, std::move(full));
    return false;
  }
  if (c.parser.state() != HttpParser::State::body) return true;
  if (options.refuse && (c.parser.chunked() || c.parser.expects_continue() ||
                         c.parser.content_length() > k_large_body)) {
    if (std::optional<HttpResponse> answer = options.refuse(request)) {
      refuse(connection, std::move(*answer));
      return false;
    }
  }
  if (c.parser.expects_continue()) c.socket.write("HTTP/1.1 100 Continue\r\n\r\n", 0);
  return true;
}

void HttpServer::Impl::take_body(Connection& c) {
  const uint64_t size = c.parser.request().body.size();
  held += size - c.held;
  c.held = size;
  // Each piece in its time, and all of it not slower than the least rate.
  const double slowest = c.head_at + options.read_seconds +
                         static_cast<double>(size) / std::max(1u, options.bytes_per_second);
  set_deadline(c, std::min(clock_seconds() + options.read_seconds, slowest));
}

void HttpServer::Impl::give_to_worker(const ConnectionPtr& connection) {
  Connection& c = *connection;
  watch(c, 0);
  c.deadline = k_never;
  c.phase = Connection::Phase::working;
  ++working;
  const bool vital = options.vital && options.vital(c.parser.request());
  if (workers->add([this, connection] { work(connection); }, vital)) return;
  --working;
  c.phase = Connection::Phase::reading;
  refuse(connection, http_error(503, "the system gives the server no thread"));
}

void HttpServer::Impl::take_back(const Returned& one) {
  Connection& c = *one.connection;
  --working;
  held -= std::exchange(c.held, 0);
  c.phase = Connection::Phase::reading;
  c.kept = true;
  c.head_at = 0;
  if (!one.keep || stopping) return end(one.connection, k_ending_seconds);
  set_deadline(c, clock_seconds() + options.idle_seconds);
  watch(c, EPOLLIN);
  // What waits inside TLS, or was read with the request before, makes no event.
  const std::string rest = std::exchange(c.rest, {});
  if (!feed(one.connection, rest)) return;
  if (c.socket.has_pending()) read(one.connection);
}

// For what is wrong before a worker has the request: small, and sent at once or not at all.
void HttpServer::Impl::refuse(const ConnectionPtr& connection, HttpResponse response) {
  Connection& c = *connection;
  HttpRequest& request = c.parser.request();
  if (request.id.empty()) request.id = request_id("");
  request.remote = c.remote;
  const std::string answer = answer_text(request, response, false);
  const bool complete = c.socket.write(answer, 0);
  if (options.sent) {
    const double seconds = c.head_at > 0 ? clock_seconds() - c.head_at : 0;
    options.sent(request, {response.status, response.body.size(), seconds, false, complete});
  }
  held -= std::exchange(c.held, 0);
  c.rest.clear();
  end(connection, k_refused_seconds);
}

void HttpServer::Impl::end(const ConnectionPtr& connection, double seconds) {
  Connection& c = *connection;
  c.phase = Connection::Phase::ending;
  c.socket.shut_writing();
  if (stopping) return drop(connection);
  set_deadline(c, clock_seconds() + seconds);
  watch(c, EPOLLIN);
}

void HttpServer::Impl::discard(const ConnectionPtr& connection) {
  for (int round = 0; round < 8; ++round) {
    const ssize_t n = recv(connection->socket.fd(), buffer.data(), buffer.size(), 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) return drop(connection);
    connection->discarded += static_cast<uint64_t>(n);
    if (connection->discarded > k_refused_bytes) return drop(connection);
  }
}

void HttpServer::Impl::work(const ConnectionPtr& connection) {
  HttpSocket& socket = connection->socket;
  const bool old = connection->parser.is_http_1_0();
  const double begun = connection->head_at;
  bool keep = connection->parser.keep_alive() && !connection->spare;
  const HttpRequest request = [&] {
    HttpRequest out = connection->parser.take();
    out.connected = [&socket] { return !socket.has_left(); };
    return out;
  }();
  HttpResponse response;
  try {
    response = handler(request);
  } catch (const std::exception& error) {
    log::error("a request's handler failed: {}", error.what());
    response = http_error(500, "the server could not do this");
  }
  HttpSent sent;
  sent.status = response.status;
  sent.streamed = response.stream != nullptr;
  keep = keep && !stopping && !(sent.streamed && old);
  bool alive = true;
  if (!sent.streamed || request.method == "HEAD") {
    const std::string answer = answer_text(request, response, keep);
    alive = socket.write(answer, until(answer.size()));
    if (request.method != "HEAD") sent.bytes = response.body.size();
  } else {
    const std::string head = stream_head(request, response, keep, !old);
    alive = socket.write(head, until(head.size()));
    const auto write = [&](const std::string& data) {
      if (!alive || data.empty()) return alive;
      alive = !socket.has_left();
      if (!alive) return false;
      if (old) {
        alive = socket.write(data, until(data.size()));
      } else {
        alive = socket.write(fmt::format("{:x}\r\n{}\r\n", data.size(), data), until(data.size()));
      }
      if (alive) sent.bytes += data.size();
      return alive;
    };
    bool whole = true;
    try {
      response.stream(write, [&] { return alive && !socket.has_left(); });
    } catch (const std::exception& error) {
      log::error("a stream failed: {}", error.what());
      whole = false;
    }
    // Without the last chunk a client knows that something is missing.
    if (alive && whole && !old) alive = socket.write("0\r\n\r\n", until(0));
    alive = alive && whole;
  }
  sent.complete = alive;
  sent.seconds = clock_seconds() - begun;
  if (options.sent) options.sent(request, sent);
  {
    const std::lock_guard lock(mutex);
    returned.push_back({connection, keep && alive});
  }
  wake();
}

HttpServer::HttpServer(const HttpOptions& options, HttpHandler handler)
    : impl_(std::make_unique<Impl>(options, std::move(handler))) {}

HttpServer::~HttpServer() = default;

uint16_t HttpServer::bind() { return impl_->bind(); }

void HttpServer::serve() { impl_->serve(); }

void HttpServer::stop() {
  impl_->stopping = true;
  impl_->wake();
}

void HttpServer::cut() {
  impl_->stopping = true;
  impl_->cutting = true;
  impl_->wake();
}

}  // namespace strata::server
