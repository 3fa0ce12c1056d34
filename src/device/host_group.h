// Devices in host memory that run one program each, together: a tensor-parallel group.
//
// Purpose: brings the members to the same run and, inside it, to the same all-reduce; lets each
// read what the others offer there. Waiting is by spinning briefly, then sleeping.
// Order: runs have numbers, each used once. Member 0 begins a run when the one before has been left
// by all; the others join the run that member 0 is in. So members whose queues hold several runs
// never wait for each other crosswise, as long as runs that share a queue on one member share one
// on each, in the same order. Failure: a member that cannot take part abandons the run. Whoever
// waits for it then goes on, with whatever data, and leave() tells it by ErrorCode::internal.
// Ownership: the runtime holds one per group; runs in flight hold it too.
// Threads: each member calls from one thread at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

namespace strata::device {

class HostGroup {
 public:
  explicit HostGroup(uint32_t members);

  uint32_t members() const { return members_; }

  // Member 0, holding all that it needs to run; the others before they take what they need.
  // Throws ErrorCode::internal when a member has abandoned the run; the run is then over for this
  // one too.
  void enter(uint32_t member, uint64_t run);
  // Instead of enter and leave, by a member that cannot run.
  void abandon(uint64_t run);
  // Throws when the run was abandoned meanwhile.
  void leave(uint64_t run);

  // Between enter and leave: waits until all members have offered theirs.
  void offer(uint32_t member, const float* partial);
  // Null also when the run is abandoned: what others offered may be gone.
  const float* partial(uint32_t member) const {
    if (broken_.load(std::memory_order_acquire)) return nullptr;
    return partials_[member].load(std::memory_order_relaxed);
  }
  // Waits until all members are here.
  void meet();

 private:
  bool abandoned(uint64_t run);
  void count_out(uint64_t run);

  const uint32_t members_;
  std::vector<std::atomic<const float*>> partials_;

  alignas(64) std::atomic<uint64_t> current_{UINT64_MAX};  // run that member 0 has begun
  std::atomic<uint32_t> inside_{0};                        // members that have not left it
  alignas(64) std::atomic<uint32_t> arrived_{0};           // at the present meeting
  alignas(64) std::atomic<uint64_t> phase_{0};             // meetings so far, and broken runs
  std::atomic<bool> broken_{false};                        // the current run is abandoned
  alignas(64) std::atomic<uint64_t> changes_{0};           // of anything that enter waits for
  std::mutex mutex_;
  std::map<uint64_t, uint32_t> abandoned_;  // run -> members that have yet to hear of it
};

}  // namespace strata::device
