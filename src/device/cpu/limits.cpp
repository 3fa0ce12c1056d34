// What this process may use of the machine: affinity mask, cgroup quota, cgroup memory; NUMA nodes.
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>

#include "device/cpu/thread_team.h"

namespace strata::device::cpu {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

std::optional<uint64_t> to_number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end == text.data()) return std::nullopt;
  return value;
}

// Folders of this process's cgroup and its parents (version 2), or the fixed ones of version 1.
std::vector<std::string> cgroup_folders(const std::string& controller) {
  std::vector<std::string> folders;
  std::ifstream in("/proc/self/cgroup");
  std::string line;
  while (std::getline(in, line)) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string names = line.substr(first + 1, second - first - 1);
    std::string path = line.substr(second + 1);
    std::string root;
    if (names.empty()) {
      root = "/sys/fs/cgroup";
    } else if (("," + names + ",").find("," + controller + ",") != std::string::npos) {
      root = "/sys/fs/cgroup/" + controller;
    } else {
      continue;
    }
    // Inside a container the path may not exist below the mount; the root always does.
    for (;;) {
      folders.push_back(root + (path == "/" ? "" : path));
      const size_t slash = path.rfind('/');
      if (path.empty() || path == "/" || slash == std::string::npos) break;
      path = slash == 0 ? "/" : path.substr(0, slash);
    }
  }
  return folders;
}

// Cores granted by the tightest CPU quota, or nothing when there is none.
std::optional<double> cpu_quota() {
  std::optional<double> tightest;
  const auto consider = [&](std::optional<uint64_t> quota, std::optional<uint64_t> period) {
    if (!quota || !period || *period == 0) return;
    const double cores = static_cast<double>(*quota) / static_cast<double>(*period);
    if (!tightest || cores < *tightest) tightest = cores;
  };
  for (const std::string& folder : cgroup_folders("cpu")) {
    std::istringstream max(first_line(folder + "/cpu.max"));
    std::string quota, period;
    if (max >> quota >> period) consider(to_number(quota), to_number(period));
    consider(to_number(first_line(folder + "/cpu.cfs_quota_us")),
             to_number(first_line(folder + "/cpu.cfs_period_us")));
  }
  return tightest;
}

uint64_t meminfo(const char* field) {
  std::ifstream in("/proc/meminfo");
  std::string name;
  uint64_t kib = 0;
  std::string rest;
  while (in >> name >> kib && std::getline(in, rest)) {
    if (name == field) return kib * 1024;
  }
  return 0;
}

}  // namespace

CpuLimits cpu_limits() {
  CpuLimits limits;
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<uint32_t> allowed;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (uint32_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &set)) allowed.push_back(cpu);
    }
  }
  if (allowed.empty()) allowed.push_back(0);
  // One processor of each physical core first; its siblings after all cores.
  std::set<std::pair<std::string, std::string>> cores;
  std::vector<uint32_t> siblings;
  for (const uint32_t cpu : allowed) {
    const std::string folder = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    const std::string core = first_line(folder + "core_id");
    const std::string package = first_line(folder + "physical_package_id");
    if (core.empty() || cores.insert({package, core}).second) {
      limits.processors.push_back(cpu);
    } else {
      siblings.push_back(cpu);
    }
  }
  limits.physical = static_cast<uint32_t>(limits.processors.size());
  limits.processors.insert(limits.processors.end(), siblings.begin(), siblings.end());
  limits.usable = limits.physical;
  if (const auto quota = cpu_quota()) {
    const auto cores_granted = static_cast<uint32_t>(std::max(1.0, *quota + 0.5));
    limits.usable = std::min(limits.usable, cores_granted);
  }
  return limits;
}

std::optional<std::vector<uint32_t>> parse_processors(std::string_view list) {
  constexpr uint64_t k_most = 65536;  // above this a file of the system makes no sense
  std::vector<uint32_t> out;
  while (true) {
    const size_t comma = list.find(',');
    const std::string_view part = list.substr(0, comma);
    const size_t dash = part.find('-');
    const auto first = to_number(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : to_number(part.substr(dash + 1));
    if (!first || !last || *last < *first || *last >= k_most) return std::nullopt;
    for (uint64_t core = *first; core <= *last; ++core) {
      out.push_back(static_cast<uint32_t>(core));
    }
    if (comma == std::string_view::npos) return out;
    list.remove_prefix(comma + 1);
  }
}

std::map<uint32_t, std::vector<uint32_t>> numa_nodes(const std::string& folder) {
  std::map<uint32_t, std::vector<uint32_t>> nodes;
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with("node")) continue;
    const auto number = to_number(std::string_view(name).substr(4));
    if (!number || *number > UINT32_MAX) continue;
    // A node without processors (memory only) has an empty list.
    nodes[static_cast<uint32_t>(*number)] =
        parse_processors(first_line(entry->path().string() + "/cpulist"))
            .value_or(std::vector<uint32_t>{});
  }
  return nodes;
}

uint64_t memory_limit() {
  uint64_t limit = meminfo("MemTotal:");
  for (const std::string& folder : cgroup_folders("memory")) {
    for (const char* file : {"/memory.max", "/memory.limit_in_bytes"}) {
      if (const auto bytes = to_number(first_line(folder + file))) limit = std::min(limit, *bytes);
    }
  }
  return limit;
}

std::optional<uint64_t> cgroup_memory_available(const std::string& folder) {
  const auto read = [&](const char* file) { return to_number(first_line(folder + "/" + file)); };
  auto most = read("memory.max"), used = read("memory.current");
  const bool second_version = most && used;
  if (!second_version) {
    most = read("memory.limit_in_bytes");
    used = read("memory.usage_in_bytes");
    if (!most || !used) return std::nullopt;
  }
  // Pages of files count as used, but the system takes them back before it refuses memory: a model
  // that was read before would else stand in its own way.
  uint64_t cached = 0;
  std::ifstream stat(folder + "/memory.stat");
  std::string name, value;
  while (stat >> name >> value) {
    const bool mine = second_version ? name == "active_file" || name == "inactive_file"
                                     : name == "total_active_file" || name == "total_inactive_file";
    if (mine) cached += to_number(value).value_or(0);
  }
  const uint64_t kept = *used - std::min(*used, cached);
  return *most > kept ? *most - kept : 0;
}

uint64_t memory_available() {
  uint64_t available = meminfo("MemAvailable:");
  for (const std::string& folder : cgroup_folders("memory")) {
    available = std::min(available, cgroup_memory_available(folder).value_or(available));
  }
  return available;
}

}  // namespace strata::device::cpu
