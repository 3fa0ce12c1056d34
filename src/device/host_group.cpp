#include "device/host_group.h"

#include "base/error.h"
#include "device/spin.h"

namespace strata::device {
namespace {

// Until done() holds; `changes` is told whenever it may have come to hold.
template <class Done>
void wait_until(std::atomic<uint64_t>& changes, Done done) {
  if (spin_until(done)) return;
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

HostGroup::HostGroup(uint32_t members) : members_(members), partials_(members) {}

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
      // Whoever waits at a meeting of this run goes on. Not so for any other run: the meetings of
      // the one in progress have nothing to do with it. And only then is this member out, or the
      // meetings counted here might be those of the next run.
      broken_.store(true, std::memory_order_release);
      phase_.fetch_add(1, std::memory_order_acq_rel);
      phase_.notify_all();
      inside_.fetch_sub(1, std::memory_order_acq_rel);
    } else {
      const auto [found, fresh] = abandoned_.try_emplace(run, members_ - 1);
      if (!fresh) --found->second;
      if (found->second == 0) abandoned_.erase(found);
    }
  }
  tell(changes_);
}

void HostGroup::leave(uint64_t) {
  const bool broken = broken_.load(std::memory_order_acquire);
  inside_.fetch_sub(1, std::memory_order_acq_rel);
  tell(changes_);
  if (broken) fail_abandoned();
}

void HostGroup::offer(uint32_t member, const float* partial) {
  // The meeting orders this before every reading; only in a broken run is nobody waited for.
  partials_[member].store(partial, std::memory_order_relaxed);
  meet();
}

// Nobody can be a meeting ahead or behind: the phase goes on only when all members have arrived,
// and each reads it before it arrives. The last one clears the count before it moves the phase, so
// the next meeting, which begins by seeing the new phase, finds it at zero.
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
