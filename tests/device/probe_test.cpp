// The probes of what a machine can do: every instruction set reads the same bytes; counters of
// energy are added up and may run over.
#include "device/cpu/probe.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <memory>

#include "base/temporary_folder.h"
#include "device/cpu/isa.h"
#include "device/energy.h"

namespace strata::device {
namespace {

TEST(Probe, EveryKernelReadsEverything) {
  constexpr size_t k_bytes = 64 * 1024;
  const auto words = std::make_unique<uint64_t[]>(k_bytes / 8 + 8);
  auto* data = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(words.get()) + 63) &
                                            ~uintptr_t{63});
  uint64_t sum = 0;
  for (size_t i = 0; i < k_bytes / 8; ++i) {
    const uint64_t value = (i + 1) * 0x9E3779B97F4A7C15u;
    std::memcpy(data + 8 * i, &value, 8);
    sum += value;
  }
  EXPECT_EQ(cpu::k_generic_probe.read(data, k_bytes), sum);
#if defined(__x86_64__)
  if (cpu::available(cpu::Isa::avx2)) {
    EXPECT_EQ(cpu::k_avx2_probe.read(data, k_bytes), sum);
  }
  if (cpu::available(cpu::Isa::avx512vnni)) {
    EXPECT_EQ(cpu::k_avx512vnni_probe.read(data, k_bytes), sum);
  }
#endif
}

TEST(Probe, MeasuresSomethingPlausible) {
  DeviceRequest request;
  request.threads = 1;
  const Peaks peaks = measure_peaks(request);
  EXPECT_GT(peaks.read_bytes_per_second, 1e8);
  EXPECT_LT(peaks.read_bytes_per_second, 1e13);
  EXPECT_GT(peaks.int8_operations_per_second, 1e8);
  EXPECT_LT(peaks.int8_operations_per_second, 1e15);
}

TEST(Energy, AddsPackagesAndMemoryAndRunsOver) {
  const test::TemporaryFolder folder;
  const auto zone = [&](const std::string& name, const std::string& label,
                        const std::string& energy) {
    std::filesystem::create_directories(folder.path(name));
    folder.write(name + "/name", label + "\n");
    folder.write(name + "/energy_uj", energy + "\n");
    folder.write(name + "/max_energy_range_uj", "10000000\n");
  };
  EXPECT_FALSE(EnergyMeter::open(folder.path("nothing")).has_value());
  EXPECT_FALSE(EnergyMeter::open(folder.path()).has_value());
  zone("intel-rapl:0", "package-0", "9000000");
  zone("intel-rapl:0:0", "core", "100");
  zone("intel-rapl:0:1", "dram", "1000");
  zone("intel-rapl:1", "psys", "1");
  auto meter = EnergyMeter::open(folder.path());
  ASSERT_TRUE(meter.has_value());
  meter->start();
  zone("intel-rapl:0", "package-0", "500000");  // ran over: 1.5 J
  zone("intel-rapl:0:0", "core", "99999999");   // a part of the package
  zone("intel-rapl:0:1", "dram", "251000");     // 0.25 J
  zone("intel-rapl:1", "psys", "99999999");     // holds the package
  ASSERT_TRUE(meter->joules().has_value());
  EXPECT_NEAR(*meter->joules(), 1.75, 1e-9);
  std::filesystem::remove_all(folder.path("intel-rapl:0"));
  EXPECT_FALSE(meter->joules().has_value());
}

}  // namespace
}  // namespace strata::device
