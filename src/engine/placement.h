// From words to devices and a request: what the engine, `strata plan` and `strata bench` share.
//
// Errors: ErrorCode::usage naming the option and what would be right.
// Threads: pure functions, but for opening and measuring devices.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "device/description.h"
#include "device/device.h"
#include "model/spec.h"
#include "plan/plan.h"
#include "strata/placement.h"

namespace strata {

// "2GiB", "512MiB", "1.5G", "800000000": bytes. `origin` for messages.
uint64_t parse_size(std::string_view text, const std::string& origin);

struct OpenDevices {
  std::vector<std::unique_ptr<device::Device>> devices;  // null where only described
  std::vector<device::Description> descriptions;
  bool all_here() const;
};

// Opens what is here, describes the rest, sets the budgets. `threads` of each device, 0 for all.
OpenDevices open_devices(const PlacementOptions& options, uint32_t threads, bool lock_memory);

// Measures the speed of the devices, or takes it from an earlier measurement, when there are
// several (or `always`).
void know_speeds(OpenDevices& open, const PlacementOptions& options, const model::ModelSpec& spec,
                 bool always);

// The placement's part of a request.
plan::Request request_of(const PlacementOptions& options);

// The element type of a cache by its name; `flag` for messages.
ElementType cache_type(const std::string& name, const char* flag);

// The flags that give this plan again, placement only: "-dev ... -sm layer -ts 17,15 ...".
std::string flags_of(const plan::Plan& plan, const plan::Request& request,
                     const PlacementOptions& options);

}  // namespace strata
