// The server over TLS, with a certificate made for the test: the same answers as without, and
// clients that do not play along.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/error.h"
#include "raw_client.h"
#include "running_server.h"
#include "self_signed.h"

namespace strata::test {
namespace {

const SelfSigned& identity() {
  static const SelfSigned made;
  return made;
}

server::HttpOptions with_tls() {
  server::HttpOptions out;
  out.certificate = identity().certificate();
  out.key = identity().key();
  return out;
}

struct Client : httplib::SSLClient {
  explicit Client(const RunningServer& server, const SelfSigned& trusted = identity())
      : SSLClient("localhost", server.port) {
    set_address_family(AF_INET);
    set_ca_cert_path(trusted.certificate().c_str());
    enable_server_certificate_verification(true);
    set_read_timeout(120, 0);
  }
};

const Json& at(const Json& from, std::string_view key) {
  const Json* found = from.find(key);
  static const Json none;
  EXPECT_NE(found, nullptr) << key << " in " << from.dump();
  return found != nullptr ? *found : none;
}
const Json& choice_of(const Json& answer) { return at(answer, "choices").as_array().at(0); }

const char* const k_question =
    R"({"messages": [{"role": "user", "content": "What is the opposite of hot?"}],
        "temperature": 0, "max_tokens": 20})";

TEST(Tls, AnswersStreamsAndLargeBodiesAreThoseOfPlainConnections) {
  const RunningServer plain;
  const RunningServer server({}, {4, 64, 64, true}, with_tls());
  const std::string expected =
      at(at(choice_of(plain.post("/v1/chat/completions", k_question)), "message"), "content")
          .as_string();

  Client http(server);
  http.set_keep_alive(true);
  const auto answer = http.Post("/v1/chat/completions", k_question, "application/json");
  ASSERT_TRUE(answer) << httplib::to_string(answer.error());
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(at(at(choice_of(Json::parse(answer->body)), "message"), "content").as_string(),
            expected);

  // The same connection, as a stream.
  Json streamed = Json::parse(k_question);
  streamed.set("stream", true);
  const auto events = http.Post("/v1/chat/completions", streamed.dump(), "application/json");
  ASSERT_TRUE(events);
  std::string text;
  size_t place = 0;
  while ((place = events->body.find("data: {", place)) != std::string::npos) {
    const size_t end = events->body.find("\n\n", place);
    const Json event = Json::parse(events->body.substr(place + 6, end - place - 6));
    const Json* content = at(choice_of(event), "delta").find("content");
    if (content != nullptr && content->is_string()) text += content->as_string();
    place = end;
  }
  EXPECT_EQ(text, expected);
  EXPECT_NE(events->body.find("data: [DONE]"), std::string::npos);

  // Larger than a record and than the socket's buffers, both ways.
  std::string long_text;
  while (long_text.size() < 600'000) long_text += "The dog ran to the tree. ";
  const std::string body = Json::object({{"content", long_text}}).dump();
  const auto tokens = http.Post("/tokenize", body, "application/json");
  ASSERT_TRUE(tokens);
  EXPECT_EQ(tokens->status, 200);
  const auto back = http.Post("/detokenize", tokens->body, "application/json");
  ASSERT_TRUE(back);
  EXPECT_EQ(at(Json::parse(back->body), "content").as_string(), long_text);
}

TEST(Tls, ManyClientsAtOnceGetTheirOwnAnswers) {
  const RunningServer server({}, {4, 64, 64, true}, with_tls());
  const auto ask = [&](int n) -> std::string {
    Client http(server);
    const Json body = Json::object({{"prompt", "The number " + std::to_string(n) + " is"},
                                    {"temperature", 0},
                                    {"max_tokens", 12}});
    const auto answer = http.Post("/v1/completions", body.dump(), "application/json");
    return answer ? at(choice_of(Json::parse(answer->body)), "text").as_string() : "(none)";
  };
  std::vector<std::string> alone, together(12);
  for (int n = 0; n < 12; ++n) alone.push_back(ask(n));
  std::vector<std::thread> clients;
  for (int n = 0; n < 12; ++n) {
    clients.emplace_back([&, n] { together[static_cast<size_t>(n)] = ask(n); });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(together, alone);
}

TEST(Tls, ClientsThatDoNotPlayAlongHarmNobody) {
  server::HttpOptions options = with_tls();
  options.head_seconds = 1;
  const RunningServer server({}, {4, 64, 64, true}, options);
  {
    // Plain HTTP gets no answer that could be taken for one, and its connection is closed.
    RawClient plain(server.port);
    plain.send("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_EQ(plain.receive_until("", 5).find("HTTP/1.1 200"), std::string::npos);
  }
  {
    // Whoever says nothing, or half a greeting, is sent away when a head's time is over.
    RawClient silent(server.port), half(server.port);
    half.send(std::string_view("\x16\x03\x01\x02\x00\x01\x00\x01", 8));
    const auto begun = std::chrono::steady_clock::now();
    EXPECT_EQ(silent.receive_until("", 20), "");
    EXPECT_EQ(half.receive_until("", 20).find("HTTP"), std::string::npos);
    EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(15));
  }
  {
    // A client that trusts other certificates ends the greeting itself.
    const SelfSigned other;
    Client wary(server, other);
    EXPECT_FALSE(wary.Get("/health"));
  }
  Client http(server);
  const auto health = http.Get("/health");
  ASSERT_TRUE(health) << httplib::to_string(health.error());
  EXPECT_EQ(health->status, 200);
}

TEST(Tls, WhoeverLeavesInMidStreamFreesThePlace) {
  const RunningServer server({}, {4, 64, 64, true}, with_tls());
  Client http(server);
  httplib::Request request;
  request.method = "POST";
  request.path = "/v1/completions";
  request.set_header("Content-Type", "application/json");
  request.body = R"({"prompt": "Once", "max_tokens": 1500, "ignore_eos": true, "stream": true})";
  size_t seen = 0;
  request.content_receiver = [&](const char*, size_t n, uint64_t, uint64_t) {
    seen += n;
    return seen < 2000;
  };
  EXPECT_FALSE(http.send(request));
  http.stop();
  EXPECT_GE(seen, 2000U);
  EXPECT_TRUE(server.becomes_idle());
}

TEST(Tls, FilesThatDoNotBelongTogetherAreNamed) {
  const SelfSigned other;
  server::HttpOptions options;
  options.certificate = identity().certificate();
  for (const std::string& key :
       {other.key(), std::string("/nowhere/key.pem"), identity().certificate()}) {
    options.key = key;
    try {
      server::HttpServer server(options,
                                [](const server::HttpRequest&) { return server::HttpResponse{}; });
      server.bind();
      FAIL() << key;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::io);
      EXPECT_NE(std::string(error.what()).find(key), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace strata::test
