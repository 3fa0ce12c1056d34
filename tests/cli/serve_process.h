// `strata serve` as a process of its own, on a free port.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "run_binary.h"

namespace strata::test {

class ServeProcess {
 public:
  // Returns when it listens; throws when it ends before.
  explicit ServeProcess(std::vector<std::string> words) {
    words.insert(words.begin(), {STRATA_BINARY, "serve", "--port", "0"});
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 2, log().c_str(), O_WRONLY | O_CREAT, 0600);
    const int error =
        ::posix_spawn(&child_, STRATA_BINARY, &actions, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) throw std::runtime_error("cannot start strata serve");
    for (int i = 0; i < 3000; ++i) {
      const std::string text = read_back(log());
      const size_t at = text.find("listening on ");
      if (at != std::string::npos) {
        const size_t end = text.find(';', at);
        if (end != std::string::npos) {
          url_ = text.substr(at + 13, end - at - 13);
          return;
        }
      }
      int status = 0;
      if (::waitpid(child_, &status, WNOHANG) == child_) {
        child_ = 0;
        throw std::runtime_error("strata serve ended: " + text);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    throw std::runtime_error("strata serve does not listen");
  }
  ~ServeProcess() {
    if (child_ == 0) return;
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  ServeProcess(const ServeProcess&) = delete;
  ServeProcess& operator=(const ServeProcess&) = delete;

  const std::string& url() const { return url_; }  // "http://127.0.0.1:40123"
  pid_t process() const { return child_; }
  // What it has said so far.
  std::string said() const { return read_back(log()); }
  // Asks it to end; its exit status, 128 + signal when a signal ended it.
  int end(int signal = SIGTERM) {
    ::kill(child_, signal);
    int status = 0;
    while (::waitpid(child_, &status, 0) < 0) {
    }
    child_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  std::string log() const { return folder_.path("log"); }

  TemporaryFolder folder_;
  pid_t child_ = 0;
  std::string url_;
};

}  // namespace strata::test
