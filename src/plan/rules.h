// Placement rules: which halves of blocks leave their stage, and for which device.
//
// Purpose: -ot, -cmoe, -ncmoe and -ngl turned into a device for each half, for the embedding and
// for the head. A half runs on one device: where most of its bytes are sent.
// Errors: ErrorCode::usage for a pattern that is none, a device that is not there, numbers that
// contradict each other.
// Threads: pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace strata::plan {

struct Overrides {
  std::vector<std::optional<uint32_t>> halves;  // by half: index of a device
  std::optional<uint32_t> embedding, head;
  uint32_t first_half = 0;  // those before it are the host's (-ngl)
  std::vector<std::string> notes, warnings;
};

// The device of main memory: the last one of kind "cpu". nullopt when there is none.
std::optional<uint32_t> host_of(const std::vector<device::Description>& devices);

// Whether the host has only the layers that -ngl leaves it: the others are the cards.
bool host_is_apart(const model::ModelSpec& spec, const std::vector<device::Description>& devices,
                   const Request& request);

Overrides apply_rules(const model::ModelSpec& spec, const std::vector<device::Description>& devices,
                      const Request& request);

// Index of a device by its name, also in upper case and for "CPU" the host; a usage error naming
// `origin` and the devices otherwise.
uint32_t device_named(const std::vector<device::Description>& devices, const std::string& name,
                      const std::string& origin);

}  // namespace strata::plan
