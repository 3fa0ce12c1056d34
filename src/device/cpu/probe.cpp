#include "device/cpu/probe.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/error.h"
#include "base/start_thread.h"
#include "device/cpu/isa.h"
#include "device/cpu/thread_team.h"

namespace strata::device::cpu {
namespace {

using Clock = std::chrono::steady_clock;

// Larger than any cache, as far as there is memory.
constexpr uint64_t k_most_bytes = uint64_t{1} << 30;
constexpr uint64_t k_fewest_bytes = uint64_t{64} << 20;
constexpr uint64_t k_huge_page = uint64_t{2} << 20;
// The best of many short windows counts: a peak is what can be had, and others may want the cores.
constexpr int k_read_passes = 6;
constexpr uint64_t k_windows = 4;  // of a pass; a window is read again after all others
constexpr int k_multiply_windows = 25;
constexpr double k_multiply_seconds = 0.008;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Anonymous memory in huge pages where the system has them: `most` bytes, or half as often as the
// system refuses, `fewest` at least.
class Buffer {
 public:
  Buffer(uint64_t most, uint64_t fewest) {
    void* mapping = MAP_FAILED;
    uint64_t bytes = most;
    for (;; bytes /= 2) {
      if (bytes < fewest) {
        fail(ErrorCode::does_not_fit, "the system refused {} MiB to measure the memory with",
             fewest >> 20);
      }
      mapped_ = bytes + k_huge_page;
      mapping =
          ::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (mapping != MAP_FAILED) break;
    }
    base_ = mapping;
    const auto begin = align_up(reinterpret_cast<uintptr_t>(mapping), k_huge_page);
    data_ = reinterpret_cast<std::byte*>(begin);
    ::madvise(data_, bytes, MADV_HUGEPAGE);
  }
  ~Buffer() { ::munmap(base_, mapped_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  std::byte* data() { return data_; }
  uint64_t bytes() const { return mapped_ - k_huge_page; }

 private:
  uint64_t mapped_ = 0;
  void* base_ = nullptr;
  std::byte* data_ = nullptr;
};

struct Job {
  const ProbeKernels* kernels;
  std::byte* data = nullptr;
  uint64_t share = 0;   // bytes of a rank
  uint64_t window = 0;  // bytes that it reads at a time
  uint64_t begin = 0;   // of the window in the share
  uint64_t rounds = 0;
  std::atomic<uint64_t> result{0};  // keeps the work from being left out
};

double read_peak(ThreadTeam& team, const ProbeKernels& kernels) {
  Buffer buffer(std::clamp(memory_available() / 4, k_fewest_bytes, k_most_bytes), k_fewest_bytes);
  const uint64_t bytes = buffer.bytes();
  Job job{&kernels};
  job.data = buffer.data();
  job.share = bytes / team.size() / k_huge_page * k_huge_page;
  if (job.share == 0) job.share = bytes / team.size() / 4096 * 4096;
  // Each rank touches what it reads, so that its pages lie near it.
  team.run(
      [](void* argument, uint32_t rank) {
        Job& shared = *static_cast<Job*>(argument);
        std::byte* mine = shared.data + rank * shared.share;
        for (uint64_t i = 0; i < shared.share; i += 8) {
          const uint64_t value = i * 0x9E3779B97F4A7C15u;
          __builtin_memcpy(mine + i, &value, 8);
        }
      },
      &job, team.size());
  job.window = std::max<uint64_t>(job.share / k_windows / 4096 * 4096, 4096);
  double best = 0;
  for (int pass = 0; pass < k_read_passes; ++pass) {
    for (job.begin = 0; job.begin + job.window <= job.share; job.begin += job.window) {
      const auto start = Clock::now();
      team.run(
          [](void* argument, uint32_t rank) {
            Job& shared = *static_cast<Job*>(argument);
            const std::byte* mine = shared.data + rank * shared.share;
            shared.result += shared.kernels->read(mine + shared.begin, shared.window);
          },
          &job, team.size());
      const double read = static_cast<double>(job.window) * team.size();
      best = std::max(best, read / seconds_since(start));
    }
  }
  return best;
}

double multiply_peak(ThreadTeam& team, const ProbeKernels& kernels) {
  Job job{&kernels};
  const auto run = [&](uint64_t rounds) {
    job.rounds = rounds;
    const auto start = Clock::now();
    team.run(
        [](void* argument, uint32_t) {
          Job& shared = *static_cast<Job*>(argument);
          shared.result += shared.kernels->multiply(shared.rounds);
        },
        &job, team.size());
    return seconds_since(start);
  };
  uint64_t rounds = 1000;
  for (double took = run(rounds); took < k_multiply_seconds / 2; took = run(rounds)) {
    const double factor = took > 0 ? k_multiply_seconds / took : 16;
    rounds = static_cast<uint64_t>(static_cast<double>(rounds) * std::clamp(factor, 1.5, 16.0));
  }
  double best = 0;
  for (int window = 0; window < k_multiply_windows; ++window) {
    const double operations = static_cast<double>(rounds) * team.size() *
                              static_cast<double>(kernels.operations_per_round);
    best = std::max(best, operations / run(rounds));
  }
  return best;
}

}  // namespace

const ProbeKernels& probe_kernels(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::avx2) return k_avx2_probe;
  if (isa != Isa::generic) return k_avx512vnni_probe;
#endif
  (void)isa;
  return k_generic_probe;
}

Peaks measure_peaks(const CpuDeviceOptions& options) {
  TeamShape shape = team_shape(options);
  ThreadTeam team(shape.threads, std::move(shape.cores));
  // A thread of its own is pinned as rank 0; the caller stays free.
  Peaks peaks;
  std::exception_ptr error;
  std::thread rank_0 = start_thread([&] {
    try {
      team.pin_caller();
      const ProbeKernels& kernels = probe_kernels(options.isa ? *options.isa : chosen_isa());
      peaks.read_bytes_per_second = read_peak(team, kernels);
      peaks.int8_operations_per_second = multiply_peak(team, kernels);
    } catch (...) {
      error = std::current_exception();
    }
  });
  rank_0.join();
  if (error) std::rethrow_exception(error);
  return peaks;
}

}  // namespace strata::device::cpu
