// Alternatives: what a user could ask for instead, and what would come of it.
//
// Purpose: the automatic choices take the largest context that fits, although that may push layers
// from fast devices to a slow one. Plans for a few other requests tell what it costs.
// Not for: what does not fit; a Refusal has its own suggestions.
// Threads: pure functions.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.h"

namespace strata::plan {

struct Alternative {
  std::string flags;                              // to add: "-c 8192"
  uint32_t card_halves = 0, card_halves_now = 0;  // of layers that are not on the host
  uint32_t halves = 0;                            // of layers in all
  Prediction predicted, predicted_now;
};

// Requests that would decode faster than `plan`, which was made of the arguments, by a tenth at
// least; those that change less first. Empty when speeds are not known.
std::vector<Alternative> faster_alternatives(const model::ModelSpec& spec,
                                             const std::vector<device::Description>& devices,
                                             const Request& request, const Plan& plan);

}  // namespace strata::plan
