#include "strata/plan_report.h"

#include <fmt/format.h>

#include <algorithm>

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

// "0-3,5,7-9"
std::string ranges(const std::vector<uint32_t>& sorted) {
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

std::string plan_table(const Plan& plan, const plan::Request& request) {
  const bool shares = plan.split == plan::Split::tensor;
  std::vector<std::vector<std::string>> rows{
      {"device", "layers", "weights", "KV cache", "compute", "total", "of"}};
  const auto add = [&](const std::string& name, const std::string& layers,
                       const plan::DeviceBytes& bytes, uint64_t budget) {
    rows.push_back({name, layers, size_text(bytes.weights), size_text(bytes.kv),
                    size_text(bytes.compute()), size_text(bytes.total()), size_text(budget)});
  };
  uint64_t budget = 0;
  for (const DevicePlan& device : plan.devices) {
    std::string layers = layers_text(device);
    if (shares && device.share < 1) layers += fmt::format(" ({:.1f} %)", 100 * device.share);
    add(device.name, layers, device.bytes, device.budget);
    budget += device.budget;
  }
  if (plan.devices.size() > 1) add("all", "", plan.bytes(), budget);
  std::vector<size_t> widths(rows[0].size(), 0);
  for (const auto& row : rows) {
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      // Words to the left, numbers to the right.
      line += c < 2 ? fmt::format("{:<{}}  ", row[c], widths[c])
                    : fmt::format("{:>{}}  ", row[c], widths[c]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  out += fmt::format("\ncontext   {} tokens{}, micro-batch {}\n", plan.n_context,
                     plan.context_chosen ? " (the largest that fits, up to the model's own)" : "",
                     plan.n_ubatch);
  out += "pipeline  " + plan::pipeline_text(plan, request) + "\n";
  if (plan.predicted.decode_tokens_per_second > 0) {
    out += fmt::format("expected  prefill {} tokens/s, decode {} tokens/s for one sequence\n",
                       speed(plan.predicted.prefill_tokens_per_second),
                       speed(plan.predicted.decode_tokens_per_second));
    if (plan.devices.size() > 1) {
      for (const DevicePlan& device : plan.devices) {
        if (device.bytes.total() == 0) continue;
        out += fmt::format("          {}: {:.1f} ms of a micro-batch, {:.2f} ms of a token\n",
                           device.name, device.prefill_seconds * 1e3, device.decode_seconds * 1e3);
      }
    }
  }
  for (const std::string& note : plan.notes) out += "note      " + note + "\n";
  for (const std::string& warning : plan.warnings) out += "warning   " + warning + "\n";
  return out;
}

Json plan_json(const Plan& plan, const plan::Request& request, const std::string& flags) {
  Json devices = Json::array();
  for (const DevicePlan& device : plan.devices) {
    const plan::DeviceBytes& b = device.bytes;
    devices.push(Json::object({{"device", device.name},
                               {"budget", device.budget},
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
                                  {"text", plan::pipeline_text(plan, request)}})},
       {"prefill_per_second", speed_or_null(plan.predicted.prefill_tokens_per_second)},
       {"decode_per_second", speed_or_null(plan.predicted.decode_tokens_per_second)},
       {"notes", list_of(plan.notes)},
       {"warnings", list_of(plan.warnings)},
       {"flags", flags}});
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
  return Json::object({{"fits", false},
                       {"devices", std::move(devices)},
                       {"suggestions", list_of(refusal.suggestions())}});
}

}  // namespace strata::app
