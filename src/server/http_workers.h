// As many threads as there is work for: one is made when none is free, and one that was free for
// long ends.
//
// Their stacks are small, so that thousands of requests can be worked on at once.
// Threads: add() and add_first() from any; the destructor waits for what runs.
#pragma once

#include <pthread.h>

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <vector>

namespace strata::server {

class HttpWorkers {
 public:
  // `most` works at once of those that are not urgent; the others wait.
  explicit HttpWorkers(size_t most) : most_(most) {}
  ~HttpWorkers();
  HttpWorkers(const HttpWorkers&) = delete;
  HttpWorkers& operator=(const HttpWorkers&) = delete;

  // False when the system gives no thread and none is there that could take it.
  bool add(std::function<void()> work, bool urgent);

 private:
  struct Work {
    std::function<void()> run;
    bool urgent = false;
  };
  static void* start(void* self);
  void loop();
  bool take(Work& work);
  bool make_thread();

  const size_t most_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> urgent_, waiting_;
  size_t threads_ = 0, free_ = 0, ordinary_ = 0;  // ordinary: those at work on what is not urgent
  bool stop_ = false;
  std::vector<pthread_t> ended_;  // to be joined
};

}  // namespace strata::server
