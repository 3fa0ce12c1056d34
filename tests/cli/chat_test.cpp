// strata chat from outside: on a pipe, and on a terminal of its own.
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <termios.h>

#include <chrono>

#include "run_binary.h"

namespace strata {
namespace {

using test::expect_error;
using test::run_program;
using test::run_strata;
using test::RunOptions;
using test::RunResult;
using test::TemporaryFolder;

using Words = std::vector<std::string>;

std::string demo_model() { return test::source_path("models/demo-q8_0.gguf"); }

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

RunResult chat_on_pipe(const std::string& input, const Words& more = {}) {
  Words words{"chat", "-m", demo_model(), "--temp", "0"};
  words.insert(words.end(), more.begin(), more.end());
  RunOptions options;
  options.input = input;
  return run_strata(words, options);
}

// The binary on a terminal: types keys and waits for what they bring.
class OnTerminal {
 public:
  explicit OnTerminal(Words words) {
    words.insert(words.begin(), STRATA_BINARY);
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    winsize size{};
    size.ws_row = 40;
    size.ws_col = 100;
    child_ = ::forkpty(&terminal_, nullptr, nullptr, &size);
    if (child_ == 0) {
      ::setenv("HOME", home_.path().c_str(), 1);
      ::setenv("TERM", "xterm", 1);
      ::unsetenv("XDG_STATE_HOME");
      ::unsetenv("XDG_CONFIG_HOME");
      ::execv(STRATA_BINARY, arguments.data());
      ::_exit(127);
    }
  }
  ~OnTerminal() {
    if (child_ > 0) {
      ::kill(child_, SIGKILL);
      ::waitpid(child_, nullptr, 0);
    }
    if (terminal_ >= 0) ::close(terminal_);
  }
  OnTerminal(const OnTerminal&) = delete;
  OnTerminal& operator=(const OnTerminal&) = delete;

