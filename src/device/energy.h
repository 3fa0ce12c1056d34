// Energy that the machine says it has used.
//
// Purpose: joules between two moments, from Linux's powercap files (RAPL: whole packages, and
// memory where it is counted apart). They are often readable by root only, and absent in virtual
// machines: then there is no meter.
// Threads: one meter belongs to one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace strata::device {

class EnergyMeter {
 public:
  // nullopt when nothing can be read below `folder`.
  static std::optional<EnergyMeter> open(const std::string& folder = "/sys/class/powercap");

  void start();
  // Joules since start(); nullopt when a counter cannot be read any more. A counter that ran over
  // counts on; start() must not lie further back than it takes to run over twice (minutes).
  std::optional<double> joules() const;

 private:
  struct Counter {
    std::string path;
    uint64_t range = 0;  // the value after which it begins again at 0
    uint64_t before = 0;
  };
  std::vector<Counter> counters_;
};

}  // namespace strata::device
