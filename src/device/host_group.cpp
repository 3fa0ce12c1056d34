#include "device/host_group.h"

#include "base/error.h"

namespace strata::device {
namespace {

// About 50 us before a waiting thread goes to sleep.
constexpr int k_spins = 4000;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Until done() holds; `changes` is told whenever it may have come to hold.
template <class Done>
void wait_until(std::atomic<uint64_t>& changes, Done done) {
  for (int spins = 0; spins < k_spins; ++spins) {
    if (done()) return;
    pause();
  }
  for (;;) {
    const uint64_t seen = changes.load(std::memory_order_acquire);
    if (done()) return;
    changes.wait(seen, std::memory_order_acquire);
  }
}

void tell(std::atomic<uint64_t>& changes) {
  changes.fetch_add(1, std::memory_order_acq_rel);
  changes.notify_all();
}

[[noreturn]] void fail_abandoned() {
  fail(ErrorCode::internal, "another device of the group failed");
}

}  // namespace

HostGroup::HostGroup(uint32_t members) : members_(members), partials_(members, nullptr) {}

bool HostGroup::abandoned(uint64_t run) {
  const std::lock_guard lock(mutex_);
  return abandoned_.contains(run);
}

// One member less that has yet to hear that the run is abandoned.
void HostGroup::count_out(uint64_t run) {
  const std::lock_guard lock(mutex_);
  const auto found = abandoned_.find(run);
  if (found != abandoned_.end() && --found->second == 0) abandoned_.erase(found);
}

void HostGroup::enter(uint32_t member, uint64_t run) {
  if (member == 0) {
    wait_until(changes_, [&] { return inside_.load(std::memory_order_acquire) == 0; });
    const std::lock_guard lock(mutex_);
    if (const auto found = abandoned_.find(run); found != abandoned_.end()) {
      if (--found->second == 0) abandoned_.erase(found);
      fail_abandoned();
    }
    arrived_.store(0, std::memory_order_relaxed);
    broken_.store(false, std::memory_order_relaxed);
    inside_.store(members_, std::memory_order_release);
    current_.store(run, std::memory_order_release);
    tell(changes_);
    return;
  }
  bool joined = false;
  wait_until(changes_, [&] {
    joined = current_.load(std::memory_order_acquire) == run;
    return joined || abandoned(run);
  });
  if (!joined) {
    count_out(run);
    fail_abandoned();
  }
}

void HostGroup::abandon(uint64_t run) {
  {
    const std::lock_guard lock(mutex_);
    if (current_.load() == run) {
      broken_.store(true, std::memory_order_release);
      inside_.fetch_sub(1, std::memory_order_acq_rel);
    } else {
      const auto [found, fresh] = abandoned_.try_emplace(run, members_ - 1);
      if (!fresh) --found->second;
      if (found->second == 0) abandoned_.erase(found);
    }
  }
  phase_.fetch_add(1, std::memory_order_acq_rel);
  phase_.notify_all();
  tell(changes_);
}

void HostGroup::leave(uint64_t) {
  const bool broken = broken_.load(std::memory_order_acquire);
  inside_.fetch_sub(1, std::memory_order_acq_rel);
  tell(changes_);
  if (broken) fail_abandoned();
}

void HostGroup::offer(uint32_t member, const float* partial) {
  partials_[member] = partial;
  meet();
}

void HostGroup::meet() {
  if (broken_.load(std::memory_order_acquire)) return;
  const uint64_t phase = phase_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == members_) {
    arrived_.store(0, std::memory_order_relaxed);
    phase_.fetch_add(1, std::memory_order_acq_rel);
    phase_.notify_all();
    return;
  }
  wait_until(phase_, [&] {
    return phase_.load(std::memory_order_acquire) != phase ||
           broken_.load(std::memory_order_acquire);
  });
}

}  // namespace strata::device
