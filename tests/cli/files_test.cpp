// Files through the binary: those that are none, and what a run that is ended leaves behind.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "base/file.h"
#include "base/folder_entries.h"
#include "run_binary.h"
#include "strata/last_signal.h"
#include "watchdog.h"

namespace strata::test {
namespace {

TEST(Files, AModelIsARegularFile) {
  const Watchdog watchdog(std::chrono::seconds(120));
  const TemporaryFolder folder;
  const std::string pipe = folder.path("pipe.gguf");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const std::vector<std::string> verbs[] = {
      {"inspect"},
      {"tokenize", "-p", "x", "-m"},
      {"plan", "-m"},
      {"run", "-p", "x", "-m"},
      {"run", "--no-mmap", "-p", "x", "-m"},
      {"serve", "--port", "0", "-m"},
      {"bench", "-m"},
      {"synth", "--shape", "llama-1b", "-o", folder.path("out"), "--vocab"}};
  for (std::vector<std::string> words : verbs) {
    words.push_back(pipe);
    expect_error(run_strata(words), 1, {"'" + pipe + "'", "a pipe (FIFO), not a regular file"});
  }
  expect_error(run_strata({"inspect", "/dev/zero"}), 1,
               {"'/dev/zero'", "a character device, not a regular file"});
  expect_error(run_strata({"inspect", folder.path()}), 1, {"is a folder"});
}

TEST(Files, WhatNobodyNamedIsNotWaitedFor) {
  const Watchdog watchdog(std::chrono::seconds(60));
  const TemporaryFolder folder;
  RunOptions options;
  options.environment["XDG_CONFIG_HOME"] = folder.path();
  std::filesystem::create_directories(folder.path("strata"));
  const std::string config = folder.path("strata/config.ini");
  ASSERT_EQ(::mkfifo(config.c_str(), 0600), 0);
  expect_error(run_strata({"plan", "--shape", "llama-1b"}, options), 1,
               {"'" + config + "'", "a pipe (FIFO), not a regular file"});
}

// A text may come through a pipe: somebody will write into it.
TEST(Files, ATextMayComeThroughAPipe) {
  const Watchdog watchdog(std::chrono::seconds(60));
  const TemporaryFolder folder;
  const std::string pipe = folder.path("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(pipe) << "hello"; });
  const RunResult result =
      run_strata({"tokenize", "-m", source_path("models/demo-q8_0.gguf"), "-f", pipe, "--ids"});
  writer.join();
  EXPECT_EQ(result.status, 0) << result.err;
  const RunResult plain =
      run_strata({"tokenize", "-m", source_path("models/demo-q8_0.gguf"), "-p", "hello", "--ids"});
  EXPECT_EQ(result.out, plain.out);
  EXPECT_NE(plain.out, "");
}

// Sends the signal to a synth that has begun to write and returns how it ended.
int interrupted_synth(const std::string& path, int signal) {
  std::vector<std::string> words{STRATA_BINARY, "synth", "--shape", "llama-3-8b",
                                 "-t",          "1",     "-o",      path};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(signal, SIG_DFL);  // a shell's background jobs ignore some
    ::execv(STRATA_BINARY, arguments.data());
    ::_exit(127);
  }
  if (child < 0) return -1;
  // A little is written, the most is not.
  const std::string counts = "/proc/" + std::to_string(child) + "/io";
  for (int i = 0; i < 6000; ++i) {
    std::ifstream in(counts);
    std::string key;
    uint64_t value = 0;
    while (in >> key >> value && key != "wchar:") {
    }
    if (key == "wchar:" && value > (4u << 20)) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ::kill(child, signal);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
  }
  return WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status);
}

TEST(Files, AnInterruptedSynthLeavesNothing) {
  const Watchdog watchdog(std::chrono::seconds(300));
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGKILL}) {
    const TemporaryFolder folder;
    EXPECT_EQ(interrupted_synth(folder.path("m.gguf"), signal), signal);
    EXPECT_EQ(entries(folder.path()), 0u);
    const std::string old = folder.write("old.gguf", "old");
    EXPECT_EQ(interrupted_synth(old, signal), signal);
    EXPECT_EQ(read_back(old), "old");
    EXPECT_EQ(entries(folder.path()), 1u);
  }
}

// Where files without a name cannot be had.
TEST(Files, ANamedTemporaryGoesWithTheLastSignal) {
  for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGPIPE, SIGTERM, SIGXCPU}) {
    for (const bool ignored : {false, true}) {
      const TemporaryFolder folder;
      const pid_t child = ::fork();
      if (child == 0) {
        rlimit none{};
        ::setrlimit(RLIMIT_CORE, &none);
        ::signal(signal, ignored ? SIG_IGN : SIG_DFL);
        app::clean_up_at_last_signal();
        OutputFile file(folder.path("a"), OutputFile::Temporary::named);
        if (entries(folder.path()) != 1) ::_exit(2);
        ::raise(signal);
        file.close();
        ::_exit(3);
      }
      int status = 0;
      ASSERT_EQ(::waitpid(child, &status, 0), child);
      if (ignored) {
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 3) << signal;
      } else {
        EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal) << signal;
      }
      EXPECT_EQ(entries(folder.path()), ignored ? 1u : 0u);
    }
  }
}

TEST(Files, ALimitOfTheFileSizeIsAnError) {
  const TemporaryFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit little{1 << 20, 1 << 20};
    ::setrlimit(RLIMIT_FSIZE, &little);
    const std::string path = folder.path("m.gguf");
    ::execl(STRATA_BINARY, "strata", "synth", "--shape", "llama-1b", "-o", path.c_str(), nullptr);
    ::_exit(127);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1);
  EXPECT_EQ(entries(folder.path()), 0u);
}

}  // namespace
}  // namespace strata::test
