// Files through the binary: those that are none, and what a run that is ended leaves behind.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <thread>

#include "run_binary.h"
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

}  // namespace
}  // namespace strata::test