  void type(const std::string& keys) {
    seen_.clear();
    ASSERT_EQ(::write(terminal_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }

  // Waits until what came since the last type() holds `part`.
  ::testing::AssertionResult shows(const std::string& part) {
    while (!contains(seen_, part)) {
      if (!read_more()) {
        return ::testing::AssertionFailure()
               << "'" << part << "' did not come; there is: " << seen_;
      }
    }
    return ::testing::AssertionSuccess();
  }

  // Exit status once it has ended by itself.
  int status() {
    while (read_more()) {
    }
    for (int tries = 0; tries < 600; ++tries) {
      int status = 0;
      if (::waitpid(child_, &status, WNOHANG) == child_) {
        child_ = 0;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      }
      ::usleep(100000);
    }
    return -1;
  }

 private:
  bool read_more() {
    pollfd wait{terminal_, POLLIN, 0};
    if (::poll(&wait, 1, 60000) <= 0) return false;
    char chunk[4096];
    const ssize_t got = ::read(terminal_, chunk, sizeof chunk);
    if (got <= 0) return false;
    seen_.append(chunk, static_cast<size_t>(got));
    return true;
  }

  TemporaryFolder home_;
  pid_t child_ = 0;
  int terminal_ = -1;
  std::string seen_;
};

Words chat_words() { return {"chat", "-m", demo_model(), "--temp", "0"}; }

TEST(ChatOnPipe, EndsWithOneWhenATurnFailed) {
  const RunResult good = chat_on_pipe("What is 3 + 4?\n");
  EXPECT_EQ(good.status, 0) << good.err;
  EXPECT_EQ(good.out, "7\n");
  // Too long for the context; the next message is answered all the same.
  const std::string longer(600, 'x');
  const RunResult failed = chat_on_pipe(longer + "\nWhat is 3 + 4?\n", {"-c", "64"});
  EXPECT_EQ(failed.status, 1);
  EXPECT_EQ(failed.out, "7\n");
  EXPECT_TRUE(contains(failed.err, "error: the prompt has")) << failed.err;
  for (const char* command : {"/load", "/load no-such-file.json", "/laod x", "/reset now"}) {
    const RunResult result = chat_on_pipe(std::string(command) + "\n");
    EXPECT_EQ(result.status, 1) << command;
    EXPECT_TRUE(contains(result.err, "error: ")) << result.err;
  }
}

TEST(ChatOnPipe, OnlyTheExactCommandIsOne) {
  const RunResult more = chat_on_pipe("/exit now?\nWhat is 3 + 4?\n");
  EXPECT_EQ(more.status, 1);
  EXPECT_EQ(more.out, "7\n");
  EXPECT_TRUE(contains(more.err, "/exit stands alone")) << more.err;
  for (const char* leave : {"/exit", "/exit  ", "/quit", "/bye"}) {
    const RunResult result = chat_on_pipe(std::string(leave) + "\nWhat is 3 + 4?\n");
    EXPECT_EQ(result.status, 0) << leave;
    EXPECT_EQ(result.out, "") << leave;
  }
  // The conversation is still there after a /reset that was none.
  const TemporaryFolder folder;
  const std::string path = folder.path("kept.json");
  chat_on_pipe("What is 3 + 4?\n/reset the counter\n/save " + path + "\n");
  EXPECT_TRUE(contains(test::read_back(path), "What is 3 + 4?"));
  // A space makes it a message.
  const std::string other = folder.path("message.json");
  const RunResult text = chat_on_pipe(" /exit\n/save " + other + "\n");
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_TRUE(contains(test::read_back(other), "\" /exit\""));
}

TEST(ChatOnPipe, BiasOutsideTheVocabularyComesBeforeAnything) {
  expect_error(chat_on_pipe("hi\n", {"-l", "1024+1"}), 2, {"-l", "1024", "0 to 1023"});
  EXPECT_EQ(chat_on_pipe("What is 3 + 4?\n", {"-l", "1023+0"}).out, "7\n");
}

TEST(ChatOnPipe, ClosedInput) {
  const RunResult result =
      run_program({"/bin/bash", "--norc", "-c",
                   std::string(STRATA_BINARY) + " chat -m " + demo_model() + " <&-"});
  EXPECT_EQ(result.status, 1);
  EXPECT_TRUE(contains(result.err, "error: cannot read standard input: it is closed"))
      << result.err;
}

TEST(ChatOnTerminal, InterruptClearsAHalfTypedLine) {
  OnTerminal chat(chat_words());
  ASSERT_TRUE(chat.shows("> "));
  chat.type("/exit");
  ASSERT_TRUE(chat.shows("/exit"));
  chat.type("\x03");
  ASSERT_TRUE(chat.shows("^C\r\n> "));
  chat.type("What is 3 + 4?\r");
  ASSERT_TRUE(chat.shows("7\r\n"));
  ASSERT_TRUE(chat.shows("> "));
  // A message that goes on in the next line is cleared as a whole.
  chat.type("What is 3 + 5?\\\r");
  ASSERT_TRUE(chat.shows(". "));
  chat.type("\x03");
  ASSERT_TRUE(chat.shows("^C\r\n> "));
  chat.type("What is 1 + 1?\r");
  ASSERT_TRUE(chat.shows("2\r\n"));
  ASSERT_TRUE(chat.shows("> "));
  chat.type("\x03");
  EXPECT_EQ(chat.status(), 130);
}

TEST(ChatOnTerminal, FailedTurnsAreSeenAndEndWithZero) {
  OnTerminal chat(chat_words());
  ASSERT_TRUE(chat.shows("> "));
  chat.type("/nonsense\r");
  ASSERT_TRUE(chat.shows("is not known"));
  ASSERT_TRUE(chat.shows("> "));
  chat.type("\x04");
  EXPECT_EQ(chat.status(), 0);
}

}  // namespace
}  // namespace strata
