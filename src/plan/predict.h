// How long a device takes for a program: a roofline over what was measured of it.
//
// Purpose: the planner cuts a model by these times and tells the user what to expect of a run.
// Formula: an op of n rows takes its time at one row plus (n - 1) times its slope per row; the
// first is bytes / bytes_per_second, the slope operations / operations_per_second of one row.
// Threads: pure functions.
#pragma once

#include "device/description.h"
#include "plan/cost.h"

namespace strata::plan {

// One run of the program on the device with all its units. `work` as for the whole model: tokens,
// outputs, attended and cached positions. 0 when the profile is not known.
double program_seconds(const device::Program& program, const device::Profile& profile,
                       const StepWork& work);

// An activation [tokens, width] of F32 to another device.
double copy_seconds(const device::Profile& from, double tokens, uint32_t width);

}  // namespace strata::plan
