#include "device/cpu/thread_team.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <utility>

#include "base/start_thread.h"
#include "device/spin.h"

namespace strata::device::cpu {
namespace {

// Epochs count in steps of 2^16; below lies the number of ranks.
constexpr uint64_t k_epoch_step = 1 << 16;

void pin_this_thread(uint32_t core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  // A refusal (the mask changed meanwhile) only costs speed.
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

}  // namespace

ThreadTeam::ThreadTeam(uint32_t n_threads, std::vector<uint32_t> cores)
    : size_(n_threads == 0 ? 1 : n_threads), cores_(std::move(cores)) {
  for (uint32_t rank = 1; rank < size_; ++rank) {
    const bool pin = rank < cores_.size();
    const uint32_t core = pin ? cores_[rank] : 0;
    try {
      threads_.push_back(start_thread([this, rank, core, pin] { worker(rank, core, pin); }));
    } catch (...) {
      end();
      throw;
    }
  }
}

ThreadTeam::~ThreadTeam() { end(); }

void ThreadTeam::end() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    epoch_.fetch_add(k_epoch_step);
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadTeam::pin_caller() const {
  if (!cores_.empty()) pin_this_thread(cores_[0]);
}

void ThreadTeam::run(Function function, void* argument, uint32_t n_ranks) {
  n_ranks = std::clamp<uint32_t>(n_ranks, 1, size_);
  active_ = n_ranks;
  if (n_ranks > 1) {
    function_ = function;
    argument_ = argument;
    // Sequentially consistent: pairs with the sleepers' check of the epoch.
    epoch_.store(((epoch_.load() / k_epoch_step + 1) * k_epoch_step) | n_ranks);
    if (sleepers_.load() > 0) {
      const std::lock_guard lock(mutex_);
      wake_.notify_all();
    }
  }
  function(argument, 0);
  barrier(0);
}

void ThreadTeam::worker(uint32_t rank, uint32_t core, bool pin) {
  if (pin) pin_this_thread(core);
  uint64_t seen = 0;
  for (;;) {
    int spins = 0;
    while (epoch_.load(std::memory_order_acquire) == seen) {
      if (++spins < k_spins) {
        spin_pause();
        continue;
      }
      std::unique_lock lock(mutex_);
      sleepers_.fetch_add(1);
      wake_.wait(lock, [&] { return epoch_.load() != seen; });
      sleepers_.fetch_sub(1);
    }
    seen = epoch_.load(std::memory_order_acquire);
    if (stop_) return;
    if (rank >= seen % k_epoch_step) continue;
    function_(argument_, rank);
    barrier(rank);
  }
}

void ThreadTeam::barrier(uint32_t) {
  // Read before arriving: once all have arrived, the next run may change it.
  const uint32_t active = active_;
  if (active == 1) return;
  const uint64_t phase = phase_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == active) {
    arrived_.store(0, std::memory_order_relaxed);
    phase_.fetch_add(1, std::memory_order_acq_rel);
    phase_.notify_all();
    return;
  }
  int spins = 0;
  while (phase_.load(std::memory_order_acquire) == phase) {
    // Past the spin budget somebody else needs this core: sleep until the phase is over.
    if (++spins < k_spins) {
      spin_pause();
    } else {
      phase_.wait(phase, std::memory_order_acquire);
    }
  }
}

}  // namespace strata::device::cpu
