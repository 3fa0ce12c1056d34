// Calibration: how fast a device really is, measured over the Device contract.
//
// Purpose: a Profile from tiny programs like the parts of a model: weights that do not fit the
// caches, many rows, a long past. The best of several short windows counts, since others may use
// the machine meanwhile; where no quiet ones were left, the profile says so (Profile::disturbed).
// Takes half a second for the types of a model, a few when disturbed.
// Not for: the peaks of the hardware (registry.h, measure_peaks); keeping what was measured
// (profile_store.h).
// Memory: up to k_calibration_bytes of the device, less when its budget is smaller, freed at the
// end.
// Errors: ErrorCode::does_not_fit when a few tens of MiB are not there.
// Threads: one calibration of a device at a time, with nothing else to do for it.
#pragma once

#include <cstdint>
#include <span>

#include "device/description.h"

namespace strata::device {

inline constexpr uint64_t k_calibration_bytes = uint64_t{224} << 20;

// Types given twice count once; without any, Q8_0 is measured.
Profile calibrate(Device& device, std::span<const ElementType> types);

}  // namespace strata::device
