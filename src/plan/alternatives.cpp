#include "plan/alternatives.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "plan/rules.h"

namespace strata::plan {
namespace {

// Gains below this are not worth a line.
constexpr double k_gain = 1.1;
// Contexts of a sequence that are enough for most: a long document, a conversation.
constexpr uint64_t k_contexts[] = {32768, 8192};

uint32_t card_halves(const Plan& plan, const std::vector<device::Description>& devices) {
  size_t n = 0;
  for (size_t d = 0; d < devices.size(); ++d) {
    if (devices[d].info.kind == "cpu") continue;
    n += plan.devices[d].attention_blocks.size() + plan.devices[d].ffn_blocks.size();
  }
  return static_cast<uint32_t>(n);
}

}  // namespace

std::vector<Alternative> faster_alternatives(const model::ModelSpec& spec,
                                             const std::vector<device::Description>& devices,
                                             const Request& request, const Plan& plan) {
  std::vector<Alternative> out;
  const double now = plan.predicted.decode_tokens_per_second;
  // Only where layers lie on a device that others are faster than.
  const auto halves = static_cast<uint32_t>(2 * spec.blocks.size());
  const uint32_t on_cards = card_halves(plan, devices);
  const bool cards = std::any_of(devices.begin(), devices.end(),
                                 [](const auto& d) { return d.info.kind != "cpu"; });
  if (request.split != Split::layer || now <= 0 || !cards || on_cards == halves) return out;
  double best = now;
  const auto attempt = [&](const std::string& flags, const Request& changed) {
    std::optional<Plan> other;
    try {
      other = make(spec, devices, changed);
    } catch (const Error&) {
      return;  // what makes no sense here is no alternative
    }
    if (other->predicted.decode_tokens_per_second < k_gain * best) return;
    best = other->predicted.decode_tokens_per_second;
    out.push_back(
        {flags, card_halves(*other, devices), on_cards, halves, other->predicted, plan.predicted});
  };
  Request fixed = request;
  fixed.n_context = plan.n_context;
  const bool q8 = std::all_of(spec.blocks.begin(), spec.blocks.end(), [](const auto& b) {
    return b.attention.head_dim_k % 32 == 0 && b.attention.head_dim_v % 32 == 0;
  });
  if (q8 && request.type_k == ElementType::f16 && request.type_v == ElementType::f16) {
    Request changed = fixed;
    changed.type_k = changed.type_v = ElementType::q8_0;
    attempt("-ctk q8_0 -ctv q8_0", changed);
  }
  if (!plan.context_chosen) return out;
  for (const uint64_t context : k_contexts) {
    const uint64_t n = context * request.n_sequences;
    if (2 * n > plan.n_context) continue;
    Request changed = request;
    changed.n_context = n;
    attempt(fmt::format("-c {}", n), changed);
  }
  return out;
}

}  // namespace strata::plan
