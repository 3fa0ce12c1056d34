// Groups: all members get the sum of all, in one order; a member that fails holds nobody up.
#include "device/host_group.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <random>
#include <thread>

#include "base/error.h"
#include "device/registry.h"

namespace strata::device {
namespace {

constexpr uint32_t k_width = 1500;
constexpr uint32_t k_rows = 16;

Program sum_program() {
  Program program;
  program.name = "sum";
  program.values = {{"in", k_width, Rows::tokens, Place::external, 0},
                    {"out", k_width, Rows::tokens, Place::external, 1},
                    {"residual", k_width, Rows::tokens, Place::external, 2}};
  program.n_external = 3;
  program.ops = {AllReduce{0, 2, 1}};
  return program;
}

// One device, one queue per run in flight, and what a run needs.
struct Member {
  explicit Member(uint32_t threads) : device(open_device({"cpu", threads, 0})) {
    const uint64_t bytes = uint64_t{k_rows} * k_width * 4;
    arena = device->allocate(3 * bytes, "values");
    scratch =
        device->allocate(device->scratch_bytes(sum_program(), k_rows, k_rows) + 64, "scratch");
    for (uint64_t i = 0; i < 3; ++i) buffers.push_back({arena.get(), i * bytes, bytes});
    const Program program = sum_program();
    CompileArgs compile;
    compile.program = &program;
    compile.max_tokens = k_rows;
    compile.max_outputs = k_rows;
    executable = device->compile(compile);
    for (auto& queue : queues) queue = device->make_queue();
  }
  float* values(size_t i) { return reinterpret_cast<float*>(arena->host() + buffers[i].offset); }
  RunArgs args(const std::shared_ptr<HostGroup>& group, uint32_t member, uint64_t run,
               uint32_t n_tokens = k_rows) {
    auto batch = std::make_shared<Batch>();
    batch->tokens.assign(n_tokens, 0);
    RunArgs out;
    out.batch = batch;
    out.scratch = {scratch.get(), 0, scratch->size()};
    out.externals = buffers;
    out.group = {group, member, run};
    return out;
  }

  std::unique_ptr<Device> device;
  std::unique_ptr<Arena> arena, scratch;
  std::vector<BufferRef> buffers;
  std::unique_ptr<Executable> executable;
  std::unique_ptr<Queue> queues[2];
};

TEST(HostGroup, every_member_has_the_sum_in_one_order) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (const uint32_t n : {1u, 2u, 3u}) {
    std::vector<std::unique_ptr<Member>> members;
    for (uint32_t m = 0; m < n; ++m) members.push_back(std::make_unique<Member>(1 + m % 2));
    const auto group = std::make_shared<HostGroup>(n);
    for (uint64_t run = 1; run <= 30; ++run) {
      std::vector<float> want(k_rows * k_width);
      for (uint32_t m = 0; m < n; ++m) {
        for (size_t i = 0; i < want.size(); ++i) {
          const float x = normal(random);
          members[m]->values(0)[i] = x;
          want[i] = m == 0 ? x : want[i] + x;
        }
      }
      for (size_t i = 0; i < want.size(); ++i) {
        const float r = normal(random);
        for (auto& member : members) member->values(2)[i] = r;
        want[i] = r + want[i];
      }
      for (uint32_t m = 0; m < n; ++m) {
        members[m]->queues[0]->run(*members[m]->executable, members[m]->args(group, m, run));
      }
      for (auto& member : members) {
        member->queues[0]->synchronize();
        ASSERT_EQ(std::memcmp(member->values(1), want.data(), want.size() * 4), 0)
            << n << " members, run " << run;
      }
    }
  }
}

// Runs in two queues per device, handed over in opposite orders: member 0 decides.
TEST(HostGroup, crossed_queues_do_not_wait_for_each_other) {
  Member a(1), b(1);
  const auto group = std::make_shared<HostGroup>(2);
  for (uint64_t run = 1; run < 200; run += 2) {
    a.queues[0]->run(*a.executable, a.args(group, 0, run));
    a.queues[1]->run(*a.executable, a.args(group, 0, run + 1));
    b.queues[1]->run(*b.executable, b.args(group, 1, run + 1));
    b.queues[0]->run(*b.executable, b.args(group, 1, run));
    for (Member* member : {&a, &b}) {
      for (auto& queue : member->queues) queue->synchronize();
    }
  }
}

TEST(HostGroup, a_member_that_fails_holds_nobody_up) {
  for (const uint32_t failing : {0u, 1u, 2u}) {
    std::vector<std::unique_ptr<Member>> members;
    for (uint32_t m = 0; m < 3; ++m) members.push_back(std::make_unique<Member>(1));
    const auto group = std::make_shared<HostGroup>(3);
    for (uint64_t run = 1; run <= 20; ++run) {
      const bool fails = run % 4 == 0;
      for (uint32_t m = 0; m < 3; ++m) {
        // More tokens than the program was compiled for.
        const uint32_t n = fails && m == failing ? k_rows + 1 : k_rows;
        members[m]->queues[0]->run(*members[m]->executable, members[m]->args(group, m, run, n));
      }
      for (uint32_t m = 0; m < 3; ++m) {
        if (fails) {
          EXPECT_THROW(members[m]->queues[0]->synchronize(), Error) << "run " << run;
        } else {
          EXPECT_NO_THROW(members[m]->queues[0]->synchronize()) << "run " << run;
        }
      }
    }
  }
}

// Meetings of one run while others are abandoned: nobody goes on before all have offered.
TEST(HostGroup, an_abandoned_run_does_not_touch_the_one_in_progress) {
  HostGroup group(2);
  std::atomic<bool> over{false};
  std::atomic<int> wrong{0};
  std::thread other([&] {
    for (uint64_t run = 1'000'000; !over.load(); ++run) {
      group.abandon(run);  // by one member and then by the other: nobody is left to hear of it
      group.abandon(run);
    }
  });
  const auto work = [&](uint32_t member) {
    float mine[2] = {};
    for (uint64_t run = 0; run < 100; ++run) {
      group.enter(member, run);
      for (int k = 0; k < 20; ++k) {
        float& value = mine[k % 2];
        value = static_cast<float>(run * 100 + static_cast<uint64_t>(k));
        group.offer(member, &value);
        if (*group.partial(1 - member) != value) ++wrong;
        group.meet();
      }
      group.leave(run);
    }
  };
  std::thread second([&] { work(1); });
  work(0);
  second.join();
  over = true;
  other.join();
  EXPECT_EQ(wrong.load(), 0);
}

}  // namespace
}  // namespace strata::device
