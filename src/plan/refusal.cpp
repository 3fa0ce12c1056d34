#include "plan/refusal.h"

#include <algorithm>
#include <functional>

#include "base/error.h"

namespace strata::plan {
namespace {

constexpr size_t k_suggestions = 3;

double mib(uint64_t bytes) { return static_cast<double>(bytes) / 1048576.0; }

std::string size_text(uint64_t bytes) {
  return mib(bytes) >= 1024 ? fmt::format("{:.2f} GiB", mib(bytes) / 1024)
                            : fmt::format("{:.1f} MiB", mib(bytes));
}

struct Change {
  std::string flags;
  std::function<void(Request&)> apply;
  std::function<std::string(const Plan&)> flags_of = {};  // when they follow from what then fits
  bool unless_before = false;                             // another change fits
};

// "-ts 41,42,77", the shares of a plan.
std::string shares_flags(const Plan& plan) {
  std::string out;
  for (const double share : plan.shares)
    out += fmt::format("{}{:g}", out.empty() ? "" : ",", share);
  return "-ts " + out;
}

// The most layers that the cards have room for; nullopt when there are none to choose.
std::optional<uint32_t> most_layers(const model::ModelSpec& spec, const Devices& devices,
                                    const Request& request) {
  // Of an automatic context this much at least is worth having.
  constexpr uint64_t k_least_context = 4096;
  Request changed = request;
  if (!changed.n_context) {
    changed.n_context = std::min<uint64_t>(spec.n_context, k_least_context) * request.n_sequences;
  }
  // With a host that holds anything: fewer layers on the cards then always fit better.
  Devices ample = devices;
  device::DeviceInfo& host = ample[*host_of(devices)].info;
  host.budget_bytes = host.most_bytes = UINT64_MAX / 4;
  const auto fit = [&](uint32_t n) {
    changed.device_layers = n;
    return Planner(spec, ample, changed).may_fit(blocks_of(changed));
  };
  const auto all = static_cast<uint32_t>(spec.blocks.size());
  uint32_t high = std::min(request.device_layers.value_or(all), all), low = 0;
  if (high == 0 || !fit(0)) return std::nullopt;
  while (low + 1 < high) {
    const uint32_t middle = low + (high - low) / 2;
    (fit(middle) ? low : high) = middle;
  }
  return low;
}

// -ngl, where the user fixed what the cards have.
void add_layers(const model::ModelSpec& spec, const Devices& devices, const Request& request,
                std::vector<Change>& out) {
  const auto host = host_of(devices);
  const bool cards = std::any_of(devices.begin(), devices.end(),
                                 [](const auto& d) { return d.info.kind != "cpu"; });
  const bool fixed = request.device_layers.has_value() ||
                     (cards && !request.shares.empty() && request.split == Split::layer);
  if (!fixed || !host || devices.size() == 1) return;
  if (request.split == Split::none && request.main_device.value_or(0) == *host) return;
  if (const auto most = most_layers(spec, devices, request)) {
    // The estimate may be a little low.
    for (uint32_t less = 0; less <= std::min(*most, 1u); ++less) {
      const uint32_t n = *most - less;
      out.push_back(
          {fmt::format("-ngl {}", n), [n](Request& r) { r.device_layers = n; }, {}, less > 0});
    }
  }
  if (request.device_layers) {
    out.push_back({"-ngl auto", [](Request& r) { r.device_layers.reset(); }});
  }
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
  add_layers(spec, devices, request, out);
  if (request.split != Split::none && devices.size() > 1 && request.copies.value_or(2) > 1) {
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
std::optional<std::string> larger_budgets(const model::ModelSpec& spec, const Devices& devices,
                                          const Request& request, Missing missing) {
  constexpr uint64_t k_unit = uint64_t{1} << 20;
  constexpr int k_rounds = 4;  // a larger budget may change who holds what
  Devices raised = devices;
  for (int round = 0; round < k_rounds; ++round) {
    uint64_t hosts = 0;
    bool more = false;
    for (size_t d = 0; d < raised.size(); ++d) {
      device::DeviceInfo& info = raised[d].info;
      if (d < missing.devices.size() && missing.devices[d].needed > info.budget_bytes) {
        // An automatic context asks what is free: that cannot be raised here.
        if (missing.devices[d].budget < info.budget_bytes) return std::nullopt;
        info.budget_bytes = (missing.devices[d].needed + k_unit - 1) / k_unit * k_unit;
        if (info.budget_bytes > info.most_bytes) return std::nullopt;
        more = true;
      }
      if (raised[d].here && info.kind == "cpu")
        hosts += info.budget_bytes - std::min(info.budget_bytes, devices[d].info.budget_bytes);
    }
    if (!more) return std::nullopt;
    // Devices in main memory share what is free of it.
    for (const device::Description& d : devices) {
      if (d.here && d.info.kind == "cpu" && hosts > d.info.free_bytes) return std::nullopt;
    }
    missing = {};
    if (attempt(spec, raised, request, &missing)) {
      std::string list;
      for (size_t d = 0; d < raised.size(); ++d) {
        if (raised[d].info.budget_bytes == devices[d].info.budget_bytes) continue;
        list += fmt::format("{}{}={}MiB", list.empty() ? "" : ",", raised[d].info.name,
                            raised[d].info.budget_bytes / k_unit);
      }
      return "--memory " + list;
    }
  }
  return std::nullopt;
}

// What each device needs and has; of many only those that lack something.
std::string shortfall_text(const Missing& missing) {
  constexpr size_t k_lines = 8;
  const bool all = missing.devices.size() <= k_lines;
  std::string out;
  size_t shown = 0, left = 0;
  for (const Refusal::Shortfall& s : missing.devices) {
    const bool lacks = s.needed > s.budget;
    if (!all && (!lacks || shown == k_lines)) {
      left += lacks;
      continue;
    }
    ++shown;
    out += fmt::format("\n  {}: {} needed, {} there", s.device, size_text(s.needed),
                       size_text(s.budget));
    if (lacks) out += fmt::format(", {} short", size_text(s.needed - s.budget));
  }
  if (left > 0) out += fmt::format("\n  and {} more devices", left);
  const size_t enough = missing.devices.size() - shown - left;
  if (enough > 0) {
    out += fmt::format("\n  {} device{} ha{} room for {}", enough, enough == 1 ? "" : "s",
                       enough == 1 ? "s" : "ve", enough == 1 ? "its part" : "their parts");
  }
  if (missing.memory) {
    const Refusal::Shortfall& s = *missing.memory;
    out += fmt::format("\n  {}, in this machine's memory: {} needed in all, {} there, {} short",
                       s.device, size_text(s.needed), size_text(s.budget),
                       size_text(s.needed - s.budget));
  }
  return out;
}

// What the user fixed and could leave out, where that alone is enough.
std::optional<std::string> to_leave_out(const model::ModelSpec& spec, const Devices& devices,
                                        const Request& request) {
  std::vector<Change> changes;
  if (!request.rules.empty()) changes.push_back({"-ot", [](Request& r) { r.rules.clear(); }});
  if (request.host_expert_layers) {
    changes.push_back({"-ncmoe or -cmoe", [](Request& r) { r.host_expert_layers.reset(); }});
  }
  if (request.kv_on_host) changes.push_back({"-nkvo", [](Request& r) { r.kv_on_host = false; }});
  for (const Change& change : changes) {
    Request changed = request;
    change.apply(changed);
    try {
      if (attempt(spec, devices, changed)) return change.flags;
    } catch (const Error&) {
      // Without it the rest makes no sense.
    }
  }
  return std::nullopt;
}

}  // namespace

void refuse(const model::ModelSpec& spec, const Devices& devices, const Request& request,
            Missing missing) {
  std::vector<std::string> suggestions;
  for (const Change& change : possible_changes(spec, devices, request)) {
    if (suggestions.size() == k_suggestions) break;
    if (change.unless_before && !suggestions.empty()) continue;
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
    if (auto flags = larger_budgets(spec, devices, request, missing)) {
      suggestions.push_back(std::move(*flags));
    }
  }
  std::string message = "the model does not fit:" + shortfall_text(missing);
  uint64_t needed = 0, there = 0;
  for (const Refusal::Shortfall& s : missing.devices) {
    needed += s.needed;
    there += s.budget;
  }
  if (const auto words =
          suggestions.empty() ? to_leave_out(spec, devices, request) : std::nullopt) {
    message += fmt::format("\nwithout {} it would fit", *words);
  } else if (suggestions.empty()) {
    message += "\nno change of these options fits; use a smaller model or element type";
    if (!host_of(devices)) {
      message +=
          ", or add main memory to -dev, as in ...,cpu:64GiB: it takes the layers that the "
          "others cannot hold";
    } else if (needed > there || missing.memory) {
      message += ", or another device";
    } else {
      message += ", or let --memory give the devices more";
    }
  } else {
    message += "\nany one of these would fit:";
    for (const std::string& flags : suggestions) message += "\n  " + flags;
  }
  throw Refusal(message, std::move(missing.devices), std::move(suggestions),
                std::move(missing.memory));
}

}  // namespace strata::plan
