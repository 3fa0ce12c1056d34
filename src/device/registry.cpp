#include "device/registry.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "base/log.h"
#include "device/cpu/cpu_device.h"
#include "device/cpu/cpu_name.h"
#include "device/cpu/probe.h"

namespace strata::device {
namespace {

cpu::CpuDeviceOptions cpu_options(const DeviceRequest& request) {
  if (!cpu::is_cpu_name(request.name)) {
    fail(ErrorCode::usage,
         "device '{}' is not known; known are cpu, cpu:CORES (cpu:0-3) and cpu:numaN, with "
         "/isa=NAME and /threads=N behind them; 'strata plan' also takes described ones, like "
         "gpu:24GiB:936GB/s:71TFLOPS",
         printable(request.name));
  }
  cpu::CpuDeviceOptions options = cpu::parse_cpu_name(request.name);
  // More threads than processors only take turns and wait for each other; what the name says is
  // meant.
  if (options.threads == 0) {
    options.threads = std::min(request.threads, cpu::most_threads(options));
  }
  options.budget_bytes = request.budget_bytes;
  options.lock_memory = request.lock_memory;
  return options;
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

}  // namespace

std::unique_ptr<Device> open_device(const DeviceRequest& request) {
  const cpu::CpuDeviceOptions options = cpu_options(request);
  if (options.threads > 0 && options.threads < request.threads &&
      options.threads == cpu::most_threads(options)) {
    log::warning("device '{}': {} threads were asked for, it may use {} processor{}: {} run",
                 request.name, request.threads, options.threads, options.threads == 1 ? "" : "s",
                 options.threads);
  }
  return cpu::make_cpu_device(options);
}

Peaks measure_peaks(const DeviceRequest& request) {
  return cpu::measure_peaks(cpu_options(request));
}

std::vector<DeviceInfo> list_devices() { return {open_device({})->info()}; }

std::vector<std::string> split_device_list(std::string_view text) {
  std::vector<std::string> names;
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    const std::string_view part = text.substr(at, comma - at);
    if (part.empty()) {
      fail(ErrorCode::usage, "'{}' names no device at place {}; write cpu or cpu:0,cpu:1",
           printable(text), at + 1);
    }
    // What begins with a number goes on a list of cores: "0-3", "2".
    const bool cores = part.find_first_not_of("0123456789-") == std::string_view::npos ||
                       part.find('/') != std::string_view::npos;
    if (is_letter(part[0]) || !cores) {
      names.emplace_back(part);
    } else if (names.empty()) {
      fail(ErrorCode::usage, "'{}': '{}' is not a device; cores are written cpu:{}",
           printable(text), printable(part), printable(part));
    } else {
      names.back() += "," + std::string(part);
    }
    at = comma + 1;
  }
  return names;
}

void check_disjoint(std::span<const std::string> names) {
  std::vector<std::vector<uint32_t>> taken;
  for (size_t i = 0; i < names.size(); ++i) {
    if (std::find(names.begin(), names.begin() + static_cast<ptrdiff_t>(i), names[i]) !=
        names.begin() + static_cast<ptrdiff_t>(i)) {
      fail(ErrorCode::usage, "device '{}' stands there twice", printable(names[i]));
    }
    taken.emplace_back();
    if (!cpu::is_cpu_name(names[i])) continue;
    taken[i] = cpu::processors_of(cpu::parse_cpu_name(names[i]));
    for (size_t j = 0; j < i; ++j) {
      for (const uint32_t core : taken[i]) {
        if (std::find(taken[j].begin(), taken[j].end(), core) == taken[j].end()) continue;
        fail(ErrorCode::usage,
             "devices '{}' and '{}' share core {}; give each cores of its own, as in cpu:0,cpu:1",
             printable(names[j]), printable(names[i]), core);
      }
    }
  }
}

}  // namespace strata::device
