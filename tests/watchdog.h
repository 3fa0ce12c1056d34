// Ends the process when a test takes too long, so that a deadlock is a failure with a name.
//
// Threads: one thread of its own for as long as the object lives.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>

namespace strata::test {

// A number of repetitions, fewer where every step is watched by a sanitizer. The environment's
// STRATA_TEST_REPEAT multiplies it.
inline int repeated(int count) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  count = (count + 9) / 10;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
  count = (count + 9) / 10;
#endif
#endif
  const char* factor = std::getenv("STRATA_TEST_REPEAT");
  return factor != nullptr && std::atof(factor) > 0
             ? std::max(1, static_cast<int>(count * std::atof(factor)))
             : count;
}

class Watchdog {
 public:
  explicit Watchdog(std::chrono::seconds limit, std::string what = "the test")
      : what_(std::move(what)), thread_([this, limit] { watch(limit); }) {}
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // What is being done now, for the message.
  void at(std::string what) {
    const std::lock_guard lock(mutex_);
    what_ = std::move(what);
  }

 private:
  void watch(std::chrono::seconds limit) {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, limit, [this] { return done_; })) return;
    std::fprintf(stderr, "watchdog: %s took more than %lld s\n", what_.c_str(),
                 static_cast<long long>(limit.count()));
    std::abort();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::string what_;
  bool done_ = false;
  std::thread thread_;  // last: starts when everything else is there
};

}  // namespace strata::test
