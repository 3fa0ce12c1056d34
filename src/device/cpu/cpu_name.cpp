#include "device/cpu/cpu_name.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

#include "base/error.h"
#include "device/cpu/thread_team.h"

namespace strata::device::cpu {
namespace {

constexpr uint32_t k_max_number = 4096;  // of a core, of threads

std::optional<uint32_t> parse_number(std::string_view text) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

uint32_t parse_core(std::string_view text, std::string_view device) {
  const auto value = parse_number(text);
  if (!value || *value >= k_max_number) {
    fail(ErrorCode::usage,
         "device '{}': '{}' is not a core number; write cpu, cpu:0-3, cpu:0,2 or cpu:numa0",
         printable(device), printable(text));
  }
  return *value;
}

// "0-3,8" -> 0 1 2 3 8
std::vector<uint32_t> parse_cores(std::string_view list, std::string_view device) {
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

std::vector<uint32_t> cores_of_node(std::string_view number, std::string_view device) {
  const std::map<uint32_t, std::vector<uint32_t>> nodes = numa_nodes();
  const auto node = parse_number(number);
  const auto found = node ? nodes.find(*node) : nodes.end();
  if (found == nodes.end()) {
    std::string known;
    for (const auto& entry : nodes) {
      known += (known.empty() ? "cpu:numa" : ", cpu:numa") + std::to_string(entry.first);
    }
    if (known.empty()) known = "none";
    fail(ErrorCode::usage, "device '{}': there is no such NUMA node; this machine has {}",
         printable(device), known);
  }
  // One processor of each core: the first of the limits' list are that.
  const CpuLimits limits = cpu_limits();
  std::vector<uint32_t> cores;
  for (size_t i = 0; i < limits.physical; ++i) {
    const uint32_t core = limits.processors[i];
    if (std::find(found->second.begin(), found->second.end(), core) != found->second.end()) {
      cores.push_back(core);
    }
  }
  if (cores.empty()) {
    fail(ErrorCode::usage, "device '{}': this process may use no core of that NUMA node",
         printable(device));
  }
  return cores;
}

void apply_option(std::string_view option, std::string_view device, CpuDeviceOptions& options) {
  const size_t equals = option.find('=');
  const std::string_view key = option.substr(0, equals);
  if (equals == std::string_view::npos || (key != "isa" && key != "threads")) {
    fail(ErrorCode::usage, "device '{}': '{}' is not an option; known are isa=NAME and threads=N",
         printable(device), printable(option));
  }
  const std::string_view value = option.substr(equals + 1);
  if (key == "isa" ? options.isa.has_value() : options.threads != 0) {
    fail(ErrorCode::usage, "device '{}': {} stands there twice", printable(device), key);
  }
  if (key == "isa") {
    options.isa = isa_named(value, "device '" + printable(device) + "': isa");
    return;
  }
  const auto threads = parse_number(value);
  if (!threads || *threads == 0 || *threads > k_max_number) {
    fail(ErrorCode::usage, "device '{}': threads={} is not a number from 1 to {}",
         printable(device), printable(value), k_max_number);
  }
  options.threads = *threads;
}

}  // namespace

bool is_cpu_name(std::string_view name) {
  return name == "cpu" || name.starts_with("cpu:") || name.starts_with("cpu/");
}

CpuDeviceOptions parse_cpu_name(std::string_view name) {
  CpuDeviceOptions options;
  options.name = std::string(name);
  size_t slash = name.find('/');
  const std::string_view place = name.substr(0, slash);
  if (place.starts_with("cpu:numa")) {
    options.cores = cores_of_node(place.substr(8), name);
  } else if (place.starts_with("cpu:")) {
    options.cores = parse_cores(place.substr(4), name);
  } else if (place != "cpu") {
    fail(ErrorCode::usage, "'{}' does not name a CPU device; write cpu, cpu:0-3 or cpu:numa0",
         printable(name));
  }
  while (slash != std::string_view::npos) {
    const size_t next = name.find('/', slash + 1);
    apply_option(name.substr(slash + 1, next == std::string_view::npos ? next : next - slash - 1),
                 name, options);
    slash = next;
  }
  return options;
}

uint32_t most_threads(const CpuDeviceOptions& options) {
  if (!options.cores.empty()) return static_cast<uint32_t>(options.cores.size());
  const CpuLimits limits = cpu_limits();
  const bool by_quota = limits.usable < limits.physical;
  return by_quota ? limits.usable : static_cast<uint32_t>(limits.processors.size());
}

std::vector<uint32_t> processors_of(const CpuDeviceOptions& options) {
  return options.cores.empty() ? cpu_limits().processors : options.cores;
}

}  // namespace strata::device::cpu
