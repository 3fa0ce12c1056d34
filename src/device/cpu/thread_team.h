// A team of threads that carry out one function together.
//
// Purpose: fork-join for the CPU device. The calling thread is rank 0. Threads wait by spinning
// briefly and then sleeping, so that a busy machine is not stalled by spinners.
// Not for: concurrent callers; a team belongs to one queue.
// Threads: run() from one thread at a time; barrier() from the team's ranks only.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "device/host_context.h"

namespace strata::device::cpu {

class ThreadTeam final : public TeamBarrier {
 public:
  // `cores`: logical processors to pin ranks to, in order; empty: no pinning. Rank 0 is the caller,
  // which is pinned when it calls pin_caller().
  ThreadTeam(uint32_t n_threads, std::vector<uint32_t> cores);
  ~ThreadTeam() override;
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  uint32_t size() const { return size_; }

  // Pins the calling thread to rank 0's processor, when ranks are pinned: otherwise the system may
  // put it where another rank is.
  void pin_caller() const;

  // Runs function(argument, rank) on ranks 0 to n_ranks - 1 (at most size()) and returns when all
  // are done. It must not throw.
  using Function = void (*)(void* argument, uint32_t rank);
  void run(Function function, void* argument, uint32_t n_ranks);

  void barrier(uint32_t rank) override;

 private:
  void worker(uint32_t rank, uint32_t core, bool pin);
  void end();

  uint32_t size_;
  std::vector<uint32_t> cores_;
  std::vector<std::thread> threads_;

  // Work: a new epoch announces a function. Its low 16 bits say how many ranks take part, so that
  // a rank that sits out never looks at anything else.
  std::atomic<uint64_t> epoch_{0};
  Function function_ = nullptr;
  void* argument_ = nullptr;
  std::atomic<bool> stop_{false};
  uint32_t active_ = 1;  // ranks of the current run, for the barrier
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<uint32_t> sleepers_{0};

  // Barrier: arrivals of the current phase.
  alignas(64) std::atomic<uint32_t> arrived_{0};
  alignas(64) std::atomic<uint64_t> phase_{0};
};

// Logical processors this process may use (affinity and cgroup quota taken into account): the list
// and how many may be busy at once.
struct CpuLimits {
  std::vector<uint32_t> processors;  // in the affinity mask, one per physical core first
  uint32_t physical = 1;             // physical cores among them
  uint32_t usable = 1;               // min(physical, cgroup quota rounded up)
};
CpuLimits cpu_limits();

// Processors of each NUMA node of the machine, by the node's number, as the system lists them;
// empty when it does not. `folder`: where it lists them.
std::map<uint32_t, std::vector<uint32_t>> numa_nodes(
    const std::string& folder = "/sys/devices/system/node");

// "0-3,8" -> 0 1 2 3 8; absent when the text is no such list.
std::optional<std::vector<uint32_t>> parse_processors(std::string_view list);

// Bytes of memory this process may use: the machine's, or the cgroup's limit when lower.
uint64_t memory_limit();
// What is free of it now, or would be once the system dropped its caches of files.
uint64_t memory_available();
// The same of the cgroup whose files lie in `folder` (of either version); absent when it has no
// limit or they cannot be read.
std::optional<uint64_t> cgroup_memory_available(const std::string& folder);

}  // namespace strata::device::cpu
