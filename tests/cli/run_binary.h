// Starts the strata binary as a user would, in an environment of its own.
//
// Purpose: exit status, standard output and standard error of one call. Standard streams are
// files, so nothing can block; no variable of the caller's environment gets through.
// Threads: each call stands alone.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/temporary_folder.h"
#include "support.h"

namespace strata::test {

struct RunOptions {
  std::string input;                               // standard input; empty: an empty file
  std::map<std::string, std::string> environment;  // beside PATH, HOME and LC_ALL
  std::string output_path;  // where standard output goes instead of a file that is read back
};

struct RunResult {
  int status = -1;  // exit status; 128 + signal when a signal ended it
  std::string out;
  std::string err;
};

inline std::string read_back(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline RunResult run_program(const std::vector<std::string>& words,
                             const RunOptions& options = {}) {
  const TemporaryFolder folder;
  const std::string in = folder.write("in", options.input);
  const std::string out = options.output_path.empty() ? folder.path("out") : options.output_path;
  const std::string err = folder.path("err");
  std::map<std::string, std::string> variables{
      {"PATH", "/usr/bin:/bin"}, {"HOME", folder.path()}, {"LC_ALL", "C.UTF-8"}};
  // Sanitizers are told how to behave through the environment.
  for (const char* name : {"ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "LSAN_OPTIONS"}) {
    if (const char* value = std::getenv(name)) variables[name] = value;
  }
  for (const auto& [name, value] : options.environment) variables[name] = value;

  std::vector<std::string> settings;
  for (const auto& [name, value] : variables) settings.push_back(name + "=" + value);
  std::vector<char*> arguments, environment;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  for (const std::string& text : settings) environment.push_back(const_cast<char*>(text.c_str()));
  arguments.push_back(nullptr);
  environment.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, in.c_str(), O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, out.c_str(), O_WRONLY | O_CREAT, 0600);
  posix_spawn_file_actions_addopen(&actions, 2, err.c_str(), O_WRONLY | O_CREAT, 0600);
  pid_t child = 0;
  const int error = ::posix_spawn(&child, words[0].c_str(), &actions, nullptr, arguments.data(),
                                  environment.data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::runtime_error("cannot start " + words[0]);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
  }
  RunResult result;
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (options.output_path.empty()) result.out = read_back(out);
  result.err = read_back(err);
  return result;
}

inline RunResult run_strata(std::vector<std::string> words, const RunOptions& options = {}) {
  words.insert(words.begin(), STRATA_BINARY);
  return run_program(words, options);
}

// One line on standard error that begins with "error: " and holds every part, and nothing on
// standard output.
inline void expect_error(const RunResult& result, int status,
                         const std::vector<std::string>& parts) {
  EXPECT_EQ(result.status, status) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_TRUE(result.err.starts_with("error: ")) << result.err;
  EXPECT_EQ(result.err.find('\n'), result.err.size() - 1) << result.err;
  for (const std::string& part : parts) {
    EXPECT_NE(result.err.find(part), std::string::npos)
        << "'" << part << "' is not in: " << result.err;
  }
}

}  // namespace strata::test
