// Attempts: a plan with everything that was asked for, or what it lacks.
//
// Not for: proposing other requests (refusal.h).
// Threads: pure functions.
#pragma once

#include <optional>
#include <vector>

#include "plan/planner.h"

namespace strata::plan {

using Devices = std::vector<device::Description>;

// nullopt when nothing fits; `missing`, if any, says what it lacks.
std::optional<Plan> attempt(const model::ModelSpec& spec, const Devices& devices,
                            const Request& request, Missing* missing = nullptr);

// The plan of the largest context, whatever the request says about it, when the devices may hold
// what `most` says at this moment.
std::optional<Plan> attempt_auto(const model::ModelSpec& spec, const Devices& devices,
                                 const Devices& most, const Request& request, Missing* missing);

// Blocks of the cache of the request's context.
uint32_t blocks_of(const Request& request);

// Layers with experts.
uint32_t expert_layers(const model::ModelSpec& spec);

}  // namespace strata::plan
