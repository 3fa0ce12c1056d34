// The event stream's reader, and a client against servers that misbehave.
#include "server/client.h"

#include <gtest/gtest.h>
#include <httplib.h>

#include <thread>

#include "base/error.h"

namespace strata::server {
namespace {

TEST(EventReader, the_same_events_whatever_the_pieces) {
  // Fields, comments, both line ends and data of several lines, as the specification of
  // server-sent events has them.
  const std::string stream =
      ": ping\n\ndata: one\n\nevent: x\r\ndata:two\r\n\r\ndata: a\ndata: b\n\nid: 7\n\ndata: \n\n";
  const std::vector<std::string> want{"one", "two", "a\nb"};
  for (size_t size = 1; size <= stream.size(); ++size) {
    EventReader reader;
    std::vector<std::string> got;
    for (size_t at = 0; at < stream.size(); at += size) {
      for (std::string& data : reader.push(std::string_view(stream).substr(at, size))) {
        got.push_back(std::move(data));
      }
    }
    EXPECT_EQ(got, want) << size;
  }
}

// A server that answers every chat with the same bytes.
class Fake {
 public:
  Fake(int status, std::string body) {
    server_.Get("/v1/models", [](const httplib::Request&, httplib::Response& out) {
      out.set_content(R"({"data":[{"id":"fake"}]})", "application/json");
    });
    server_.Post("/v1/chat/completions",
                 [status, body](const httplib::Request&, httplib::Response& out) {
                   out.status = status;
                   out.set_content(body, "text/event-stream");
                 });
    port_ = server_.bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    while (!server_.is_running()) std::this_thread::yield();
  }
  ~Fake() {
    server_.stop();
    thread_.join();
  }
  std::string url() const { return fmt::format("http://127.0.0.1:{}", port_); }

 private:
  httplib::Server server_;
  int port_ = 0;
  std::thread thread_;
};

ChatClient::Answer ask(const Fake& server, std::string* reasoning = nullptr) {
  ChatClient client({server.url(), "", 5});
  ChatClient::Sinks sinks;
  sinks.reasoning = [&](std::string_view text) {
    if (reasoning != nullptr) *reasoning += text;
  };
  return client.chat({{"user", "hello"}}, Json::object(), sinks);
}

std::string event(const std::string& delta, const std::string& reason = "null") {
  return fmt::format(
      "data: {{\"choices\":[{{\"index\":0,\"delta\":{},\"finish_reason\":{}}}]}}\n\n", delta,
      reason);
}

TEST(ChatClient, reads_what_servers_send) {
  const Fake server(
      200, event(R"({"role":"assistant","content":""})") + event(R"({"reasoning_content":"hm"})") +
               event(R"({"reasoning":"m","content":null})") + event(R"({"content":"Hel"})") +
               ": ping\n\n" + event(R"({"content":"lo"})") + event("{}", "\"length\"") +
               "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,"
               "\"completion_tokens\":4}}\n\ndata: [DONE]\n\n");
  std::string reasoning;
  const auto answer = ask(server, &reasoning);
  EXPECT_EQ(answer.result.text, "Hello");
  EXPECT_EQ(reasoning, "hmm");
  EXPECT_EQ(answer.result.reason, StopReason::length);
  EXPECT_EQ(answer.tokens, 4u);
  EXPECT_EQ(answer.result.prompt_tokens, 9u);
}

TEST(ChatClient, servers_that_misbehave_are_errors) {
  const auto code_of = [](int status, const std::string& body) {
    const Fake server(status, body);
    try {
      ask(server);
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::usage;  // none
  };
  EXPECT_EQ(code_of(200, event(R"({"content":"Hel"})")), ErrorCode::io);  // no end
  EXPECT_EQ(code_of(200, "data: {nonsense\n\n"), ErrorCode::bad_request);
  EXPECT_EQ(code_of(200, "data: {\"error\":{\"message\":\"broken\"}}\n\n"), ErrorCode::internal);
  EXPECT_EQ(code_of(500, "<html>"), ErrorCode::internal);
  EXPECT_EQ(code_of(429, R"({"error":{"message":"busy","type":"x"}})"), ErrorCode::busy);
  EXPECT_EQ(
      code_of(400, R"({"error":{"message":"long","type":"exceed_context_size_error","code":400}})"),
      ErrorCode::does_not_fit);
  EXPECT_EQ(code_of(200, "data: {\"choices\":[7]}\n\ndata: [DONE]\n\n"), ErrorCode::usage);
}

}  // namespace
}  // namespace strata::server
