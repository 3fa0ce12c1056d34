#include "server/http_workers.h"

#include <csignal>

#include <algorithm>
#include <chrono>
#include <utility>

namespace strata::server {
namespace {

// Below 2 MiB, so that the system does not back a stack with one huge page.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__)
constexpr size_t k_stack_bytes = size_t{16} << 20;
#else
constexpr size_t k_stack_bytes = (size_t{2} << 20) - (64 << 10);
#endif
constexpr std::chrono::seconds k_free_time{10};

}  // namespace

HttpWorkers::~HttpWorkers() {
  std::unique_lock lock(mutex_);
  stop_ = true;
  changed_.notify_all();
  changed_.wait(lock, [&] { return threads_ == 0; });
  for (const pthread_t thread : ended_) pthread_join(thread, nullptr);
}

bool HttpWorkers::add(std::function<void()> work, bool urgent) {
  std::vector<pthread_t> ended;
  bool taken = true;
  {
    const std::lock_guard lock(mutex_);
    ended.swap(ended_);
    auto& queue = urgent ? urgent_ : waiting_;
    queue.push_back({std::move(work), urgent});
    // Free threads may have been told of other work that they have not taken yet.
    const size_t startable = most_ - std::min(most_, ordinary_);
    const size_t wanted = urgent_.size() + std::min(waiting_.size(), startable);
    if (wanted > free_ && !make_thread() && threads_ == 0) {
      queue.pop_back();
      taken = false;
    }
  }
  changed_.notify_one();
  for (const pthread_t thread : ended) pthread_join(thread, nullptr);
  return taken;
}

bool HttpWorkers::make_thread() {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, k_stack_bytes);
  // Signals are for the program's own threads; SIGPIPE for none.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread{};
  const int error = pthread_create(&thread, &attributes, &HttpWorkers::start, this);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  if (error != 0) return false;
  ++threads_;
  ++free_;
  return true;
}

void* HttpWorkers::start(void* self) {
  static_cast<HttpWorkers*>(self)->loop();
  return nullptr;
}

bool HttpWorkers::take(Work& work) {
  for (auto* queue : {&urgent_, &waiting_}) {
    if (queue->empty() || (queue == &waiting_ && ordinary_ >= most_)) continue;
    work = std::move(queue->front());
    queue->pop_front();
    return true;
  }
  return false;
}

void HttpWorkers::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    Work work;
    const bool found = changed_.wait_for(lock, k_free_time, [&] {
      return take(work) || (stop_ && urgent_.empty() && waiting_.empty());
    });
    if (!found || !work.run) break;
    --free_;
    if (!work.urgent) ++ordinary_;
    lock.unlock();
    work.run();
    work.run = nullptr;  // with what it holds
    lock.lock();
    if (!work.urgent) --ordinary_;
    ++free_;
    if (!waiting_.empty()) changed_.notify_one();
  }
  --free_;
  --threads_;
  ended_.push_back(pthread_self());
  if (threads_ == 0) changed_.notify_all();
}

}  // namespace strata::server
