// The devices of this machine, by name.
//
// Purpose: from what the user wrote (`-dev cpu`, `cpu:0-3`) to a Device. To add a kind of device:
// one entry in registry.cpp.
// Errors: ErrorCode::usage naming the device and the known kinds.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/device.h"

namespace strata::device {

struct DeviceRequest {
  std::string name = "cpu";   // "cpu", "cpu:0-3", "cpu:0,2"
  uint32_t threads = 0;       // 0: one per core
  uint64_t budget_bytes = 0;  // 0: all that the process may use
  bool lock_memory = false;   // keep the device's memory from being swapped out
};

std::unique_ptr<Device> open_device(const DeviceRequest& request);

// What a device can do at most, measured now; 0 where it cannot be measured.
struct Peaks {
  double read_bytes_per_second = 0;       // memory read, front to back
  double int8_operations_per_second = 0;  // multiplications and additions of 8-bit integers
};
// Takes about a second and up to 1 GiB of memory; the device should have nothing else to do.
Peaks measure_peaks(const DeviceRequest& request);

// One default device of every kind that this machine has.
std::vector<DeviceInfo> list_devices();

}  // namespace strata::device
