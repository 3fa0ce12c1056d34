// Names of devices: what they ask for, what is refused and how, lists of them.
#include "device/registry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "device/cpu/cpu_device.h"
#include "device/cpu/cpu_name.h"
#include "device/cpu/isa.h"
#include "device/cpu/thread_team.h"

namespace strata::device {
namespace {

using Names = std::vector<std::string>;

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::usage) << error.what();
    return error.what();
  }
  return "accepted";
}
std::string refusal_of(const std::string& name) {
  return refusal([&] { open_device({name, 0, 0}); });
}
bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string core(size_t i) { return std::to_string(cpu::cpu_limits().processors.at(i)); }

TEST(Registry, Names) {
  EXPECT_EQ(open_device({"cpu", 2, 0})->info().units, 2u);
  const std::string one = "cpu:" + core(0);
  EXPECT_EQ(open_device({one, 0, 0})->info().units, 1u);
  EXPECT_EQ(open_device({one, 0, 0})->info().name, one);
  for (const char* bad : {"gpu",
                          "cpu:",
                          "cpu:x",
                          "cpu:3-1",
                          "cpu:0,0",
                          "cpu:99999",
                          "cpu:0-",
                          "",
                          "cpus",
                          "cpu:numa",
                          "cpu:numax",
                          "cpu:numa0x",
                          "cpu:numa4096",
                          "cpu:numa99999999999",
                          "cpu/",
                          "cpu//isa=generic",
                          "cpu/isa",
                          "cpu/isa=",
                          "cpu/isa=sse",
                          "cpu/threads=0",
                          "cpu/threads=-1",
                          "cpu/threads=9999",
                          "cpu/threads=x",
                          "cpu/threads=1/threads=1",
                          "cpu/isa=generic/isa=generic",
                          "cpu/speed=2",
                          "cpu:0/isa=generic/"}) {
    EXPECT_NE(refusal_of(bad), "accepted") << bad;
  }
  EXPECT_TRUE(says(refusal_of("cpu:0/speed=2"), "isa=NAME and threads=N"));
  EXPECT_TRUE(says(refusal_of("cpu/isa=sse"), "device 'cpu/isa=sse': isa=sse: unknown"));
}

TEST(Registry, OptionsBehindTheName) {
  for (const cpu::Isa isa : {cpu::Isa::generic, cpu::Isa::avx2, cpu::Isa::avx512vnni}) {
    const std::string name = "cpu:" + core(0) + "/isa=" + std::string(cpu::name_of(isa));
    if (!cpu::available(isa)) {
      EXPECT_TRUE(says(refusal_of(name), "lacks it"));
      continue;
    }
    const auto device = open_device({name, 0, 0});
    EXPECT_EQ(device->info().isa, cpu::name_of(isa));
    EXPECT_EQ(device->info().name, name);
    EXPECT_EQ(device->info().units, 1u);
  }
  EXPECT_EQ(open_device({"cpu", 1, 0})->info().isa, cpu::name_of(cpu::chosen_isa()));
  // The name goes before the request; either order.
  const auto device = open_device({"cpu/threads=3/isa=generic", 1, 0});
  EXPECT_EQ(device->info().units, 3u);
  EXPECT_EQ(device->info().isa, "generic");
  EXPECT_EQ(open_device({"cpu/isa=generic", 2, 0})->info().units,
            std::min<uint32_t>(2, cpu::most_threads(cpu::parse_cpu_name("cpu"))));
}

// Threads beyond the processors would only take turns; what the device's name says is meant.
TEST(Registry, NoMoreThreadsThanProcessors) {
  const uint32_t most = cpu::most_threads(cpu::parse_cpu_name("cpu"));
  ASSERT_GE(most, 1u);
  EXPECT_EQ(open_device({"cpu/isa=generic", most + 7, 0})->info().units, most);
  const std::string core = std::to_string(cpu::cpu_limits().processors[0]);
  EXPECT_EQ(open_device({"cpu:" + core + "/isa=generic", 4, 0})->info().units, 1u);
  EXPECT_EQ(
      open_device({"cpu/isa=generic/threads=" + std::to_string(most + 1), 0, 0})->info().units,
      most + 1);
}

// Which cores are free the system knows better, unless all are wanted or some are named.
TEST(Registry, FewerThreadsThanCoresAreNotTiedToTheFirst) {
  const cpu::CpuLimits limits = cpu::cpu_limits();
  cpu::CpuDeviceOptions options = cpu::parse_cpu_name("cpu");
  options.threads = limits.physical;
  EXPECT_EQ(cpu::team_shape(options).cores.empty(), limits.usable < limits.physical);
  if (limits.physical > 1) {
    options.threads = limits.physical - 1;
    EXPECT_TRUE(cpu::team_shape(options).cores.empty());
  }
  const uint32_t last = limits.processors.back();
  EXPECT_EQ(cpu::team_shape(cpu::parse_cpu_name("cpu:" + std::to_string(last))).cores,
            std::vector<uint32_t>{last});
}

// The folder of a cgroup as the kernel documents its files: pages of files are taken back before
// memory is refused.
TEST(Limits, CachesOfFilesAreNoUsedMemory) {
  const test::TemporaryFolder second, first;
  EXPECT_FALSE(cpu::cgroup_memory_available(second.path()));
  second.write("memory.max", "max\n");
  second.write("memory.current", "900\n");
  EXPECT_FALSE(cpu::cgroup_memory_available(second.path()));
  second.write("memory.max", "1000\n");
  EXPECT_EQ(cpu::cgroup_memory_available(second.path()), 100u);
  second.write("memory.stat",
               "anon 250\nfile 650\ninactive_anon 200\nactive_file 150\ninactive_file 400\n");
  EXPECT_EQ(cpu::cgroup_memory_available(second.path()), 650u);
  second.write("memory.max", "300\n");
  EXPECT_EQ(cpu::cgroup_memory_available(second.path()), 0u);

  first.write("memory.limit_in_bytes", "1000\n");
  first.write("memory.usage_in_bytes", "900\n");
  first.write("memory.stat", "inactive_file 1\ntotal_active_file 100\ntotal_inactive_file 200\n");
  EXPECT_EQ(cpu::cgroup_memory_available(first.path()), 400u);
}

