#include "plan/attempt.h"

#include <algorithm>

namespace strata::plan {
namespace {

// Of the memory that is free now, left to the rest of the process and of the system when the
// context is chosen automatically.
constexpr double k_auto_share = 0.9;
// And so many tokens per sequence at most: a file's claim of a huge context costs nothing to make,
// but would take all the memory there is.
constexpr uint64_t k_auto_context = uint64_t{1} << 20;

// What an automatic context may use: what is free now. Devices in main memory share it.
Devices with_free_memory(const Devices& devices) {
  Devices out = devices;
  for (device::Description& d : out) {
    auto free = static_cast<double>(d.info.free_bytes);
    if (d.here) free *= k_auto_share;
    d.info.most_bytes = static_cast<uint64_t>(free);
    d.info.budget_bytes = std::min(d.info.budget_bytes, d.info.most_bytes);
  }
  return out;
}

// As many copies as there is room for, from one on; `missing` is what one of them lacks.
std::optional<Plan> with_fewer_copies(Planner& planner, const Request& request, Missing* missing) {
  std::optional<Plan> plan;
  for (uint32_t copies = 1;; ++copies) {
    planner.limit_copies(copies);
    std::optional<Plan> more = planner.build(blocks_of(request), plan ? nullptr : missing);
    if (!more) return plan;
    // More than there are stages was too much.
    const bool all = copies >= more->pipeline.stages;
    plan = std::move(more);
    if (all) return plan;
  }
}

std::optional<Plan> attempt_fixed(const model::ModelSpec& spec, const Devices& devices,
                                  const Request& request, Missing* missing) {
  Planner planner(spec, devices, request);
  Missing lacks;
  std::optional<Plan> plan = planner.build(blocks_of(request), &lacks);
  if (!plan && planner.copies_are_free()) plan = with_fewer_copies(planner, request, &lacks);
  if (!plan && missing != nullptr) *missing = std::move(lacks);
  return plan;
}

// Blocks that a plan has room for beyond its own. The estimate leaves a little room on every
// device: what is exact fills it.
uint64_t room_of(const Planner& planner, const Plan& plan, uint64_t most) {
  uint64_t room = most, hosts = 0;
  for (const DevicePlan& device : plan.devices) {
    const uint64_t block = device.bytes.kv / plan.n_kv_blocks;
    if (block > 0) room = std::min(room, (device.budget - device.bytes.total()) / block);
  }
  for (const uint32_t d : planner.host_devices()) {
    hosts += plan.devices[d].bytes.kv / plan.n_kv_blocks;
  }
  if (hosts > 0) room = std::min(room, (planner.host_limit() - planner.host_bytes(plan)) / hosts);
  return room;
}

}  // namespace

uint32_t blocks_of(const Request& request) {
  return static_cast<uint32_t>((*request.n_context + k_block_tokens - 1) / k_block_tokens);
}

uint32_t expert_layers(const model::ModelSpec& spec) {
  return static_cast<uint32_t>(std::count_if(spec.blocks.begin(), spec.blocks.end(),
                                             [](const auto& b) { return b.experts.has_value(); }));
}

std::optional<Plan> attempt_auto(const model::ModelSpec& spec, const Devices& devices,
                                 const Devices& most, const Request& request, Missing* missing) {
  Planner planner(spec, most, request);
  // Each sequence may take the model's whole context, as far as there is memory.
  const uint64_t own = std::min<uint64_t>(spec.n_context, k_auto_context);
  const uint64_t wanted =
      std::min((own + k_block_tokens - 1) / k_block_tokens * request.n_sequences,
               (uint64_t{1} << 31) / k_block_tokens);
  uint32_t n_blocks = std::max(1u, planner.most_blocks(wanted));
  bool copies_left = !request.copies && devices.size() > 1;
  // The estimate may be a little high: what is left out then is little at first.
  for (uint32_t less = 64;; less = std::max(2u, less / 2)) {
    if (auto plan = planner.build(n_blocks, missing)) {
      const uint64_t room = room_of(planner, *plan, wanted - n_blocks);
      if (room > 0) {
        if (auto larger = planner.build(static_cast<uint32_t>(n_blocks + room), nullptr)) {
          plan = std::move(larger);
        }
      }
      plan->context_chosen = true;
      // What the devices have in all, not what is free now.
      for (size_t d = 0; d < devices.size(); ++d) {
        plan->devices[d].budget = devices[d].info.budget_bytes;
      }
      return plan;
    }
    if (n_blocks == 1) {
      if (!copies_left) return std::nullopt;
      copies_left = false;
      planner.limit_copies(1);
      n_blocks = std::max(1u, planner.most_blocks(wanted)) + 1;
      less = 128;
    }
    n_blocks -= std::max(1u, n_blocks / less);
  }
}

std::optional<Plan> attempt(const model::ModelSpec& spec, const Devices& devices,
                            const Request& request, Missing* missing) {
  return request.n_context
             ? attempt_fixed(spec, devices, request, missing)
             : attempt_auto(spec, devices, with_free_memory(devices), request, missing);
}

}  // namespace strata::plan
