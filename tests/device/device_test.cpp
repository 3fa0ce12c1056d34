// The CPU device: budget, queues, events, the thread team, names.
#include "device/device.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "base/error.h"
#include "device/cpu/thread_team.h"
#include "device/registry.h"

namespace strata::device {
namespace {

TEST(CpuDevice, refuses_what_the_budget_does_not_hold) {
  const auto device = open_device({"cpu", 1, 1 << 20});
  const auto half = device->allocate(600 << 10, "weights");
  EXPECT_EQ(device->allocated_bytes(), 600u << 10);
  try {
    device->allocate(600 << 10, "the KV cache");
    FAIL() << "over the budget";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::does_not_fit);
    EXPECT_NE(std::string(error.what()).find("KV cache"), std::string::npos);
  }
  // Nothing was taken by the refused call, and freed memory can be had again.
  device->allocate(400 << 10, "activations").reset();
  EXPECT_EQ(device->allocated_bytes(), 600u << 10);
}

TEST(CpuDevice, arenas_are_aligned_and_zero) {
  const auto device = open_device({"cpu", 1, 0});
  for (const uint64_t bytes : {uint64_t{1}, uint64_t{5000}, uint64_t{5} << 20}) {
    const auto arena = device->allocate(bytes, "test");
    EXPECT_EQ(reinterpret_cast<uintptr_t>(arena->host()) % 64, 0u);
    EXPECT_TRUE(std::all_of(arena->host(), arena->host() + bytes,
                            [](std::byte b) { return b == std::byte{0}; }));
  }
}

TEST(CpuQueue, carries_out_in_order_and_copies) {
  const auto device = open_device({"cpu", 1, 0});
  const auto arena = device->allocate(256, "test");
  const auto queue = device->make_queue();
  const std::string text = "abcdefgh";
  queue->upload({arena.get(), 0, 8}, text.data());
  const auto times = std::make_shared<RunTimes>();
  queue->copy({arena.get(), 100, 8}, {arena.get(), 0, 8}, times);
  queue->fill_zero({arena.get(), 0, 4});
  std::string back(8, '?'), copied(8, '?');
  queue->download(back.data(), {arena.get(), 0, 8});
  queue->download(copied.data(), {arena.get(), 100, 8});
  queue->synchronize();
  EXPECT_EQ(back, std::string("\0\0\0\0efgh", 8));
  EXPECT_EQ(copied, "abcdefgh");
  EXPECT_GT(times->begin, 0);
  EXPECT_GE(times->end, times->begin);
}

TEST(CpuQueue, a_range_outside_the_arena_is_refused) {
  const auto device = open_device({"cpu", 1, 0});
  const auto arena = device->allocate(256, "test");
  const auto queue = device->make_queue();
  char bytes[64] = {};
  EXPECT_THROW(queue->upload({arena.get(), 250, 64}, bytes), Error);
  EXPECT_THROW(queue->upload({arena.get(), UINT64_MAX - 8, 64}, bytes), Error);
  EXPECT_THROW(queue->upload({nullptr, 0, 64}, bytes), Error);
}

TEST(CpuQueue, events_order_two_queues) {
  const auto device = open_device({"cpu", 1, 0});
  const auto arena = device->allocate(64, "test");
  for (int round = 0; round < 50; ++round) {
    const auto first = device->make_queue();
    const auto second = device->make_queue();
    const int value = round;
    int back = -1;
    first->upload({arena.get(), 0, 4}, &value);
    second->wait(first->record());
    second->download(&back, {arena.get(), 0, 4});
    second->synchronize();
    EXPECT_EQ(back, round);
  }
}

TEST(ThreadTeam, every_rank_runs_once_and_barriers_hold) {
  for (const uint32_t size : {1u, 2u, 5u}) {
    cpu::ThreadTeam team(size, {});
    struct Shared {
      cpu::ThreadTeam* team;
      std::atomic<uint32_t> arrived{0};
      std::atomic<uint32_t> wrong{0};
      uint32_t size;
    } shared{&team, {}, {}, size};
    for (int round = 0; round < 300; ++round) {
      shared.arrived = 0;
      team.run(
          [](void* argument, uint32_t rank) {
            auto& s = *static_cast<Shared*>(argument);
            s.arrived.fetch_add(1);
            s.team->barrier(rank);
            if (s.arrived.load() != s.size) s.wrong.fetch_add(1);
          },
          &shared, size);
      // A pause now and then lets the others fall asleep.
      if (round % 100 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(3));
    }
    EXPECT_EQ(shared.wrong.load(), 0u);
  }
}

TEST(ThreadTeam, fewer_ranks_than_threads) {
  cpu::ThreadTeam team(4, {});
  std::atomic<uint32_t> count{0};
  for (uint32_t n = 1; n <= 5; ++n) {
    for (int round = 0; round < 50; ++round) {
      count = 0;
      team.run([](void* argument,
                  uint32_t) { static_cast<std::atomic<uint32_t>*>(argument)->fetch_add(1); },
               &count, n);
      EXPECT_EQ(count.load(), std::min(n, 4u));
    }
  }
}

// The number of ranks changes from run to run while stragglers of the last run still leave its
// barrier: each run must see its own ranks only (watch this one under ThreadSanitizer).
TEST(ThreadTeam, changing_ranks_do_not_disturb_the_last_barrier) {
  cpu::ThreadTeam team(3, {});
  struct Shared {
    cpu::ThreadTeam* team;
    std::atomic<uint32_t> count{0};
  } shared{&team, {}};
  for (uint32_t round = 0; round < 3000; ++round) {
    const uint32_t n = 1 + round % 3;
    shared.count = 0;
    team.run(
        [](void* argument, uint32_t rank) {
          auto& s = *static_cast<Shared*>(argument);
          s.count.fetch_add(1);
          s.team->barrier(rank);
          s.count.fetch_add(1);
        },
        &shared, n);
    ASSERT_EQ(shared.count.load(), 2 * n);
  }
}

// A limit on threads is told; those that were started end, and nothing waits for them.
TEST(ThreadTeam, no_more_threads_than_the_system_grants) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    // Of a user other than root; the limit counts all that it runs.
    if (geteuid() == 0 && setuid(65534) != 0) _exit(77);
    const rlimit few{1, 1};
    if (setrlimit(RLIMIT_NPROC, &few) != 0) _exit(77);
    try {
      cpu::ThreadTeam team(8, {});
      _exit(1);
    } catch (const Error& error) {
      const bool told = std::string(error.what()).find("ulimit -u") != std::string::npos;
      _exit(error.code() == ErrorCode::io && told ? 0 : 2);
    }
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "skipped: the limit cannot be set here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(Limits, are_sensible) {
  const cpu::CpuLimits limits = cpu::cpu_limits();
  EXPECT_GE(limits.physical, 1u);
  EXPECT_GE(limits.usable, 1u);
  EXPECT_LE(limits.usable, limits.physical);
  EXPECT_GE(limits.processors.size(), limits.physical);
  EXPECT_GT(cpu::memory_limit(), uint64_t{64} << 20);
  EXPECT_LE(cpu::memory_available(), cpu::memory_limit());
}

}  // namespace
}  // namespace strata::device