// Neither what is kept nor how much depends on the instruction set.
TEST(Registry, InstructionSetsShareLayoutAndSizes) {
  Program program;
  program.weights = {{"table", ElementType::q8_0, {64, 16, 1}},
                     {"w", ElementType::q8_0, {64, 40, 1}}};
  program.values = {{"x", 64}, {"y", 40}};
  program.ops = {Embed{0, 0}, Linear{0, 1, k_none, 1}};
  const auto generic = open_device({"cpu/isa=generic/threads=1", 0, 0});
  const auto best = open_device({"cpu/threads=1", 0, 0});
  EXPECT_EQ(generic->weight_bytes(program.weights[1]), best->weight_bytes(program.weights[1]));
  EXPECT_EQ(generic->scratch_bytes(program, 16, 16), best->scratch_bytes(program, 16, 16));
  EXPECT_EQ(generic->activation_bytes(program, 16, 16), best->activation_bytes(program, 16, 16));
}

TEST(Registry, NodesOfTheMachine) {
  const test::TemporaryFolder folder;
  for (const char* node : {"node0", "node1", "node3", "nodes", "has_cpu"}) {
    std::filesystem::create_directories(folder.path(node));
  }
  folder.write("node0/cpulist", "0-2,8\n");
  folder.write("node1/cpulist", "\n");  // memory only
  folder.write("node3/cpulist", "7-5\n");
  const auto nodes = cpu::numa_nodes(folder.path());
  ASSERT_EQ(nodes.size(), 3u);
  EXPECT_EQ(nodes.at(0), (std::vector<uint32_t>{0, 1, 2, 8}));
  EXPECT_TRUE(nodes.at(1).empty());
  EXPECT_TRUE(nodes.at(3).empty());
  EXPECT_TRUE(cpu::numa_nodes(folder.path("nothing")).empty());

  const auto here = cpu::numa_nodes();
  if (here.empty()) GTEST_SKIP() << "this system lists no NUMA nodes";
  const std::string unknown = refusal_of("cpu:numa4095");
  for (const auto& [number, processors] : here) {
    EXPECT_TRUE(says(unknown, "cpu:numa" + std::to_string(number))) << unknown;
    const cpu::CpuLimits limits = cpu::cpu_limits();
    uint32_t cores = 0;
    for (uint32_t i = 0; i < limits.physical; ++i) {
      cores += std::count(processors.begin(), processors.end(), limits.processors[i]) > 0 ? 1 : 0;
    }
    if (cores == 0) continue;
    EXPECT_EQ(open_device({"cpu:numa" + std::to_string(number), 0, 0})->info().units, cores);
  }
}

TEST(Registry, ListsAreCutWhereADeviceBegins) {
  EXPECT_EQ(split_device_list("cpu"), Names{"cpu"});
  EXPECT_EQ(split_device_list("cpu:0,cpu:1"), (Names{"cpu:0", "cpu:1"}));
  EXPECT_EQ(split_device_list("cpu:0,2,cpu:1"), (Names{"cpu:0,2", "cpu:1"}));
  EXPECT_EQ(split_device_list("cpu:0-1,4/isa=avx2,cpu:numa1"),
            (Names{"cpu:0-1,4/isa=avx2", "cpu:numa1"}));
  EXPECT_EQ(split_device_list("gpu:24GiB:936GB/s:71TFLOPS,cpu,gpu:8GiB"),
            (Names{"gpu:24GiB:936GB/s:71TFLOPS", "cpu", "gpu:8GiB"}));
  for (const char* bad : {"", ",", "cpu,", ",cpu", "cpu:0,,cpu:1", "0", "0-3,cpu"}) {
    EXPECT_NE(refusal([&] { split_device_list(bad); }), "accepted") << bad;
  }
}

TEST(Registry, DevicesThatShareACoreAreRefused) {
  const auto check = [](const Names& names) { return refusal([&] { check_disjoint(names); }); };
  EXPECT_EQ(check({"cpu"}), "accepted");
  EXPECT_EQ(check({"cpu:0", "cpu:1"}), "accepted");
  EXPECT_EQ(check({"cpu:0,2", "cpu:1", "cpu:3-5"}), "accepted");
  EXPECT_TRUE(says(check({"cpu:0,2", "cpu:1-2"}), "share core 2"));
  EXPECT_TRUE(says(check({"cpu:1", "cpu:0-3/isa=generic"}), "share core 1"));
  EXPECT_TRUE(says(check({"cpu:1", "cpu:1"}), "'cpu:1' stands there twice"));
  EXPECT_TRUE(says(check({"gpu:24GiB", "gpu:24GiB"}), "twice"));
  EXPECT_TRUE(says(check({"cpu", "cpu:" + core(0)}), "share core " + core(0)));
  EXPECT_NE(check({"cpu:0", "cpu:x"}), "accepted");
  EXPECT_EQ(check({"gpu:24GiB", "gpu:8GiB", "cpu:0"}), "accepted");
}

}  // namespace
}  // namespace strata::device
