// The plan as it runs: what each device holds, how full the cache is, what goes on. For the page's
// picture of the memory; the plan's part never changes, the rest is the scheduler's figures.
#include <algorithm>

#include "base/json.h"
#include "engine/engine_impl.h"
#include "server/api.h"
#include "server/call.h"

namespace strata::server {
namespace {

Json list_of(const std::vector<uint32_t>& values) {
  Json out = Json::array();
  for (const uint32_t value : values) out.push(value);
  return out;
}

Json device_json(const plan::DevicePlan& plan, const device::DeviceInfo& info,
                 const DeviceUse* use) {
  const plan::DeviceBytes& bytes = plan.bytes;
  return Json::object({
      {"name", plan.name},
      {"kind", info.kind},
      {"description", info.description},
      {"instruction_set", info.isa},
      {"units", info.units},
      {"memory_bytes", info.memory_bytes},
      {"budget_bytes", plan.budget},
      {"planned", Json::object({{"weights", bytes.weights},
                                {"kv_cache", bytes.kv},
                                {"activations", bytes.activations},
                                {"boundary", bytes.boundary},
                                {"logits", bytes.logits},
                                {"scratch", bytes.scratch},
                                {"total", bytes.total()}})},
      {"layers", Json::object({{"attention", list_of(plan.attention_blocks)},
                               {"feed_forward", list_of(plan.ffn_blocks)},
                               {"embedding", plan.embeds},
                               {"head", plan.head}})},
      {"share", plan.share},
      {"busy_seconds", use != nullptr ? use->busy_seconds : 0.0},
      {"runs", use != nullptr ? use->runs : uint64_t{0}},
  });
}

}  // namespace

HttpResponse Api::memory() const {
  const ModelInfo& info = engine_.info();
  const runtime::Model& model = *engine_.impl().model;
  const plan::Plan& plan = model.plan();
  const SchedulerState s = scheduler_.state();
  Json devices = Json::array();
  for (size_t d = 0; d < plan.devices.size(); ++d) {
    const auto use = std::find_if(s.devices.begin(), s.devices.end(), [&](const DeviceUse& one) {
      return one.device == plan.devices[d].name;
    });
    devices.push(device_json(plan.devices[d], model.device(d).info(),
                             use == s.devices.end() ? nullptr : &*use));
  }
  const uint64_t used = s.kv_blocks - std::min(s.kv_blocks, s.kv_free);
  HttpResponse out;
  out.headers.emplace("Cache-Control", "no-store");
  out.body =
      Json::object({{"time_seconds", seconds_now()},
                    {"model", Json::object({{"name", options_.model_name},
                                            {"family", info.family},
                                            {"parameters", info.parameters},
                                            {"layers", info.n_layers}})},
                    {"n_ctx", info.n_context},
                    {"n_cache", info.n_cache},
                    {"pipeline", info.pipeline},
                    {"devices", std::move(devices)},
                    {"kv", Json::object({{"block_tokens", plan.kv_block_tokens},
                                         {"blocks", s.kv_blocks},
                                         {"used", used},
                                         {"kept", s.kv_free - std::min(s.kv_free, s.kv_empty)},
                                         {"empty", s.kv_empty}})},
                    {"requests", Json::object({{"running", s.running},
                                               {"waiting", s.waiting},
                                               {"parallel", s.parallel},
                                               {"finished", s.finished},
                                               {"failed", s.failed},
                                               {"preempted", s.preemptions}})},
                    {"tokens", Json::object({{"prompt", s.prompt_tokens},
                                             {"cached", s.cached_tokens},
                                             {"generated", s.generated_tokens}})}})
          .dump();
  return out;
}

}  // namespace strata::server
