// The devices of this machine, by name.
//
// Purpose: from what the user wrote (`-dev cpu`, `cpu:0-3`) to a Device. To add a kind of device:
// one entry in registry.cpp.
// Names: "cpu"; "cpu:0-3", "cpu:0,2", "cpu:numa0" (cores); options behind slashes, as in
// "cpu:0/isa=avx2/threads=1".
// Errors: ErrorCode::usage naming the device and the known kinds.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/device.h"

namespace strata::device {

struct DeviceRequest {
  std::string name = "cpu";
  // 0: one per core. No more run than there are processors for; what the name says goes first.
  uint32_t threads = 0;
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

// The names of a list, "cpu:0,cpu:1": a comma begins a new device when a letter follows, else it
// goes on with a list of cores ("cpu:0,2,cpu:1" is cpu:0,2 and cpu:1). Only cut, not looked at:
// described devices (description.h) may be among them.
std::vector<std::string> split_device_list(std::string_view text);

// ErrorCode::usage when two of the devices have one name or share a core: two teams of threads on
// one core would wait for each other. Names that are not of the kinds known here pass.
void check_disjoint(std::span<const std::string> names);

}  // namespace strata::device
