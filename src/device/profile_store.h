// Profiles that were measured once and are kept: calibration.json in the user's cache folder.
//
// Purpose: a device is calibrated when its speed is first asked for, not in every run. What was
// measured holds for one processor, device, instruction set, number of units and program version.
// Not for: measuring (calibrate.h).
// Errors: a cache that cannot be read, is damaged or cannot be written is none; it is never an
// error. A device without the memory to be measured gives a profile that is not known, with a
// warning.
// Threads: safe; of two programs that write at once the last one wins.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "device/calibrate.h"

namespace strata::device {

// The profile of the device: from the cache when it holds the types, else measured, and kept unless
// it was disturbed; or, when nothing may be measured, what the cache holds (perhaps nothing:
// Profile::known).
Profile profile_of(Device& device, std::span<const ElementType> types, bool may_measure);

// As profile_of, with a file of one's own; empty: nothing is kept.
Profile profile_of(Device& device, std::span<const ElementType> types, bool may_measure,
                   const std::string& path);

// strata/calibration.json below XDG_CACHE_HOME, or ~/.cache; empty when neither is there.
std::string calibration_path();

// What the file holds for a device like this.
std::optional<Profile> load_profile(const DeviceInfo& info, const std::string& path);
// Adds the profile to the file, in the place of what it held for the device; false when that
// cannot be.
bool store_profile(const DeviceInfo& info, const Profile& profile, const std::string& path);

}  // namespace strata::device
