#include "device/registry.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/error.h"
#include "device/cpu/cpu_device.h"
#include "device/cpu/probe.h"

namespace strata::device {
namespace {

constexpr uint32_t k_max_core = 4096;

uint32_t parse_core(std::string_view text, const std::string& device) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value >= k_max_core) {
    fail(ErrorCode::usage, "device '{}': '{}' is not a core number; write cpu, cpu:0-3 or cpu:0,2",
         printable(device), printable(text));
  }
  return value;
}

// "0-3,8" -> 0 1 2 3 8
std::vector<uint32_t> parse_cores(std::string_view list, const std::string& device) {
  std::vector<uint32_t> cores;
  while (true) {
    const size_t comma = list.find(',');
    const std::string_view part = list.substr(0, comma);
    const size_t dash = part.find('-');
    const uint32_t first = parse_core(part.substr(0, dash), device);
    const uint32_t last =
        dash == std::string_view::npos ? first : parse_core(part.substr(dash + 1), device);
    if (last < first) {
      fail(ErrorCode::usage, "device '{}': the range {}-{} runs backwards", printable(device),
           first, last);
    }
    for (uint32_t core = first; core <= last; ++core) {
      if (std::find(cores.begin(), cores.end(), core) != cores.end()) {
        fail(ErrorCode::usage, "device '{}': core {} stands there twice", printable(device), core);
      }
      cores.push_back(core);
    }
    if (comma == std::string_view::npos) return cores;
    list.remove_prefix(comma + 1);
  }
}

cpu::CpuDeviceOptions cpu_options(const DeviceRequest& request) {
  const std::string_view name = request.name;
  cpu::CpuDeviceOptions options;
  options.name = request.name;
  options.threads = request.threads;
  options.budget_bytes = request.budget_bytes;
  options.lock_memory = request.lock_memory;
  if (name.starts_with("cpu:")) {
    options.cores = parse_cores(name.substr(4), request.name);
  } else if (name != "cpu") {
    fail(ErrorCode::usage, "device '{}' is not known; known are cpu and cpu:CORES (cpu:0-3)",
         printable(name));
  }
  return options;
}

}  // namespace

std::unique_ptr<Device> open_device(const DeviceRequest& request) {
  return cpu::make_cpu_device(cpu_options(request));
}

Peaks measure_peaks(const DeviceRequest& request) {
  return cpu::measure_peaks(cpu_options(request));
}

std::vector<DeviceInfo> list_devices() { return {open_device({})->info()}; }

}  // namespace strata::device
