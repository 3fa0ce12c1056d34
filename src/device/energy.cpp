#include "device/energy.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace strata::device {
namespace {

std::optional<uint64_t> read_number(const std::string& path) {
  std::ifstream in(path);
  uint64_t value = 0;
  if (in >> value) return value;
  return std::nullopt;
}

}  // namespace

std::optional<EnergyMeter> EnergyMeter::open(const std::string& folder) {
  EnergyMeter meter;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string zone = entry.path().string();
    std::string name;
    std::ifstream(zone + "/name") >> name;
    // Cores and graphics are parts of the package; "psys" holds the packages again.
    if (!name.starts_with("package") && name != "dram") continue;
    const auto now = read_number(zone + "/energy_uj");
    if (!now) continue;
    const uint64_t range = read_number(zone + "/max_energy_range_uj").value_or(0);
    meter.counters_.push_back({zone + "/energy_uj", range, *now});
  }
  if (meter.counters_.empty()) return std::nullopt;
  return meter;
}

void EnergyMeter::start() {
  for (Counter& counter : counters_) {
    counter.before = read_number(counter.path).value_or(counter.before);
  }
}

std::optional<double> EnergyMeter::joules() const {
  double total = 0;
  for (const Counter& counter : counters_) {
    const auto now = read_number(counter.path);
    if (!now) return std::nullopt;
    const uint64_t used = *now >= counter.before
                              ? *now - counter.before
                              : *now + std::max(counter.range, counter.before) - counter.before;
    total += static_cast<double>(used) * 1e-6;
  }
  return total;
}

}  // namespace strata::device
