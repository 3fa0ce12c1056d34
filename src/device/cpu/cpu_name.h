// Names of CPU devices.
//
// Purpose: from what the user wrote to the options of a device:
//   cpu                  all cores that this process may use
//   cpu:0-3  cpu:0,2     these logical processors
//   cpu:numa0            those of a NUMA node that this process may use, one of each core
//   NAME/isa=avx2/threads=1
// Errors: ErrorCode::usage naming the device, the part that makes no sense and what would.
// Threads: pure functions of the name and the machine.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "device/cpu/cpu_device.h"

namespace strata::device::cpu {

// Whether the name is one of a CPU device, if perhaps a wrong one.
bool is_cpu_name(std::string_view name);

// The name, cores, threads and instruction set that the name asks for; the rest as it is.
CpuDeviceOptions parse_cpu_name(std::string_view name);

// Threads that can run at the same time: processors that the device may use, fewer when the cgroup
// grants less time than they have.
uint32_t most_threads(const CpuDeviceOptions& options);

// Processors that the device may run on.
std::vector<uint32_t> processors_of(const CpuDeviceOptions& options);

}  // namespace strata::device::cpu
