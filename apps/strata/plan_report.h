// A plan as people and programs read it.
//
// Threads: pure functions.
#pragma once

#include <string>

#include "base/json.h"
#include "plan/plan.h"

namespace strata::app {

// "0-13, attention of 14", from the blocks whose attention and whose feed-forward a device has.
std::string layers_text(const plan::DevicePlan& device);

// A table of devices by purpose, then the pipeline, the speed to expect and the reasons.
std::string plan_table(const plan::Plan& plan, const plan::Request& request);

// `flags`: those that give the plan again.
Json plan_json(const plan::Plan& plan, const plan::Request& request, const std::string& flags);
Json refusal_json(const plan::Refusal& refusal);

}  // namespace strata::app
