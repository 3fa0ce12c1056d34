// Connections without a model: what goes through, what is refused, and that nobody can hold the
// server up.
#include "server/http.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "base/error.h"
#include "base/json.h"
#include "server/http_parser.h"
#include "server/raw_client.h"
#include "watchdog.h"

namespace strata::server {
namespace {

using test::body_of;
using test::RawClient;
using test::status_of;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void sleep_for(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

bool wait_until(const std::function<bool()>& condition, double seconds = 10) {
  for (const double end = now() + seconds; now() < end; sleep_for(0.002)) {
    if (condition()) return true;
  }
  return condition();
}

class HttpTest : public testing::Test {
 protected:
  void start(HttpOptions options, HttpHandler handler) {
    options.port = 0;
    options.vital = [](const HttpRequest& r) { return r.path == "/health"; };
    if (!options.sent) {
      options.sent = [this](const HttpRequest& request, const HttpSent& sent) {
        const std::lock_guard lock(mutex_);
        log_.emplace_back(request.path, sent);
      };
    }
    server_ = std::make_unique<HttpServer>(options, std::move(handler));
    port_ = server_->bind();
    thread_ = std::thread([this] { server_->serve(); });
  }
  void stop() {
    if (!thread_.joinable()) return;
    server_->stop();
    thread_.join();
  }
  void TearDown() override {
    if (server_) server_->cut();
    if (thread_.joinable()) thread_.join();
  }
  RawClient client() const { return RawClient(port_); }
  // One request on a connection of its own.
  std::string ask(const std::string& request) const {
    RawClient one = client();
    one.send(request);
    return one.receive_all();
  }
  std::vector<std::pair<std::string, HttpSent>> log() {
    const std::lock_guard lock(mutex_);
    return log_;
  }

  test::Watchdog watchdog_{std::chrono::seconds(200)};
  std::unique_ptr<HttpServer> server_;
  uint16_t port_ = 0;
  std::thread thread_;
  std::mutex mutex_;
  std::vector<std::pair<std::string, HttpSent>> log_;
};

// Says what it was sent.
HttpResponse echo(const HttpRequest& request) {
  HttpResponse out;
  out.body = request.method + " " + request.path + " ?" + request.query + " " + request.body;
  out.type = "text/plain";
  return out;
}

std::string get(const std::string& target, const std::string& more = "") {
  return "GET " + target + " HTTP/1.1\r\nHost: localhost\r\n" + more + "\r\n";
}

std::string post(const std::string& target, const std::string& body, const std::string& more = "") {
  return "POST " + target +
         " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" +
         more + "\r\n" + body;
}

const char* const k_close = "Connection: close\r\n";

// ---- The parser

TEST(HttpParserTest, requests_do_not_depend_on_how_they_are_cut) {
  const std::string stream =
      "GET /a%20b?x=%31&y HTTP/1.1\r\nHost: a\r\nX-One:  two \r\n\r\n"
      "\r\nPOST http://a:80/p HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nhello"
      "POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
      "5;a=b\r\nhello\r\n1\r\n \r\n00A\r\n0123456789\r\n0\r\nX-End: 1\r\n\r\n"
      "OPTIONS * HTTP/1.0\r\n\r\n"
      "DELETE / HTTP/1.1\r\nHost: a\r\nConnection: Keep-Alive, close\r\n\r\n";
  const auto all = [&](std::mt19937& random, bool whole) {
    std::vector<std::string> out;
    HttpParser parser{HttpLimits{}};
    for (size_t at = 0; at < stream.size();) {
      const size_t n = whole ? stream.size() : 1 + random() % 9;
      std::string_view piece = std::string_view(stream).substr(at, n);
      at += piece.size();
      while (!piece.empty()) {
        piece.remove_prefix(parser.feed(piece));
        EXPECT_NE(parser.state(), HttpParser::State::failed) << parser.problem();
        if (parser.state() != HttpParser::State::done) continue;
        const bool keep = parser.keep_alive();
        const HttpRequest r = parser.take();
        out.push_back(r.method + "|" + r.path + "|" + r.query + "|" + r.body + "|" +
                      r.header("x-one") + (keep ? "|keep" : "|close"));
      }
    }
    return out;
  };
  std::mt19937 random(1);
  const std::vector<std::string> want = {"GET|/a b|x=%31&y||two|keep", "POST|/p||hello||keep",
                                         "POST|/c||hello 0123456789||keep", "OPTIONS|*||||close",
                                         "DELETE|/||||close"};
  EXPECT_EQ(all(random, true), want);
  for (int round = 0; round < 200; ++round) EXPECT_EQ(all(random, false), want);
}

TEST(HttpParserTest, what_can_be_misread_is_refused) {
  const std::string host = "Host: a\r\n";
  const std::pair<std::string, int> cases[] = {
      {"\x16\x03\x01 a TLS greeting", 400},
      {"GET\r\n\r\n", 400},
      {"GET /\r\n\r\n", 400},
      {"GET  HTTP/1.1\r\n" + host + "\r\n", 400},
      {"GET / HTTP/1.1 \r\n" + host + "\r\n", 400},
      {"GET / HTTP/2.0\r\n" + host + "\r\n", 505},
      {"GET / HTTP/1.1\r\n\r\n", 400},  // no host
      {"GET / HTTP/1.1\r\n" + host + host + "\r\n", 400},
      {"GET / HTTP/1.1\n" + host + "\r\n", 400},  // a lone line feed
      {"GET / HTTP/1.1\r\nHost: a\n\n", 400},
      {"GET /%zz HTTP/1.1\r\n" + host + "\r\n", 400},
      {"GET /%00 HTTP/1.1\r\n" + host + "\r\n", 400},
      {"GET /% HTTP/1.1\r\n" + host + "\r\n", 400},
      {"GET a HTTP/1.1\r\n" + host + "\r\n", 400},
      {"GET /a b HTTP/1.1\r\n" + host + "\r\n", 400},
      {"G(T / HTTP/1.1\r\n" + host + "\r\n", 400},
      {"GET / HTTP/1.1\r\n" + host + "X : 1\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\n" + host + "X\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\n" + host + " folded\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\n" + host + "X: a\rb\r\n\r\n", 400},
      {std::string("GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n", 29), 400},
      {"POST / HTTP/1.1\r\n" + host + "Content-Length: -1\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\n" + host + "Content-Length: 1, 1\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\n" + host + "Content-Length: 0x1\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\n" + host + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\n" + host + "Content-Length: 99999999999999999999\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\n" + host + "Content-Length: 999999999\r\n\r\n", 413},
      {"POST / HTTP/1.1\r\n" + host + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
       400},
      {"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: gzip, chunked\r\n\r\n", 501},
      {"POST / HTTP/1.0\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\n" + host + "Content-Encoding: gzip\r\n\r\n", 415},
      {"POST / HTTP/1.1\r\n" + host + "Expect: a wonder\r\n\r\n", 417},
  };
  for (const auto& [text, status] : cases) {
    HttpParser parser{HttpLimits{}};
    parser.feed(text);
    EXPECT_EQ(parser.state(), HttpParser::State::failed) << text;
    EXPECT_EQ(parser.status(), status) << text;
  }
  const std::string chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::pair<std::string, int> chunks[] = {
      {"x\r\n", 400},
      {"\r\n", 400},
      {"5\nhello", 400},
      {"5\r\nhellos", 0},
      {"5\r\nhellos\r\n", 400},
      {"-1\r\n", 400},
      {"4000001\r\n", 413},
      {"ffffffffffffffff\r\n", 400},
      {"fffffffffffffff\r\n", 413},
      {"5 x\r\n", 400},
      {std::string(300, '0'), 400},
      {"1;" + std::string(300, 'a'), 400},
  };
  for (const auto& [text, status] : chunks) {
    HttpParser parser{HttpLimits{}};
    std::string_view rest = text;
    parser.feed(chunked);
    while (!rest.empty() && parser.state() == HttpParser::State::body) {
      rest.remove_prefix(parser.feed(rest));
    }
    EXPECT_EQ(parser.state() == HttpParser::State::failed, status != 0) << text;
    EXPECT_EQ(parser.status(), status) << text;
  }
}

TEST(HttpParserTest, heads_have_bounds) {
  const auto status = [](const std::string& text) {
    HttpParser parser{HttpLimits{}};
    for (std::string_view rest = text; !rest.empty();) {
      rest.remove_prefix(parser.feed(rest.substr(0, 1000)));
      if (parser.state() != HttpParser::State::head) break;
    }
    return parser.status();
  };
  EXPECT_EQ(status(get("/" + std::string(8000, 'a'))), 0);
  EXPECT_EQ(status(get("/" + std::string(9000, 'a'))), 414);
  EXPECT_EQ(status("GET /" + std::string(9000, 'a')), 414);
  EXPECT_EQ(status(get("/", "X: " + std::string(60'000, 'a') + "\r\n")), 0);
  EXPECT_EQ(status(get("/", "X: " + std::string(70'000, 'a') + "\r\n")), 431);
  std::string fields;
  for (int i = 0; i < 99; ++i) fields += "X: a\r\n";
  EXPECT_EQ(status(get("/", fields)), 0);
  EXPECT_EQ(status(get("/", fields + "X: a\r\n")), 431);
}

// ---- The server

TEST_F(HttpTest, answers_come_in_order_on_one_connection) {
  start({}, echo);
  RawClient one = client();
  one.send(
      get("/a?b=c") + post("/p", "body") + get("/%C3%A9") +
      "POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n" +
      get("/last", k_close));
  const std::string answer = one.receive_all();
  size_t at = 0;
  for (const char* text :
       {"GET /a ?b=c ", "POST /p ? body", "GET /\xC3\xA9 ? ", "POST /c ? abc", "GET /last ? "}) {
    at = answer.find(text, at);
    ASSERT_NE(at, std::string::npos) << text << " in " << answer;
  }
  EXPECT_TRUE(one.ended());
  ASSERT_TRUE(wait_until([&] { return log().size() == 5; }));
  for (const auto& [path, sent] : log()) {
    EXPECT_EQ(sent.status, 200);
    EXPECT_TRUE(sent.complete);
    EXPECT_FALSE(sent.streamed);
  }
}

TEST_F(HttpTest, heads_and_answers_without_a_body) {
  start({}, [](const HttpRequest& request) {
    HttpResponse out = echo(request);
    if (request.path == "/none") out.status = 204;
    out.headers.emplace("X-Bad", "a\r\nSet-Cookie: b");
    return out;
  });
  const std::string head = ask("HEAD /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(status_of(head), 200);
  EXPECT_NE(head.find("Content-Length: 10\r\n"), std::string::npos) << head;
  EXPECT_EQ(body_of(head), "");
  EXPECT_EQ(head.find("Set-Cookie"), std::string::npos);
  const std::string none = ask(get("/none", k_close));
  EXPECT_EQ(status_of(none), 204);
  EXPECT_EQ(none.find("Content-Length"), std::string::npos);
  EXPECT_EQ(body_of(none), "");
  // The older protocol closes by itself.
  const std::string old = ask("GET /old HTTP/1.0\r\n\r\n");
  EXPECT_EQ(body_of(old), "GET /old ? ");
  EXPECT_NE(old.find("Connection: close"), std::string::npos);
}

TEST_F(HttpTest, a_body_is_sent_for_only_when_it_is_wanted) {
  HttpOptions options;
  options.refuse = [](const HttpRequest& request) -> std::optional<HttpResponse> {
    if (request.path == "/open") return std::nullopt;
    return http_error(401, "no");
  };
  start(options, echo);
  const std::string expect = "Expect: 100-continue\r\nContent-Length: 4\r\n";
  RawClient one = client();
  one.send("POST /open HTTP/1.1\r\nHost: a\r\n" + expect + "\r\n");
  EXPECT_EQ(one.receive_until("\r\n\r\n", 5), "HTTP/1.1 100 Continue\r\n\r\n");
  one.send("body");
  EXPECT_NE(one.receive_until("body", 5).find("POST /open ? body"), std::string::npos);
  EXPECT_EQ(status_of(ask("POST /shut HTTP/1.1\r\nHost: a\r\n" + expect + "\r\n")), 401);
  EXPECT_EQ(status_of(ask("POST /shut HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n")),
            401);
}

TEST_F(HttpTest, every_answer_has_an_id) {
  start({}, [](const HttpRequest& request) {
    HttpResponse out;
    out.body = request.id;
    return out;
  });
  const auto id = [](const std::string& answer) {
    const size_t at = answer.find("X-Request-Id: ");
    return at == std::string::npos ? "" : answer.substr(at + 14, answer.find('\r', at) - at - 14);
  };
  const std::string own = ask(get("/", std::string(k_close) + "X-Request-Id: abc-1\r\n"));
  EXPECT_EQ(id(own), "abc-1");
  EXPECT_EQ(body_of(own), "abc-1");
  for (const std::string& bad : {std::string(200, 'a'), std::string("a b"), std::string("<b>")}) {
    const std::string given = ask(get("/", k_close + ("X-Request-Id: " + bad) + "\r\n"));
    EXPECT_EQ(id(given).rfind("req-", 0), 0u) << given;
    EXPECT_EQ(body_of(given), id(given));
  }
  EXPECT_EQ(id(ask("nonsense\r\n\r\n")).rfind("req-", 0), 0u);
  ASSERT_TRUE(wait_until([&] { return log().size() == 5; }));
  EXPECT_EQ(log().back().second.status, 400);
}

// A client that sends everything before it reads sees why it was refused, and the body is not kept.
TEST_F(HttpTest, large_bodies_take_no_memory) {
  HttpOptions options;
  options.max_body_bytes = 1 << 20;
  start(options, echo);
  ask(get("/", k_close));
  const int64_t before = test::own_figure("VmRSS");
  const std::string megabyte(1 << 20, 'a');
  {
    RawClient one = client();
    one.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 104857600\r\n\r\n");
    bool taken = true;
    for (int i = 0; i < 100 && taken; ++i) taken = one.send(megabyte);
    EXPECT_TRUE(taken);
    const std::string answer = one.receive_all();
    EXPECT_EQ(status_of(answer), 413);
    EXPECT_NE(body_of(answer).find("invalid_request_error"), std::string::npos);
  }
  {
    RawClient one = client();
    one.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 100; ++i) {
      if (!one.send("10000\r\n" + megabyte.substr(0, 65536) + "\r\n")) break;
    }
    EXPECT_EQ(status_of(one.receive_all()), 413);
  }
  {
    // A header without an end.
    RawClient one = client();
    one.send("GET / HTTP/1.1\r\nX: ");
    for (int i = 0; i < 10; ++i) {
      if (!one.send(megabyte)) break;
    }
    EXPECT_EQ(status_of(one.receive_all()), 431);
  }
  const int64_t grown = test::own_figure("VmRSS") - before;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(grown, 16 << 10) << "KiB";
#else
  (void)grown;  // a sanitizer keeps what is freed
#endif
  // Many bodies that are allowed one by one are too much together.
  stop();
  options.max_held_bytes = 2 << 20;
  start(options, echo);
  std::vector<RawClient> some;
  for (int i = 0; i < 3; ++i) {
    some.push_back(client());
    some.back().send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1048576\r\n\r\n");
    some.back().send(std::string_view(megabyte).substr(0, 1'000'000));
    sleep_for(0.1);
  }
  int taken = 0, refused = 0;
  for (RawClient& one : some) {
    one.send(std::string_view(megabyte).substr(0, 48'576));
    const int status = status_of(one.receive_until("\r\n\r\n", 60));
    taken += status == 200 ? 1 : 0;
    refused += status == 503 ? 1 : 0;
  }
  EXPECT_EQ(taken, 2);
  EXPECT_EQ(refused, 1);
}

TEST_F(HttpTest, slow_clients_are_given_up) {
  HttpOptions options;
  options.head_seconds = 1;
  options.read_seconds = 1;
  options.idle_seconds = 1;
  start(options, echo);
  const double begun = now();
  RawClient head = client(), body = client(), silent = client(), idle = client();
  head.send("GET / HTTP/1.1\r\nHost: a\r\nX: ");
  body.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n");
  idle.send(get("/"));
  EXPECT_EQ(status_of(idle.receive(5)), 200);
  // A byte every so often does not help.
  double head_end = 0, body_end = 0;
  std::string head_answer, body_answer;
  while (now() - begun < 8 && (head_end == 0 || body_end == 0)) {
    sleep_for(0.1);
    if (head_end == 0) {
      head.send("a");
      head_answer += head.receive(0);
      if (!head_answer.empty()) head_end = now() - begun;
    }
    if (body_end == 0) {
      body.send("a");
      body_answer += body.receive(0);
      if (!body_answer.empty()) body_end = now() - begun;
    }
  }
  EXPECT_EQ(status_of(head_answer), 408);
  EXPECT_EQ(status_of(body_answer), 408);
  EXPECT_GT(head_end, 0.9);
  EXPECT_LT(head_end, 3);
  EXPECT_LT(body_end, 3);
  EXPECT_EQ(silent.receive_all(5), "");
  EXPECT_TRUE(silent.ended());
  EXPECT_EQ(idle.receive_all(5), "");
  EXPECT_TRUE(idle.ended());
}

// What a thread per connection could not do.
TEST_F(HttpTest, many_slow_clients_cost_no_threads) {
  start({}, echo);
  ask(get("/", k_close));
  const int64_t threads = test::own_figure("Threads");
  std::vector<RawClient> clients;
  for (int i = 0; i < 600; ++i) {
    clients.push_back(client());
    if (i % 3 == 0) clients.back().send("POST /slow HTTP/1.1\r\nHost: a\r\nX: ");
    if (i % 3 == 1)
      clients.back().send("POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\na");
  }
  const double begun = now();
  EXPECT_EQ(status_of(ask(get("/health", k_close))), 200);
  EXPECT_LT(now() - begun, 5);
  EXPECT_LE(test::own_figure("Threads"), threads + 1);
  for (int i = 1; i < 600; i += 3) clients[static_cast<size_t>(i)].send("bcdefghi");
  for (int i = 1; i < 600; i += 3) {
    EXPECT_EQ(status_of(clients[static_cast<size_t>(i)].receive_until("abcdefghi", 10)), 200);
  }
}

TEST_F(HttpTest, beyond_the_limit_only_what_is_vital) {
  HttpOptions options;
  options.connections = 8;
  std::atomic<bool> go{false};
  start(options, [&](const HttpRequest& request) {
    while (request.path == "/wait" && !go) sleep_for(0.001);
    return echo(request);
  });
  std::vector<RawClient> clients;
  for (int i = 0; i < 8; ++i) {
    clients.push_back(client());
    clients.back().send(get("/wait"));
  }
  const std::string full = ask(get("/"));
  EXPECT_EQ(status_of(full), 503);
  EXPECT_NE(full.find("Retry-After"), std::string::npos);
  EXPECT_NE(full.find("unavailable_error"), std::string::npos);
  EXPECT_EQ(status_of(ask(get("/health"))), 200);
  // Those who come in great numbers and say nothing are sent away, too.
  std::vector<RawClient> more;
  for (int i = 0; i < 60; ++i) more.push_back(client());
  EXPECT_EQ(status_of(more.back().receive(5)), 503);
  go = true;
  for (RawClient& one : clients) {
    EXPECT_EQ(status_of(one.receive_until("/wait", 10)), 200);
  }
  // Now they are idle, and one of them makes room.
  more.clear();
  EXPECT_TRUE(wait_until([&] { return status_of(ask(get("/", k_close))) == 200; }));
}

TEST_F(HttpTest, requests_beyond_the_workers_wait) {
  HttpOptions options;
  options.workers = 2;
  std::atomic<int> running{0}, most{0};
  std::atomic<bool> go{false};
  start(options, [&](const HttpRequest& request) {
    if (request.path == "/wait") {
      const int n = ++running;
      for (int seen = most; n > seen && !most.compare_exchange_weak(seen, n);) {
      }
      while (!go) sleep_for(0.001);
      --running;
    }
    return echo(request);
  });
  std::vector<RawClient> clients;
  for (int i = 0; i < 6; ++i) {
    clients.push_back(client());
    clients.back().send(get("/wait", k_close));
  }
  EXPECT_TRUE(wait_until([&] { return running == 2; }));
  EXPECT_EQ(status_of(ask(get("/health", k_close))), 200);
  go = true;
  for (RawClient& one : clients) EXPECT_EQ(status_of(one.receive_all()), 200);
  EXPECT_EQ(most, 2);
}

TEST_F(HttpTest, handlers_learn_that_a_client_has_left) {
  std::atomic<int> left{0};
  start({}, [&](const HttpRequest& request) {
    HttpResponse out;
    const auto wait = [&left](const std::function<bool()>& connected) {
      for (int i = 0; i < 5000 && connected(); ++i) sleep_for(0.001);
      if (!connected()) ++left;
    };
    if (request.path == "/whole") wait(request.connected);
    if (request.path == "/stream") {
      out.stream = [wait](const HttpResponse::Write& write,
                          const std::function<bool()>& connected) {
        write("a");
        wait(connected);
        EXPECT_FALSE(write("b"));
      };
    }
    return out;
  });
  for (const char* path : {"/whole", "/stream"}) {
    for (const bool rudely : {false, true}) {
      const int before = left;
      RawClient one = client();
      one.send(get(path));
      sleep_for(0.1);
      EXPECT_EQ(left, before);
      const double begun = now();
      rudely ? one.reset() : one.close();
      EXPECT_TRUE(wait_until([&] { return left == before + 1; }));
      EXPECT_LT(now() - begun, 1);
    }
  }
  ASSERT_TRUE(wait_until([&] { return log().size() == 4; }));
  for (const auto& [path, sent] : log()) {
    EXPECT_TRUE(path == "/whole" || !sent.complete);
  }
}

TEST_F(HttpTest, who_does_not_read_is_given_up) {
  HttpOptions options;
  options.read_seconds = 1;
  options.bytes_per_second = 16 << 20;
  std::atomic<bool> ended{false};
  start(options, [&](const HttpRequest& request) {
    HttpResponse out;
    if (request.path == "/large") out.body = std::string(16 << 20, 'a');
    if (request.path == "/stream") {
      out.stream = [&](const HttpResponse::Write& write, const std::function<bool()>&) {
        const std::string piece(10'000, 'a');
        while (write(piece)) {
        }
        ended = true;
      };
    }
    return out;
  });
  RawClient stream = client(), large = client();
  stream.send(get("/stream"));
  large.send(get("/large"));
  EXPECT_TRUE(wait_until([&] { return ended.load(); }, 60));
  EXPECT_TRUE(wait_until([&] { return log().size() == 2; }, 60));
  for (const auto& [path, sent] : log()) EXPECT_FALSE(sent.complete) << path;
}

TEST_F(HttpTest, a_handler_that_fails_harms_nobody) {
  start({}, [](const HttpRequest& request) {
    HttpResponse out = echo(request);
    if (request.path == "/throw") fail(ErrorCode::internal, "secret");
    if (request.path == "/stream") {
      out.stream = [](const HttpResponse::Write& write, const std::function<bool()>&) {
        write("some");
        fail(ErrorCode::internal, "of it");
      };
    }
    return out;
  });
  const std::string whole = ask(get("/throw", k_close));
  EXPECT_EQ(status_of(whole), 500);
  EXPECT_EQ(whole.find("secret"), std::string::npos);
  const std::string stream = ask(get("/stream"));
  EXPECT_EQ(status_of(stream), 200);
  EXPECT_NE(stream.find("4\r\nsome\r\n"), std::string::npos);
  // No last chunk: the client knows that this is not all.
  EXPECT_EQ(stream.find("0\r\n\r\n"), std::string::npos);
  EXPECT_EQ(status_of(ask(get("/", k_close))), 200);
}

TEST_F(HttpTest, answers_under_way_are_finished_at_the_end) {
  std::atomic<bool> go{false};
  start({}, [&](const HttpRequest&) {
    HttpResponse out;
    out.stream = [&](const HttpResponse::Write& write, const std::function<bool()>& connected) {
      write("begin");
      while (!go && connected()) sleep_for(0.001);
      write("end");
    };
    return out;
  });
  RawClient one = client(), idle = client(), half = client();
  half.send("GET / HT");
  one.send(get("/"));
  one.receive_until("begin", 5);
  server_->stop();
  EXPECT_EQ(idle.receive_all(5), "");
  EXPECT_TRUE(idle.ended());
  EXPECT_EQ(half.receive_all(5), "");
  EXPECT_THROW(client(), std::runtime_error);
  go = true;
  const std::string rest = one.receive_all();
  EXPECT_TRUE(rest.ends_with("3\r\nend\r\n0\r\n\r\n")) << rest;
  thread_.join();
}

TEST_F(HttpTest, what_does_not_end_can_be_cut) {
  start({}, [](const HttpRequest&) {
    HttpResponse out;
    out.stream = [](const HttpResponse::Write& write, const std::function<bool()>& connected) {
      write("begin");
      while (connected()) sleep_for(0.001);
    };
    return out;
  });
  RawClient one = client();
  one.send(get("/"));
  one.receive_until("begin", 5);
  server_->stop();
  sleep_for(0.05);
  const double begun = now();
  server_->cut();
  thread_.join();
  EXPECT_LT(now() - begun, 2);
  EXPECT_EQ(one.receive_all(5), "");
}

TEST(HttpServerTest, addresses) {
  HttpOptions options;
  options.port = 0;
  HttpServer first(options, echo);
  options.port = first.bind();
  EXPECT_NE(options.port, 0);
  HttpServer second(options, echo);
  try {
    second.bind();
    ADD_FAILURE() << "the port was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::io);
    EXPECT_NE(std::string(error.what()).find("taken"), std::string::npos);
  }
  options.host = "192.0.2.1";  // of nobody (RFC 5737)
  EXPECT_THROW(HttpServer(options, echo).bind(), Error);
  options.host = "no such name";
  EXPECT_THROW(HttpServer(options, echo).bind(), Error);
  options.certificate = "a";
  EXPECT_THROW(HttpServer(options, echo), Error);
  options.key = "b";
  EXPECT_THROW(HttpServer(options, echo), Error);
  // Every address of a name.
  options = {};
  options.host = "localhost";
  options.port = 0;
  HttpServer named(options, echo);
  const uint16_t port = named.bind();
  std::thread thread([&] { named.serve(); });
  RawClient one(port);
  one.send(get("/", k_close));
  EXPECT_EQ(status_of(one.receive_all()), 200);
  named.stop();
  thread.join();
}

// The same server is asked at once by many, pieces of every size among them.
TEST_F(HttpTest, many_at_once) {
  start({}, [](const HttpRequest& request) {
    HttpResponse out;
    out.stream = [body = request.body](const HttpResponse::Write& write,
                                       const std::function<bool()>&) {
      for (size_t at = 0; at < body.size(); at += 1000) {
        if (!write(body.substr(at, 1000))) return;
      }
    };
    return out;
  });
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (uint32_t t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      RawClient one = client();
      for (int round = 0; round < 40; ++round) {
        std::string body(random() % 20'000 + 1, static_cast<char>('a' + t));
        const std::string request = post("/", body);
        for (size_t at = 0; at < request.size();) {
          const size_t n = random() % 5000 + 1;
          one.send(std::string_view(request).substr(at, n));
          at += n;
        }
        const std::string answer = one.receive_until("0\r\n\r\n", 20);
        std::string got;
        for (size_t at = answer.find("\r\n\r\n") + 4; at < answer.size();) {
          const size_t size = std::stoul(answer.substr(at), nullptr, 16);
          if (size == 0) break;
          at = answer.find("\r\n", at) + 2;
          got += answer.substr(at, size);
          at += size + 2;
        }
        if (got == body) ++right;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 320);
}

}  // namespace
}  // namespace strata::server
