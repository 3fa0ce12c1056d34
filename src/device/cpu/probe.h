// What the cores can do at most: memory read and 8-bit multiplication, measured.
//
// Purpose: the limits against which `strata bench` states what was reached, measured in the same
// run with the same threads. Reading: one large buffer in huge pages (where they can be had), each
// thread its own part from front to back, nothing else done. Multiplying: 8-bit products summed in
// 32 bits from registers, in the best instruction of the instruction set in use.
// Not for: deciding how to compute; that is the planner's and the kernels' business.
// Errors: ErrorCode::does_not_fit when the system refuses the buffer.
// Threads: one measurement at a time, on an otherwise idle device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/cpu/cpu_device.h"
#include "device/registry.h"

namespace strata::device::cpu {

struct ProbeKernels {
  // Reads `bytes` (a multiple of 1024) at `data` (64-byte aligned); the result depends on all.
  uint64_t (*read)(const std::byte* data, size_t bytes);
  // `rounds` times a fixed number of products from registers; the result depends on all.
  uint64_t (*multiply)(uint64_t rounds);
  uint64_t operations_per_round;  // a multiplication and an addition each
};

extern const ProbeKernels k_generic_probe;
extern const ProbeKernels k_avx2_probe;
extern const ProbeKernels k_avx512vnni_probe;

const ProbeKernels& probe_kernels(Isa isa);

Peaks measure_peaks(const CpuDeviceOptions& options);

}  // namespace strata::device::cpu
