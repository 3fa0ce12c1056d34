// strata chat with a server: the same conversation as with the model itself.
#include <gtest/gtest.h>

#include "run_binary.h"
#include "serve_process.h"

namespace strata {
namespace {

using test::expect_error;
using test::run_strata;
using test::RunOptions;
using test::RunResult;
using test::ServeProcess;

std::string demo_model() { return test::source_path("models/demo-q8_0.gguf"); }

RunResult chat(std::vector<std::string> words, const std::string& input) {
  words.insert(words.begin(), "chat");
  RunOptions options;
  options.input = input;
  return run_strata(words, options);
}

TEST(ChatUrl, says_what_the_model_says) {
  ServeProcess server({"-m", demo_model()});
  const std::string talk = "What color is the sky?\nWhat is one plus one?\n";
  const std::vector<std::string> greedy{"--temp", "0", "-n", "40", "-sys", "You are a child."};
  std::vector<std::string> here{"-m", demo_model()}, there{"--url", server.url()};
  here.insert(here.end(), greedy.begin(), greedy.end());
  there.insert(there.end(), greedy.begin(), greedy.end());
  const RunResult local = chat(here, talk);
  const RunResult remote = chat(there, talk);
  EXPECT_EQ(remote.status, 0) << remote.err;
  EXPECT_EQ(remote.out, local.out);
  EXPECT_NE(remote.err.find("demo-q8_0 at " + server.url()), std::string::npos) << remote.err;
  // A trailing /v1, as other programs want it, is the same address.
  there[1] = server.url() + "/v1/";
  EXPECT_EQ(chat(there, talk).out, local.out);
  EXPECT_EQ(server.end(), 0);
}

TEST(ChatUrl, what_is_not_said_is_the_servers_to_decide) {
  // Greedy by the server's own settings; a seed alone would not make two runs alike.
  ServeProcess server({"-m", demo_model(), "--temp", "0"});
  const RunResult a = chat({"--url", server.url(), "-n", "30"}, "Tell me a story.\n");
  const RunResult b =
      chat({"--url", server.url(), "-n", "30", "--temp", "0"}, "Tell me a story.\n");
  EXPECT_EQ(a.status, 0) << a.err;
  EXPECT_FALSE(a.out.empty());
  EXPECT_EQ(a.out, b.out);
}

TEST(ChatUrl, mistakes_are_told) {
  expect_error(chat({"--url", "localhost:8080"}, "hello\n"), 2, {"--url", "http://HOST:PORT"});
  expect_error(chat({"--url", "http://"}, "hello\n"), 2, {"--url"});
  expect_error(chat({"--url", "http://127.0.0.1:1", "-m", "x.gguf"}, ""), 2, {"exclude"});
  expect_error(chat({"--url", "http://127.0.0.1:1"}, "hello\n"), 1,
               {"http://127.0.0.1:1", "is a server running there?"});
  ServeProcess server({"-m", demo_model(), "--api-key", "secret"});
  expect_error(chat({"--url", server.url()}, "hello\n"), 1, {"API key", "--api-key"});
  const RunResult right =
      chat({"--url", server.url(), "--api-key", "secret", "-n", "3"}, "hello\n");
  EXPECT_EQ(right.status, 0) << right.err;
  // Too long for the context: said in the server's words, the conversation goes on.
  std::string words;
  for (int i = 0; i < 3000; ++i) words += "cat ";
  const RunResult full =
      chat({"--url", server.url(), "--api-key", "secret", "-n", "3"}, words + "\nhello\n");
  EXPECT_EQ(full.status, 1);
  EXPECT_NE(full.err.find("context holds"), std::string::npos) << full.err;
  EXPECT_FALSE(full.out.empty());
}

// What cannot be followed by any request is refused before the model is read.
TEST(ServeCommand, refuses_template_variables_that_only_a_conversation_gives) {
  for (const char* given : {R"({"messages": []})", R"({"tools": []})", "[1]", "{"}) {
    expect_error(
        run_strata({"serve", "-m", demo_model(), "--port", "0", "--chat-template-kwargs", given}),
        2, {"--chat-template-kwargs"});
  }
}

TEST(ServeCommand, refuses_origins_that_no_page_has_and_an_empty_name) {
  const auto serve = [&](const char* name, const char* value) {
    return run_strata({"serve", "-m", "absent.gguf", "--port", "0", name, value});
  };
  for (const char* origin : {"evil", "https://", "://a", "https://a/b", "https://a,https://b"}) {
    expect_error(serve("--cors-origin", origin), 2, {"--cors-origin", "https://example.com"});
  }
  for (const char* origin : {"https://a.example", "http://localhost:3000/", "*", "null"}) {
    const RunResult run = serve("--cors-origin", origin);  // goes on to the model
    EXPECT_NE(run.err.find("absent.gguf"), std::string::npos) << run.err;
  }
  expect_error(serve("--alias", ""), 2, {"--alias"});
}

}  // namespace
}  // namespace strata
