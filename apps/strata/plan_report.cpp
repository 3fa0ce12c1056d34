#include "strata/plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace strata::app {
namespace {

using plan::DevicePlan;
using plan::Plan;

std::string size_text(uint64_t bytes) {
  if (bytes == 0) return "-";
  const double mib = static_cast<double>(bytes) / 1048576.0;
  if (mib >= 1024) return fmt::format("{:.2f} GiB", mib / 1024);
  return fmt::format("{:.1f} MiB", mib);
}

// "0-3,5,7-9"; every second or third of many as "1-31 by 2".
std::string ranges(const std::vector<uint32_t>& sorted) {
  constexpr size_t k_least = 4;
  if (sorted.size() >= k_least && sorted[1] > sorted[0] + 1) {
    const uint32_t step = sorted[1] - sorted[0];
    size_t same = 1;
    while (same < sorted.size() && sorted[same] == sorted[same - 1] + step) ++same;
    if (same == sorted.size()) {
      return fmt::format("{}-{} by {}", sorted.front(), sorted.back(), step);
    }
  }
  std::string out;
  for (size_t i = 0; i < sorted.size();) {
    size_t end = i;
    while (end + 1 < sorted.size() && sorted[end + 1] == sorted[end] + 1) ++end;
    if (!out.empty()) out += ",";
    out += end == i ? fmt::format("{}", sorted[i]) : fmt::format("{}-{}", sorted[i], sorted[end]);
    i = end + 1;
  }
  return out;
}

Json list_of(const std::vector<uint32_t>& values) {
  Json out = Json::array();
  for (const uint32_t value : values) out.push(value);
  return out;
}

Json list_of(const std::vector<std::string>& values) {
  Json out = Json::array();
  for (const std::string& value : values) out.push(value);
  return out;
}

const char* split_name(plan::Split split) {
  switch (split) {
    case plan::Split::none:
      return "none";
    case plan::Split::layer:
      return "layer";
    case plan::Split::tensor:
      return "tensor";
  }
  return "layer";
}

std::string speed(double tokens_per_second) {
  return tokens_per_second >= 100 ? fmt::format("{:.0f}", tokens_per_second)
                                  : fmt::format("{:.1f}", tokens_per_second);
}

std::string time_text(double seconds) {
  if (seconds >= 100) return fmt::format("{:.0f} s", seconds);
  if (seconds >= 1) return fmt::format("{:.1f} s", seconds);
  if (seconds >= 0.1) return fmt::format("{:.0f} ms", seconds * 1e3);
  if (seconds >= 1e-3) return fmt::format("{:.1f} ms", seconds * 1e3);
  return fmt::format("{:.2f} ms", seconds * 1e3);
}

using Rows = std::vector<std::vector<std::string>>;

// Columns of even width; the first `words` of them to the left, numbers to the right.
std::string aligned(const Rows& rows, size_t words, const std::string& indent) {
  std::vector<size_t> widths(rows[0].size(), 0);
  for (const auto& row : rows) {
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line = indent;
    for (size_t c = 0; c < row.size(); ++c) {
      line += c < words ? fmt::format("{:<{}}  ", row[c], widths[c])
                        : fmt::format("{:>{}}  ", row[c], widths[c]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

// What of a card's memory the plan leaves alone. Of main memory a budget is only a part.
uint64_t reserved_of(const device::Description& device, uint64_t budget) {
  if (device.info.kind == "cpu" || device.info.memory_bytes < budget) return 0;
  return device.info.memory_bytes - budget;
}

// Devices that are parts of one memory: their sizes do not add up.
bool one_memory(const std::vector<device::Description>& devices) {
  return std::count_if(devices.begin(), devices.end(), [](const device::Description& d) {
           return d.here && d.info.kind == "cpu";
         }) > 1;
}

// What the device has wholly, and what it has a share of.
std::string shard_layers(const Plan& plan, uint32_t d) {
  DevicePlan own, part;
  for (const plan::Segment& segment : plan.segments) {
    for (const plan::Member& member : segment.members) {
      if (member.device != d) continue;
      DevicePlan& to = segment.members.size() > 1 ? part : own;
      to.embeds = to.embeds || segment.embeds;
      for (uint32_t h = segment.first_half; h < segment.end_half; ++h) {
        (h % 2 == 0 ? to.attention_blocks : to.ffn_blocks).push_back(h / 2);
      }
    }
  }
  (plan.head.size() > 1 ? part : own).head = plan.devices[d].head;
  const std::string whole = layers_text(own), shared = layers_text(part);
  const std::string share = fmt::format("{} ({:.1f} %)", shared, 100 * plan.devices[d].share);
  if (shared == "-") return whole;
  return whole == "-" ? share : whole + ", " + share;
}

std::string memory_rows(const PlanReport& report) {
  const Plan& plan = report.plan;
  uint64_t all_reserved = 0, all_budget = 0, all_memory = 0;
  for (size_t d = 0; d < plan.devices.size(); ++d) {
    const uint64_t budget = plan.devices[d].budget;
    all_reserved += reserved_of(report.devices[d], budget);
    all_budget += budget;
    all_memory += budget + reserved_of(report.devices[d], budget);
  }
  const bool reserves = all_reserved > 0;
  Rows rows{{"device", "layers", "weights", "KV cache", "compute", "total"}};
  if (reserves) rows[0].push_back("reserved");
  rows[0].insert(rows[0].end(), {"free", "of", "full"});
  const auto add = [&](const std::string& name, const std::string& layers,
                       const plan::DeviceBytes& bytes, uint64_t reserved, uint64_t budget,
                       uint64_t memory) {
    std::vector<std::string> row{name,
                                 layers,
                                 size_text(bytes.weights),
                                 size_text(bytes.kv),
                                 size_text(bytes.compute()),
                                 size_text(bytes.total())};
    if (reserves) row.push_back(size_text(reserved));
    if (budget > 0) {
      row.push_back(size_text(budget > bytes.total() ? budget - bytes.total() : 0));
      row.push_back(size_text(memory));
      // Rounded down: full is what has no byte left.
      const double share = static_cast<double>(bytes.total()) / static_cast<double>(budget);
      row.push_back(fmt::format("{:.0f} %", std::floor(100 * share)));
    }
    rows.push_back(std::move(row));
  };
  for (size_t d = 0; d < plan.devices.size(); ++d) {
    const DevicePlan& device = plan.devices[d];
    std::string layers = layers_text(device);
    if (plan.split == plan::Split::tensor && device.share > 0 && device.share < 1) {
      layers = shard_layers(plan, static_cast<uint32_t>(d));
    }
    const uint64_t reserved = reserved_of(report.devices[d], device.budget);
    add(device.name, layers, device.bytes, reserved, device.budget, device.budget + reserved);
  }
  if (plan.devices.size() > 1) {
    if (one_memory(report.devices)) all_reserved = all_budget = all_memory = 0;
    add("all", "", plan.bytes(), all_reserved, all_budget, all_memory);
  }
  std::string out = aligned(rows, 2, "");
  for (const device::Description& d : report.devices) {
    if (d.info.kind == "cpu" || !reserves) continue;
    out +=
        "\nreserved  for drivers, screens and what else a card holds: 4 %, at least 256 MiB; "
        "--memory " +
        d.info.name + "=SIZE sets what may be used\n";
    break;
  }
  return out;
}

// How long each device works on what, and which holds the others up.
std::string speed_rows(const PlanReport& report) {
  const Plan& plan = report.plan;
  const DevicePlan* slowest = nullptr;
  double next = 0;
  size_t working = 0;
  for (const DevicePlan& device : plan.devices) {
    if (device.attention_blocks.empty() && device.ffn_blocks.empty() && !device.head) continue;
    ++working;
    if (slowest == nullptr || device.prefill_seconds > slowest->prefill_seconds) {
      if (slowest != nullptr) next = std::max(next, slowest->prefill_seconds);
      slowest = &device;
    } else {
      next = std::max(next, device.prefill_seconds);
    }
  }
  if (working < 2) return {};
  Rows rows;
  for (const DevicePlan& device : plan.devices) {
    if (device.attention_blocks.empty() && device.ffn_blocks.empty() && !device.head) continue;
    // Nobody is held up by what differs little.
    const bool holds_up = &device == slowest && device.prefill_seconds > 1.25 * next;
    rows.push_back({device.name, time_text(device.prefill_seconds), "of a micro-batch,",
                    time_text(device.decode_seconds), "of a token",
                    holds_up ? "<- the others wait for it" : ""});
  }
  return aligned(rows, 1, "          ");
}

std::string alternative_line(const plan::Alternative& a) {
  return fmt::format(
      "{} puts {} instead of {} of {} layers on the cards: decode {} instead of {} "
      "tokens/s, prefill {} instead of {}",
      a.flags, a.card_halves / 2, a.card_halves_now / 2, a.halves / 2,
      speed(a.predicted.decode_tokens_per_second), speed(a.predicted_now.decode_tokens_per_second),
      speed(a.predicted.prefill_tokens_per_second),
      speed(a.predicted_now.prefill_tokens_per_second));
}

}  // namespace

std::string layers_text(const DevicePlan& device) {
  std::vector<uint32_t> attention = device.attention_blocks, ffn = device.ffn_blocks, both;
  std::sort(attention.begin(), attention.end());
  std::sort(ffn.begin(), ffn.end());
  std::set_intersection(attention.begin(), attention.end(), ffn.begin(), ffn.end(),
                        std::back_inserter(both));
  std::vector<uint32_t> only_attention, only_ffn;
  std::set_difference(attention.begin(), attention.end(), both.begin(), both.end(),
                      std::back_inserter(only_attention));
  std::set_difference(ffn.begin(), ffn.end(), both.begin(), both.end(),
                      std::back_inserter(only_ffn));
  std::string out;
  const auto add = [&](const std::string& text) {
    if (!out.empty()) out += ", ";
    out += text;
  };
  if (device.embeds) add("embedding");
  if (!both.empty()) add(ranges(both));
  if (!only_attention.empty()) add("attention of " + ranges(only_attention));
  if (!only_ffn.empty()) add("feed-forward of " + ranges(only_ffn));
  if (device.head) add("head");
  return out.empty() ? "-" : out;
}

std::string plan_table(const PlanReport& report) {
  const Plan& plan = report.plan;
  std::string out = memory_rows(report);
  out += fmt::format("\ncontext   {} tokens{}, micro-batch {}\n", plan.n_context,
                     plan.context_chosen ? " (the largest that fits, up to the model's own)" : "",
                     plan.n_ubatch);
  out += "pipeline  " + plan::pipeline_text(plan, report.request) + "\n";
  if (plan.predicted.decode_tokens_per_second > 0) {
    out += fmt::format("expected  prefill {} tokens/s, decode {} tokens/s for one sequence\n",
                       speed(plan.predicted.prefill_tokens_per_second),
                       speed(plan.predicted.decode_tokens_per_second));
    out += speed_rows(report);
  }
  for (const plan::Alternative& alternative : report.alternatives) {
    out += "faster    " + alternative_line(alternative) + "\n";
  }
  for (const std::string& note : report.notes) out += "note      " + note + "\n";
  for (const std::string& note : plan.notes) out += "note      " + note + "\n";
  for (const std::string& warning : plan.warnings) out += "warning   " + warning + "\n";
  return out + "again     " + report.flags + "\n";
}

Json plan_json(const PlanReport& report) {
  const Plan& plan = report.plan;
  Json devices = Json::array();
  for (size_t d = 0; d < plan.devices.size(); ++d) {
    const DevicePlan& device = plan.devices[d];
    const plan::DeviceBytes& b = device.bytes;
    devices.push(Json::object({{"device", device.name},
                               {"budget", device.budget},
                               {"reserved", reserved_of(report.devices[d], device.budget)},
                               {"weights", b.weights},
                               {"kv", b.kv},
                               {"activations", b.activations},
                               {"boundary", b.boundary},
                               {"logits", b.logits},
                               {"scratch", b.scratch},
                               {"compute", b.compute()},
                               {"total", b.total()},
                               {"share", device.share},
                               {"attention_layers", list_of(device.attention_blocks)},
                               {"ffn_layers", list_of(device.ffn_blocks)},
                               {"embedding", device.embeds},
                               {"head", device.head},
                               {"prefill_seconds", device.prefill_seconds},
                               {"decode_seconds", device.decode_seconds}}));
  }
  Json alternatives = Json::array();
  for (const plan::Alternative& a : report.alternatives) {
    alternatives.push(Json::object({{"flags", a.flags},
                                    {"card_layers", a.card_halves / 2},
                                    {"prefill_per_second", a.predicted.prefill_tokens_per_second},
                                    {"decode_per_second", a.predicted.decode_tokens_per_second}}));
  }
  std::vector<std::string> notes = report.notes;
  notes.insert(notes.end(), plan.notes.begin(), plan.notes.end());
  const auto speed_or_null = [](double value) { return value > 0 ? Json(value) : Json(); };
  return Json::object(
      {{"fits", true},
       {"split", split_name(plan.split)},
       {"context", plan.n_context},
       {"context_chosen", plan.context_chosen},
       {"n_batch", plan.n_batch},
       {"n_ubatch", plan.n_ubatch},
       {"devices", std::move(devices)},
       {"pipeline", Json::object({{"stages", plan.pipeline.stages},
                                  {"copies", plan.pipeline.copies},
                                  {"extra_bytes", plan.pipeline.bytes},
                                  {"off_because", plan.pipeline.off_because},
                                  {"text", plan::pipeline_text(plan, report.request)}})},
       {"prefill_per_second", speed_or_null(plan.predicted.prefill_tokens_per_second)},
       {"decode_per_second", speed_or_null(plan.predicted.decode_tokens_per_second)},
       {"faster", std::move(alternatives)},
       {"notes", list_of(notes)},
       {"warnings", list_of(plan.warnings)},
       {"flags", report.flags}});
}

Json refusal_json(const plan::Refusal& refusal) {
  Json devices = Json::array();
  for (const plan::Refusal::Shortfall& s : refusal.shortfalls()) {
    devices.push(
        Json::object({{"device", s.device},
                      {"needed", s.needed},
                      {"budget", s.budget},
                      {"short", s.needed > s.budget ? s.needed - s.budget : uint64_t{0}}}));
  }
  Json memory;
  if (const auto& s = refusal.memory()) {
    memory = Json::object({{"devices", s->device},
                           {"needed", s->needed},
                           {"budget", s->budget},
                           {"short", s->needed - s->budget}});
  }
  return Json::object({{"fits", false},
                       {"devices", std::move(devices)},
                       {"memory", std::move(memory)},
                       {"suggestions", list_of(refusal.suggestions())}});
}

}  // namespace strata::app
