#include "plan/plan.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/suggest.h"
#include "plan/attempt.h"
#include "plan/refusal.h"
#include "strata/engine.h"

namespace strata::plan {
namespace {

std::vector<std::string> names_of(const Devices& devices) {
  std::vector<std::string> out;
  for (const device::Description& d : devices) out.push_back(d.info.name);
  return out;
}

size_t cards_of(const Devices& devices) {
  return static_cast<size_t>(std::count_if(devices.begin(), devices.end(),
                                           [](const auto& d) { return d.info.kind != "cpu"; }));
}

// How to name more devices, where that is not plain.
std::string example_of(const Devices& devices) {
  const bool cores = devices.size() == 1 && devices[0].here && devices[0].info.kind == "cpu";
  return cores ? ", as in -dev cpu:0,cpu:1: cores are devices, too" : "";
}

void check(const Request& request, const Devices& devices) {
  const auto in_range = [](uint64_t value, uint64_t low, uint64_t high, const char* what) {
    if (value < low || value > high) {
      fail(ErrorCode::usage, "{} is {}, but must lie from {} to {}", what, value, low, high);
    }
  };
  if (devices.empty()) fail(ErrorCode::usage, "there is no device to plan for");
  if (request.n_context) in_range(*request.n_context, 1, k_max_context, "the context (-c)");
  in_range(request.n_sequences, 1, 65536, "the number of sequences (-np)");
  in_range(request.n_batch, 1, k_max_batch, "the batch (-b)");
  in_range(request.n_ubatch, 1, k_max_ubatch, "the micro-batch (-ub)");
  if (request.copies) in_range(*request.copies, 1, 64, "the number of copies (--pipeline-copies)");
  const size_t n = devices.size();
  if (request.main_device && *request.main_device >= n) {
    fail(ErrorCode::usage, "-mg {}: there {} {} device{}, counted from 0", *request.main_device,
         n == 1 ? "is" : "are", n, n == 1 ? "" : "s");
  }
  if (request.split == Split::tensor && request.tensor_parallel > 0 &&
      (request.tensor_parallel > n || n % request.tensor_parallel != 0)) {
    fail(ErrorCode::usage,
         "-tp {}: -dev names {} device{} ({}), which cannot be grouped by {}; name {} of them or a "
         "multiple of that{}",
         request.tensor_parallel, n, n == 1 ? "" : "s", join_names(names_of(devices)),
         request.tensor_parallel, request.tensor_parallel, example_of(devices));
  }
  if (!request.shares.empty() && request.shares.size() != n) {
    fail(ErrorCode::usage,
         "-ts gives {} share{}, but -dev names {} device{} ({}); give one share for each{}{}",
         request.shares.size(), request.shares.size() == 1 ? "" : "s", n, n == 1 ? "" : "s",
         join_names(names_of(devices)),
         cards_of(devices) > 0 && cards_of(devices) < n ? ", or one for each card" : "",
         request.shares.size() > n ? ", or name more devices" + example_of(devices) : "");
  }
  for (const double share : request.shares) {
    if (!std::isfinite(share) || share < 0) {
      fail(ErrorCode::usage, "-ts: {} is not a share from 0 on", share);
    }
  }
  if (request.kv_on_host && !host_of(devices)) {
    fail(ErrorCode::usage, "-nkvo: there is no device of main memory; add cpu to -dev");
  }
}

// The request with one share for each device, none so large that a sum of them is no number.
Request with_shares(const Request& request, const Devices& devices) {
  Request out = request;
  if (request.shares.empty()) return out;
  const size_t cards = cards_of(devices);
  if (cards > 0 && cards < devices.size() && request.shares.size() == cards) {
    // As guides have it: one for each card.
    for (size_t d = 0; d < devices.size(); ++d) {
      if (devices[d].info.kind != "cpu") continue;
      out.shares.insert(out.shares.begin() + static_cast<std::ptrdiff_t>(d), 0.0);
    }
  }
  const double largest = *std::max_element(out.shares.begin(), out.shares.end());
  if (std::isfinite(largest) && (largest > 1e100 || (largest > 0 && largest < 1e-100))) {
    for (double& share : out.shares) share /= largest;
  }
  return out;
}

// What of the request's words does nothing beside others.
std::vector<std::string> contradictions(const model::ModelSpec& spec, const Devices& devices,
                                        const Request& request) {
  std::vector<std::string> out = request.warnings;
  if (devices.size() == 1) return out;
  if (request.split == Split::none && !request.shares.empty()) {
    out.push_back(fmt::format("-ts counts for nothing beside -sm none: {} has all",
                              devices[request.main_device.value_or(0)].info.name));
  }
  if (request.split != Split::none && request.main_device) {
    out.push_back(fmt::format("-mg {} counts only with -sm none: -sm {} uses all devices",
                              *request.main_device,
                              request.split == Split::layer ? "layer" : "tensor"));
  }
  if (host_is_apart(spec, devices, request) && !request.shares.empty()) {
    const uint32_t host = *host_of(devices);
    if (request.shares[host] > 0) {
      out.push_back(
          fmt::format("the share that -ts gives {} does not count beside -ngl {}, which says what "
                      "it has",
                      devices[host].info.name, *request.device_layers));
    }
  }
  return out;
}

void check_cache_rows(const model::ModelSpec& spec, const Request& request) {
  const auto check_row = [](ElementType type, uint32_t head_dim, const char* flag) {
    const TypeInfo& type_info = info(type);
    if (head_dim % type_info.block_elems != 0) {
      fail(ErrorCode::usage, "{} {}: the head size {} is not a multiple of its block of {}", flag,
           type_info.name, head_dim, type_info.block_elems);
    }
  };
  for (const model::BlockSpec& block : spec.blocks) {
    check_row(request.type_k, block.attention.head_dim_k, "-ctk");
    check_row(request.type_v, block.attention.head_dim_v, "-ctv");
  }
}

// Seconds of a typical request, where they are known.
double typical_seconds(const Plan& plan) {
  const Prediction& p = plan.predicted;
  if (p.prefill_tokens_per_second <= 0 || p.decode_tokens_per_second <= 0) return 0;
  return 2048 / p.prefill_tokens_per_second + 256 / p.decode_tokens_per_second;
}

// Experts fill most of a large mixture and work least: where the cards cannot hold all, it often
// is best that main memory has them and the cards everything else.
std::optional<Plan> with_experts_on_host(const model::ModelSpec& spec, const Devices& devices,
                                         const Request& request, std::optional<Plan> plan) {
  const bool free_choice = request.split == Split::layer && !request.host_expert_layers &&
                           request.rules.empty() && request.shares.empty();
  const bool cards = std::any_of(devices.begin(), devices.end(),
                                 [](const auto& d) { return d.info.kind != "cpu"; });
  const uint32_t n = expert_layers(spec);
  if (!free_choice || !cards || !host_of(devices) || n == 0) return plan;
  const uint32_t host = *host_of(devices);
  if (plan && plan->devices[host].ffn_blocks.empty()) return plan;
  constexpr uint32_t k_steps = 8;
  for (uint32_t i = 1; i <= k_steps; ++i) {
    Request moved = request;
    moved.host_expert_layers = n * i / k_steps;
    auto other = attempt(spec, devices, moved);
    if (!other) continue;
    const bool larger = !plan || other->n_context > 2 * plan->n_context;
    const bool faster = plan && other->n_context >= plan->n_context &&
                        typical_seconds(*other) < 0.98 * typical_seconds(*plan);
    if (larger || faster) plan = std::move(other);
  }
  return plan;
}

}  // namespace

DeviceBytes Plan::bytes() const {
  DeviceBytes sum;
  for (const DevicePlan& device : devices) {
    sum.weights += device.bytes.weights;
    sum.kv += device.bytes.kv;
    sum.activations += device.bytes.activations;
    sum.boundary += device.bytes.boundary;
    sum.logits += device.bytes.logits;
    sum.scratch += device.bytes.scratch;
  }
  return sum;
}

Plan make(const model::ModelSpec& spec, const std::vector<device::Description>& devices,
          const Request& asked) {
  const Request request = with_shares(asked, devices);
  check(request, devices);
  check_cache_rows(spec, request);
  Missing missing;
  std::optional<Plan> plan = attempt(spec, devices, request, &missing);
  plan = with_experts_on_host(spec, devices, request, std::move(plan));
  if (!plan) refuse(spec, devices, request, std::move(missing));
  const std::vector<std::string> more = contradictions(spec, devices, request);
  plan->warnings.insert(plan->warnings.begin(), more.begin(), more.end());
  return std::move(*plan);
}

std::string pipeline_text(const Plan& plan, const Request& request) {
  const Pipeline& p = plan.pipeline;
  if (!p.off_because.empty()) return "off (" + p.off_because + ")";
  std::string why = "asked for";
  if (!p.asked) {
    why = request.n_sequences > 1 ? fmt::format("auto: {} sequences allowed", request.n_sequences)
                                  : std::string("auto: a prompt flows through all stages");
    if (p.fewer) why += "; more would gain little";
    if (p.scarce && !p.fewer) why += "; more do not fit";
  }
  return fmt::format("{} stages, copies={} ({}), +{:.1f} MiB", p.stages, p.copies, why,
                     static_cast<double>(p.bytes) / 1048576.0);
}

}  // namespace strata::plan
