#include "plan/plan.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/checked.h"
#include "base/error.h"
#include "plan/planner.h"
#include "strata/engine.h"

namespace strata::plan {
namespace {

// Of the memory that is free now, left to the rest of the process and of the system when the
// context is chosen automatically.
constexpr double k_auto_share = 0.9;
// And so many tokens per sequence at most: a file's claim of a huge context costs nothing to make,
// but would take all the memory there is.
constexpr uint64_t k_auto_context = uint64_t{1} << 20;
constexpr size_t k_suggestions = 3;

using Devices = std::vector<device::Description>;

double mib(uint64_t bytes) { return static_cast<double>(bytes) / 1048576.0; }

std::string size_text(uint64_t bytes) {
  return mib(bytes) >= 1024 ? fmt::format("{:.2f} GiB", mib(bytes) / 1024)
                            : fmt::format("{:.1f} MiB", mib(bytes));
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
  if (request.main_device >= n) {
    fail(ErrorCode::usage, "-mg {}: there are {} devices, counted from 0", request.main_device, n);
  }
  if (!request.shares.empty() && request.shares.size() != n) {
    fail(ErrorCode::usage, "-ts gives {} share{}, but there {} {} device{}; give one for each",
         request.shares.size(), request.shares.size() == 1 ? "" : "s", n == 1 ? "is" : "are", n,
         n == 1 ? "" : "s");
  }
  for (const double share : request.shares) {
    if (!std::isfinite(share) || share < 0) {
      fail(ErrorCode::usage, "-ts: {} is not a share from 0 on", share);
    }
  }
  if (request.split == Split::tensor && request.tensor_parallel > 0 &&
      (request.tensor_parallel > n || n % request.tensor_parallel != 0)) {
    fail(ErrorCode::usage,
         "-tp {}: {} device{} cannot be grouped by {}; name as many as are to be used with -dev",
         request.tensor_parallel, n, n == 1 ? "" : "s", request.tensor_parallel);
  }
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

// What an automatic context may use: what is free now. Devices in main memory share it.
Devices with_free_memory(const Devices& devices) {
  Devices out = devices;
  const auto hosts = std::count_if(devices.begin(), devices.end(),
                                   [](const auto& d) { return d.here && d.info.kind == "cpu"; });
  for (device::Description& d : out) {
    auto free = static_cast<double>(d.info.free_bytes);
    if (d.here) free *= k_auto_share;
    if (d.here && d.info.kind == "cpu" && hosts > 1) free /= static_cast<double>(hosts);
    d.info.budget_bytes = std::min(d.info.budget_bytes, static_cast<uint64_t>(free));
  }
  return out;
}

std::optional<Plan> attempt_fixed(const model::ModelSpec& spec, const Devices& devices,
                                  const Request& request,
                                  std::vector<Refusal::Shortfall>* shortfall) {
  const uint64_t n_blocks = (*request.n_context + k_block_tokens - 1) / k_block_tokens;
  return Planner(spec, devices, request).build(static_cast<uint32_t>(n_blocks), shortfall);
}

// `free`: the devices with what they may hold at this moment.
std::optional<Plan> attempt_auto(const model::ModelSpec& spec, const Devices& devices,
                                 const Devices& free, const Request& request,
                                 std::vector<Refusal::Shortfall>* shortfall) {
  Planner planner(spec, free, request);
  // Each sequence may take the model's whole context, as far as there is memory.
  const uint64_t own = std::min<uint64_t>(spec.n_context, k_auto_context);
  const uint64_t wanted =
      std::min((own + k_block_tokens - 1) / k_block_tokens * request.n_sequences,
               (uint64_t{1} << 31) / k_block_tokens);
  uint32_t n_blocks = std::max(1u, planner.most_blocks(wanted));
  while (true) {
    std::vector<Refusal::Shortfall> missing;
    if (auto plan = planner.build(n_blocks, &missing)) {
      // The estimate leaves a little room on every device: what is exact fills it.
      uint64_t room = wanted - n_blocks;
      for (const DevicePlan& device : plan->devices) {
        const uint64_t block = device.bytes.kv / n_blocks;
        if (block > 0) room = std::min(room, (device.budget - device.bytes.total()) / block);
      }
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
      if (shortfall != nullptr) *shortfall = missing;
      return std::nullopt;
    }
    n_blocks -= std::max(1u, n_blocks / 64);
  }
}

std::optional<Plan> attempt(const model::ModelSpec& spec, const Devices& devices,
                            const Request& request,
                            std::vector<Refusal::Shortfall>* shortfall = nullptr) {
  return request.n_context
             ? attempt_fixed(spec, devices, request, shortfall)
             : attempt_auto(spec, devices, with_free_memory(devices), request, shortfall);
}

// Seconds of a typical request, where they are known.
double typical_seconds(const Plan& plan) {
  const Prediction& p = plan.predicted;
  if (p.prefill_tokens_per_second <= 0 || p.decode_tokens_per_second <= 0) return 0;
  return 2048 / p.prefill_tokens_per_second + 256 / p.decode_tokens_per_second;
}

uint32_t expert_layers(const model::ModelSpec& spec) {
  return static_cast<uint32_t>(std::count_if(spec.blocks.begin(), spec.blocks.end(),
                                             [](const auto& b) { return b.experts.has_value(); }));
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

struct Change {
  std::string flags;
  std::function<void(Request&)> apply;
  std::function<std::string(const Plan&)> flags_of = {};  // when they follow from what then fits
};

// "-ts 41,42,77", the shares of a plan.
std::string shares_flags(const Plan& plan) {
  std::string out;
  for (const double share : plan.shares)
    out += fmt::format("{}{:g}", out.empty() ? "" : ",", share);
  return "-ts " + out;
}

std::vector<Change> possible_changes(const model::ModelSpec& spec, const Devices& devices,
                                     const Request& request) {
  std::vector<Change> out;
  const auto smaller_ubatch = [&](uint32_t n) {
    if (n < std::min(request.n_ubatch, request.n_batch)) {
      out.push_back({fmt::format("-ub {}", n), [n](Request& r) { r.n_ubatch = n; }});
    }
  };
  const bool can_q8 = std::all_of(spec.blocks.begin(), spec.blocks.end(), [](const auto& b) {
    return b.attention.head_dim_k % 32 == 0 && b.attention.head_dim_v % 32 == 0;
  });
  const auto cache = [&](ElementType type) {
    const auto bits = [](ElementType t) {
      return static_cast<double>(info(t).block_bytes) / info(t).block_elems;
    };
    if (bits(type) >= std::min(bits(request.type_k), bits(request.type_v))) return;
    if (!can_q8 && info(type).block_elems > 1) return;
    const auto name = info(type).name;
    out.push_back({fmt::format("-ctk {} -ctv {}", name, name),
                   [type](Request& r) { r.type_k = r.type_v = type; }});
  };
  if (request.copies && *request.copies > 1) {
    out.push_back({"--pipeline-copies 1", [](Request& r) { r.copies = 1; }});
  }
  smaller_ubatch(256);
  smaller_ubatch(128);
  if (!request.shares.empty()) {
    out.push_back({"", [](Request& r) { r.shares.clear(); }, shares_flags});
  }
  cache(ElementType::f16);
  cache(ElementType::q8_0);
  uint64_t most = 0;  // of context, with nothing else changed
  if (request.n_context) {
    // The largest that fits is found by asking for it.
    const auto largest = [&](ElementType type_k, ElementType type_v) {
      Request free = request;
      free.n_context.reset();
      free.type_k = type_k;
      free.type_v = type_v;
      const auto plan = attempt_auto(spec, devices, devices, free, nullptr);
      return plan ? plan->n_context : 0;
    };
    most = largest(request.type_k, request.type_v);
    if (most > 0 && most < *request.n_context) {
      out.push_back({fmt::format("-c {}", most), [n = most](Request& r) { r.n_context = n; }});
    }
    const bool plain = request.type_k == ElementType::f16 && request.type_v == ElementType::f16;
    const uint64_t packed = plain && can_q8 ? largest(ElementType::q8_0, ElementType::q8_0) : 0;
    if (packed > most + most / 4 && packed < *request.n_context) {
      out.push_back({fmt::format("-c {} -ctk q8_0 -ctv q8_0", packed), [n = packed](Request& r) {
                       r.n_context = n;
                       r.type_k = r.type_v = ElementType::q8_0;
                     }});
    }
  }
  const uint32_t n_expert_layers = expert_layers(spec);
  if (n_expert_layers > 0 && devices.size() > 1 && host_of(devices)) {
    for (const uint32_t part : {4u, 2u, 1u}) {
      const uint32_t n = (n_expert_layers + part - 1) / part;
      if (request.host_expert_layers && *request.host_expert_layers >= n) continue;
      out.push_back({part == 1 ? std::string("-cmoe") : fmt::format("-ncmoe {}", n),
                     [n](Request& r) { r.host_expert_layers = n; }});
    }
  }
  cache(ElementType::q4_0);
  smaller_ubatch(64);
  if (request.split == Split::none && devices.size() > 1) {
    out.push_back({"-sm layer", [](Request& r) { r.split = Split::layer; }});
  }
  if (request.split == Split::tensor) {
    // -tp alone means tensor, too.
    out.push_back({request.tensor_parallel > 0 ? "-sm layer -tp 1" : "-sm layer", [](Request& r) {
                     r.split = Split::layer;
                     r.tensor_parallel = 0;
                   }});
  }
  // Nothing of the above may be enough by itself.
  if (request.n_context && most == 0) {
    for (const uint64_t n : {8192u, 4096u, 2048u, 512u}) {
      if (n >= *request.n_context) continue;
      if (can_q8) {
        const uint32_t n_ubatch = std::min(request.n_ubatch, 128u);
        out.push_back({fmt::format("-c {} -ctk q8_0 -ctv q8_0 -ub {}", n, n_ubatch),
                       [n, n_ubatch](Request& r) {
                         r.n_context = n;
                         r.type_k = r.type_v = ElementType::q8_0;
                         r.n_ubatch = n_ubatch;
                       }});
      }
    }
  }
  return out;
}

// What a budget was held below, the device has: "--memory cpu:0=1.3GiB", where the plan fits then.
// Devices in main memory share it.
std::optional<std::string> larger_budgets(const model::ModelSpec& spec, const Devices& devices,
                                          const Request& request,
                                          std::vector<Refusal::Shortfall> missing) {
  constexpr uint64_t k_unit = uint64_t{1} << 20;
  constexpr int k_rounds = 4;  // a larger budget may change who holds what
  Devices raised = devices;
  for (int round = 0; round < k_rounds; ++round) {
    uint64_t hosts = 0;
    for (size_t d = 0; d < raised.size(); ++d) {
      device::DeviceInfo& info = raised[d].info;
      if (d < missing.size() && missing[d].needed > info.budget_bytes) {
        // An automatic context asks what is free: that cannot be raised here.
        if (missing[d].budget < info.budget_bytes) return std::nullopt;
        info.budget_bytes = (missing[d].needed + k_unit - 1) / k_unit * k_unit;
        if (info.budget_bytes > info.most_bytes) return std::nullopt;
      }
      if (raised[d].here && info.kind == "cpu")
        hosts += info.budget_bytes - std::min(info.budget_bytes, devices[d].info.budget_bytes);
    }
    for (const device::Description& d : devices) {
      if (d.here && d.info.kind == "cpu" && hosts > d.info.free_bytes) return std::nullopt;
    }
    missing.clear();
    if (attempt(spec, raised, request, &missing)) {
      std::string list;
      for (size_t d = 0; d < raised.size(); ++d) {
        if (raised[d].info.budget_bytes == devices[d].info.budget_bytes) continue;
        list += fmt::format("{}{}={}MiB", list.empty() ? "" : ",", raised[d].info.name,
                            raised[d].info.budget_bytes / k_unit);
      }
      return "--memory " + list;
    }
    if (missing.empty()) return std::nullopt;
  }
  return std::nullopt;
}

[[noreturn]] void refuse(const model::ModelSpec& spec, const Devices& devices,
                         const Request& request, std::vector<Refusal::Shortfall> shortfalls) {
  std::vector<std::string> suggestions;
  for (const Change& change : possible_changes(spec, devices, request)) {
    if (suggestions.size() == k_suggestions) break;
    Request changed = request;
    change.apply(changed);
    try {
      const auto plan = attempt(spec, devices, changed);
      if (plan) suggestions.push_back(change.flags_of ? change.flags_of(*plan) : change.flags);
    } catch (const Error&) {
      // A change that makes no sense here is not suggested.
    }
  }
  if (suggestions.size() < k_suggestions) {
    if (auto flags = larger_budgets(spec, devices, request, shortfalls)) {
      suggestions.push_back(std::move(*flags));
    }
  }
  std::string message = "the model does not fit:";
  uint64_t needed = 0, there = 0;
  for (const Refusal::Shortfall& s : shortfalls) {
    message += fmt::format("\n  {}: {} needed, {} there", s.device, size_text(s.needed),
                           size_text(s.budget));
    if (s.needed > s.budget) message += fmt::format(", {} short", size_text(s.needed - s.budget));
    needed += s.needed;
    there += s.budget;
  }
  if (suggestions.empty()) {
    message += "\nno change of these options fits; use a smaller model or element type";
    if (!host_of(devices)) {
      message +=
          ", or add main memory to -dev, as in ...,cpu:64GiB: it takes the layers that the "
          "others cannot hold";
    } else if (needed > there) {
      message += ", or another device";
    } else {
      message += ", or let --memory give the devices more";
    }
  } else {
    message += "\nany one of these would fit:";
    for (const std::string& flags : suggestions) message += "\n  " + flags;
  }
  throw Refusal(message, std::move(shortfalls), std::move(suggestions));
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
          const Request& request) {
  check(request, devices);
  check_cache_rows(spec, request);
  std::vector<Refusal::Shortfall> shortfalls;
  std::optional<Plan> plan = attempt(spec, devices, request, &shortfalls);
  plan = with_experts_on_host(spec, devices, request, std::move(plan));
  if (!plan) refuse(spec, devices, request, std::move(shortfalls));
  return std::move(*plan);
}

std::string pipeline_text(const Plan& plan, const Request& request) {
  const Pipeline& p = plan.pipeline;
  if (!p.off_because.empty()) return "off (" + p.off_because + ")";
  std::string why = "asked for";
  if (!p.asked) {
    why = request.n_sequences > 1 ? fmt::format("auto: {} sequences allowed", request.n_sequences)
                                  : std::string("auto: a prompt flows through all stages");
  }
  return fmt::format("{} stages, copies={} ({}), +{:.1f} MiB", p.stages, p.copies, why,
                     mib(p.bytes));
}

}  // namespace strata::plan
