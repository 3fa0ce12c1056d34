// The CPU device: a set of cores, this process's memory, and a budget.
//
// Purpose: the Device contract over a thread team. A queue is a thread that carries out its work
// in order; runs of different queues on one device take turns on the team.
// Memory: arenas are anonymous mappings, in huge pages where the system gives them.
// Threads: as device.h says.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/cpu/isa.h"
#include "device/device.h"

namespace strata::device::cpu {

struct CpuDeviceOptions {
  std::string name = "cpu";
  std::vector<uint32_t> cores;  // logical processors to use; empty: what the process may use
  uint32_t threads = 0;         // 0: one per core
  std::optional<Isa> isa;       // absent: chosen_isa()
  uint64_t budget_bytes = 0;    // 0: the memory this process may use
  bool lock_memory = false;     // keep arenas from being swapped out, as far as the system lets us
};

// The threads of a device and the processors that they are pinned to; no processors: not pinned.
// ErrorCode::usage for a core that this process may not use.
struct TeamShape {
  uint32_t threads = 1;
  std::vector<uint32_t> cores;
};
TeamShape team_shape(const CpuDeviceOptions& options);

std::unique_ptr<Device> make_cpu_device(const CpuDeviceOptions& options);

}  // namespace strata::device::cpu
