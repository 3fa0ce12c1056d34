// A plan as people and programs read it.
//
// Threads: pure functions.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "device/description.h"
#include "plan/alternatives.h"
#include "plan/plan.h"

namespace strata::app {

// "0-13, attention of 14", from the blocks whose attention and whose feed-forward a device has.
std::string layers_text(const plan::DevicePlan& device);

// What plan::make was given, and what came of it.
struct PlanReport {
  const plan::Plan& plan;
  const plan::Request& request;
  const std::vector<device::Description>& devices;
  const std::vector<plan::Alternative>& alternatives;
  std::vector<std::string> notes;  // beside the plan's own
  std::string flags;               // those that give the plan again
};

// A table of devices by purpose, then the pipeline, the speed to expect and the reasons.
std::string plan_table(const PlanReport& report);

Json plan_json(const PlanReport& report);
Json refusal_json(const plan::Refusal& refusal);

}  // namespace strata::app
