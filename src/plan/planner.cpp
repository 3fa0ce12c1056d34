#include "plan/planner.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "base/checked.h"
#include "base/error.h"
#include "base/suggest.h"
#include "plan/micro_batches.h"

namespace strata::plan {
namespace {

// Logits of so many bytes are computed at once; more rows take turns.
constexpr uint64_t k_logits_bytes = uint64_t{8} << 20;
constexpr uint32_t k_max_output_rows = 64;
// Where in a text the typical step is, for the cost of attention.
constexpr double k_typical_past = 1024;
// What a typical request is: a prompt, then an answer.
constexpr double k_typical_prompt = 2048;
constexpr double k_typical_answer = 256;
constexpr int k_attempts = 8;
// So many copies are not thought about. More must make a prompt faster by the gain, and take no
// more than a part of a device's memory.
constexpr uint32_t k_cheap_copies = 4;
constexpr double k_copies_gain = 1.05;
constexpr uint64_t k_copies_part = 16;
// Micro-batches with which a device is about as fast as with large ones.
constexpr uint32_t k_least_on_cores = 32;
constexpr uint32_t k_least_on_cards = 128;

uint32_t output_rows(uint32_t n_vocab) {
  const uint64_t rows = k_logits_bytes / (uint64_t{n_vocab} * 4);
  const uint64_t clamped = std::clamp<uint64_t>(rows, device::k_row_granule, k_max_output_rows);
  return static_cast<uint32_t>(clamped / device::k_row_granule * device::k_row_granule);
}

StepWork prefill_work(double tokens) {
  return {tokens, 0, tokens * (k_typical_past + tokens / 2), k_typical_past + tokens};
}
StepWork decode_work() { return {1, 1, k_typical_past, k_typical_past}; }

// Numbers that are the same for halves that weigh and take the same.
std::vector<uint64_t> kind_of(const model::ModelSpec& spec, uint32_t half) {
  std::vector<uint64_t> key{half % 2};
  const model::BlockSpec& block = spec.blocks[half / 2];
  const auto weights = [&](std::initializer_list<model::WeightId> ids) {
    for (const model::WeightId id : ids) {
      if (id == model::k_none) {
        key.push_back(UINT64_MAX);
        continue;
      }
      const device::WeightSpec& w = spec.weights[id].spec;
      key.insert(key.end(), {static_cast<uint64_t>(w.type), w.dims[0], w.dims[1], w.dims[2]});
    }
  };
  if (half % 2 == 0) {
    const model::AttentionSpec& a = block.attention;
    key.insert(key.end(), {a.n_heads, a.n_kv_heads, a.head_dim_k, a.head_dim_v, a.window, a.rope,
                           a.softcap > 0});
    weights({block.attention_norm, a.q, a.k, a.v, a.output, a.q_bias, a.k_bias, a.v_bias,
             a.output_bias, a.q_norm, a.k_norm});
  } else if (block.dense) {
    const model::DenseFfn& f = *block.dense;
    key.insert(key.end(), {static_cast<uint64_t>(f.activation), f.n_ff});
    weights({block.ffn_norm, f.gate, f.up, f.down, f.gate_bias, f.up_bias, f.down_bias});
  } else {
    const model::ExpertFfn& f = *block.experts;
    key.insert(key.end(), {static_cast<uint64_t>(f.activation), static_cast<uint64_t>(f.gating),
                           f.n_experts, f.n_used, f.n_ff, f.renormalise, f.scale != 1});
    weights({block.ffn_norm, f.router, f.selection_bias, f.gate, f.up, f.down});
  }
  return key;
}

void add_unique(std::vector<model::WeightPart>& list, const model::WeightPart& part) {
  if (std::find(list.begin(), list.end(), part) == list.end()) list.push_back(part);
}

}  // namespace

Planner::Planner(const model::ModelSpec& spec, const std::vector<device::Description>& devices,
                 const Request& request)
    : spec_(spec),
      devices_(devices),
      request_(request),
      overrides_(apply_rules(spec, devices, request)),
      slack_(devices.size(), 0) {
  const auto host = host_of(devices);
  if (!overrides_.embedding && host && request.split != Split::none &&
      devices[0].info.kind != "cpu") {
    overrides_.embedding = host;
    overrides_.notes.push_back(
        fmt::format("token embeddings on {}: a few rows are looked up there for each step",
                    devices[*host].info.name));
  }
  // Where the first layer goes by a rule, the embedding goes along.
  if (!overrides_.embedding) overrides_.embedding = overrides_.halves[0];
  timed_ = std::all_of(devices.begin(), devices.end(),
                       [](const device::Description& d) { return d.profile.known(); });
  n_ubatch_ = std::min(request.n_ubatch, request.n_batch);
  max_tokens_ = static_cast<uint32_t>(align_up(n_ubatch_, device::k_row_granule));
  max_outputs_ = output_rows(spec.n_vocab);
  make_groups();
  const auto n_halves = static_cast<uint32_t>(2 * spec.blocks.size());
  for (const Group& group : stages_) {
    halves_.push_back(halves_of(group));
  }
  for (uint32_t h = 0; h < n_halves; ++h) {
    if (!overrides_.halves[h]) continue;
    std::vector<Half>& list = single_[*overrides_.halves[h]];
    if (list.empty()) list = halves_of({{*overrides_.halves[h]}, {1.0}, {}});
  }
  for (const Group& group : stages_) {
    double slowest = 0;
    for (size_t m = 0; m < group.devices.size(); ++m) {
      const auto head = model::lower_head(spec_, shard_of(group, m));
      const double decode =
          timed_ ? program_seconds(head.program, devices_[group.devices[m]].profile, {0, 1, 0, 0})
                 : static_cast<double>(head.program.weights.back().bytes());
      slowest = std::max(slowest, decode);
    }
    head_decode_.push_back(slowest);
  }
  for (uint32_t d = 0; d < devices_.size(); ++d) {
    const device::DeviceInfo& info = devices_[d].info;
    if (!devices_[d].here || info.kind != "cpu") continue;
    host_devices_.push_back(d);
    host_limit_ = std::max(host_limit_, info.most_bytes);
  }
  if (host_limit_ == 0) host_limit_ = UINT64_MAX;
}

model::LowerOptions Planner::lowering() const {
  model::LowerOptions options;
  options.type_k = request_.type_k;
  options.type_v = request_.type_v;
  options.kv_block_tokens = k_block_tokens;
  return options;
}

Planner::Half Planner::half_of(const Group& group, uint32_t half) const {
  Half out;
  for (size_t m = 0; m < group.devices.size(); ++m) {
    const device::Description& d = devices_[group.devices[m]];
    model::LowerOptions options = lowering();
    options.first_half = half;
    options.end_half = half + 1;
    options.shard = shard_of(group, m);
    const model::Lowered lowered = lower_stage(spec_, options);
    uint64_t weights = 0, kv = 0;
    double file_bytes = 0;
    for (const device::WeightSpec& weight : lowered.program.weights) {
      weights += d.weight_bytes(weight);
      file_bytes += static_cast<double>(weight.bytes());
    }
    for (const device::KvLayer& layer : lowered.program.kv_layers) kv += layer.block_bytes();
    out.weight_bytes.push_back(weights);
    out.kv_bytes.push_back(kv);
    out.work_bytes.push_back(d.activation_bytes(lowered.program, max_tokens_, max_outputs_) +
                             d.scratch_bytes(lowered.program, max_tokens_, max_outputs_));
    // Without known speeds all devices count as equal.
    out.prefill.push_back(
        timed_ ? program_seconds(lowered.program, d.profile, prefill_work(n_ubatch_)) : file_bytes);
    out.decode.push_back(timed_ ? program_seconds(lowered.program, d.profile, decode_work())
                                : file_bytes);
  }
  return out;
}

// Layers are mostly alike: a half of each kind is looked at once.
std::vector<Planner::Half> Planner::halves_of(const Group& group) const {
  std::map<std::vector<uint64_t>, Half> known;
  std::vector<Half> out;
  for (uint32_t h = 0; h < 2 * spec_.blocks.size(); ++h) {
    const uint32_t block = h / 2;
    std::vector<uint64_t> key = kind_of(spec_, h);
    for (const model::Shard& shard : group.shards) {
      const model::BlockShard& part = shard.blocks[block];
      for (const model::Interval& i : {part.heads, part.kv_heads, part.ff, part.experts}) {
        key.insert(key.end(), {i.begin, i.end});
      }
    }
    auto found = known.find(key);
    if (found == known.end()) found = known.emplace(std::move(key), half_of(group, h)).first;
    out.push_back(found->second);
  }
  return out;
}

// The shares of a group's devices: given, or by the time that each would take for all of it, as
// far as its memory reaches.
void Planner::fix_shares(Group& group, const std::vector<double>& given) {
  const size_t n = group.devices.size();
  group.shares.assign(n, 1.0);
  if (!given.empty()) {
    for (size_t m = 0; m < n; ++m) group.shares[m] = given[group.devices[m]];
  } else {
    std::vector<double> most(n);
    double wanted = 0;
    for (size_t m = 0; m < n; ++m) {
      double prefill = 0, decode = 0;
      uint64_t weights = 0;
      const std::vector<Half> halves = halves_of({{group.devices[m]}, {1.0}, {}});
      for (size_t h = 0; h < halves.size(); ++h) {
        if (overrides_.halves[h]) continue;
        prefill += halves[h].prefill[0];
        decode += halves[h].decode[0];
        weights += halves[h].weight_bytes[0];
      }
      const double time = k_typical_prompt / n_ubatch_ * prefill + k_typical_answer * decode;
      group.shares[m] = time > 0 ? 1 / time : 1;
      most[m] = static_cast<double>(devices_[group.devices[m]].info.budget_bytes) * 0.9;
      // Of all stages each group has its part.
      wanted = static_cast<double>(weights) * static_cast<double>(n) /
               static_cast<double>(devices_.size());
    }
    // Who has not enough memory for its share leaves the rest to the others.
    for (size_t round = 0; round < n; ++round) {
      const double total = std::accumulate(group.shares.begin(), group.shares.end(), 0.0);
      for (size_t m = 0; m < n; ++m) {
        const double share = group.shares[m] / total;
        if (wanted > 0 && share * wanted > most[m]) group.shares[m] = most[m] / wanted * total;
      }
    }
  }
  double total = std::accumulate(group.shares.begin(), group.shares.end(), 0.0);
  if (!(total > 0)) {
    // A group without shares has no layers either.
    group.shares.assign(n, 1.0);
    total = static_cast<double>(n);
  }
  for (double& share : group.shares) share /= total;
  if (n > 1) group.shards = model::cut(spec_, group.shares);
}

void Planner::make_groups() {
  const auto n = static_cast<uint32_t>(devices_.size());
  if (request_.split == Split::none) {
    stages_.push_back({{request_.main_device.value_or(0)}, {1.0}, {}});
    return;
  }
  if (request_.split == Split::layer) {
    const auto host = host_of(devices_);
    const bool apart = host_is_apart(spec_, devices_, request_);
    for (uint32_t d = 0; d < n; ++d) {
      // -ngl says which layers the host has; it takes no others.
      if (apart && host == d) continue;
      stages_.push_back({{d}, {1.0}, {}});
    }
    return;
  }
  const uint32_t size = request_.tensor_parallel > 0 ? request_.tensor_parallel : n;
  for (uint32_t first = 0; first + size <= n; first += size) {
    Group group;
    // Who is given no share takes no part; a group without shares has no layers instead.
    const auto given = [&](uint32_t d) {
      return request_.shares.empty() || request_.shares[d] > 0;
    };
    for (uint32_t d = first; d < first + size; ++d) {
      if (given(d)) group.devices.push_back(d);
    }
    if (group.devices.empty()) {
      for (uint32_t d = first; d < first + size; ++d) group.devices.push_back(d);
    }
    fix_shares(group, request_.shares);
    stages_.push_back(std::move(group));
  }
}

uint32_t Planner::copies_for(uint32_t stages) const {
  if (stages <= 1) return 1;
  return request_.copies ? *request_.copies : std::min(stages + 1, most_copies_);
}

Planner::Costs Planner::costs(uint32_t n_blocks) const {
  const auto n_halves = static_cast<uint32_t>(2 * spec_.blocks.size());
  const uint32_t copies = copies_for(static_cast<uint32_t>(stages_.size()));
  // What overrides put on devices, whatever the cut.
  std::vector<uint64_t> fixed = slack_;
  std::vector<uint64_t> fixed_work(devices_.size(), 0);
  // -nkvo: the cache is the host's, whoever computes with it.
  const auto kv_host = request_.kv_on_host ? host_of(devices_) : std::nullopt;
  const uint64_t own_blocks = kv_host ? 0 : n_blocks;
  if (kv_host) {
    for (uint32_t h = 0; h < n_halves; ++h) {
      const Half& half =
          overrides_.halves[h] ? single_.at(*overrides_.halves[h])[h] : halves_[0][h];
      for (const uint64_t bytes : half.kv_bytes) fixed[*kv_host] += bytes * n_blocks;
    }
  }
  for (const auto& [device, list] : single_) {
    for (uint32_t h = 0; h < n_halves; ++h) {
      if (overrides_.halves[h] != device) continue;
      fixed[device] += list[h].weight_bytes[0] + list[h].kv_bytes[0] * own_blocks;
      fixed_work[device] = std::max(fixed_work[device], list[h].work_bytes[0]);
    }
  }
  const auto table_bytes = [&](uint32_t d, model::WeightId id) {
    return devices_[d].weight_bytes(spec_.weights[id].spec);
  };
  const uint64_t logits = uint64_t{max_outputs_} * spec_.n_vocab * 4;
  // A tied head is the embedding's tensor: a device has it once.
  const auto has_head = [&](uint32_t d) { return spec_.tied_head && overrides_.embedding == d; };
  if (overrides_.embedding) {
    fixed[*overrides_.embedding] += table_bytes(*overrides_.embedding, spec_.embedding);
  }
  if (overrides_.head) {
    const uint32_t d = *overrides_.head;
    fixed[d] += logits + (has_head(d) ? 0 : table_bytes(d, spec_.head));
  }
  Costs out;
  for (size_t d = 0; d < devices_.size(); ++d) out.fixed.push_back(fixed[d] + fixed_work[d]);
  for (size_t s = 0; s < stages_.size(); ++s) {
    const Group& group = stages_[s];
    StageCosts stage;
    stage.memory.resize(group.devices.size());
    for (size_t m = 0; m < group.devices.size(); ++m) {
      const uint32_t d = group.devices[m];
      StageMemory& memory = stage.memory[m];
      memory.budget = devices_[d].info.budget_bytes;
      memory.fixed = out.fixed[d];
      uint64_t work = 0;
      for (uint32_t h = 0; h < n_halves; ++h) {
        const Half& half = halves_[s][h];
        const bool here = !overrides_.halves[h];
        memory.half_bytes.push_back(here ? half.weight_bytes[m] + half.kv_bytes[m] * own_blocks
                                         : 0);
        if (here) work = std::max(work, half.work_bytes[m]);
      }
      // Longer runs keep the residual stream between their halves.
      work += 2 * boundary_bytes();
      memory.used_bytes = work > fixed_work[d] ? work - fixed_work[d] : 0;
      if (s > 0) memory.used_bytes += copies * boundary_bytes();
      const model::Shard* shard = shard_of(group, m);
      const auto part_bytes = [&](model::WeightId id) {
        model::WeightPart part = model::whole(spec_, id);
        if (shard != nullptr) part.rows = shard->vocabulary;
        return devices_[d].weight_bytes(model::spec_of(spec_, part));
      };
      if (!overrides_.embedding) memory.embed_bytes = part_bytes(spec_.embedding);
      if (!overrides_.head) {
        memory.head_bytes =
            (has_head(d) ? 0 : part_bytes(spec_.head)) + logits + (s == 0 ? boundary_bytes() : 0);
      }
    }
    for (uint32_t h = 0; h < n_halves; ++h) {
      const Half& half = halves_[s][h];
      const bool here = !overrides_.halves[h];
      stage.prefill.push_back(here ? *std::max_element(half.prefill.begin(), half.prefill.end())
                                   : 0);
      stage.decode.push_back(here ? *std::max_element(half.decode.begin(), half.decode.end()) : 0);
    }
    if (!overrides_.head) stage.head_decode = head_decode_[s];
    out.stages.push_back(std::move(stage));
  }
  return out;
}

// Shares divide the layers that -ngl does not leave to the host.
std::vector<uint32_t> Planner::cuts_by_shares() const {
  const auto n_halves = static_cast<uint32_t>(2 * spec_.blocks.size());
  const uint32_t first = overrides_.first_half;
  std::vector<double> shares;
  for (const Group& group : stages_) {
    double share = 0;
    for (const uint32_t d : group.devices) share += request_.shares[d];
    shares.push_back(share);
  }
  const double total = std::accumulate(shares.begin(), shares.end(), 0.0);
  if (!(total > 0) && first < n_halves) {
    if (!host_is_apart(spec_, devices_, request_)) {
      fail(ErrorCode::usage, "-ts gives no device a share");
    }
    fail(ErrorCode::usage, "-ts gives a share only to {}, but that has what -ngl {} leaves it",
         devices_[*host_of(devices_)].info.name, *request_.device_layers);
  }
  std::vector<uint32_t> cuts;
  double before = 0;
  for (const double share : shares) {
    before += share;
    const auto halves =
        static_cast<uint32_t>(total > 0 ? std::llround(before / total * (n_halves - first)) : 0);
    cuts.push_back(halves == 0 ? 0 : first + halves);
  }
  cuts.back() = n_halves;
  return cuts;
}

// By halves, one past the last of each stage; nullopt when no cut fits by the estimate.
std::optional<std::vector<uint32_t>> Planner::cuts_for(const Costs& costs, Search search) const {
  const std::vector<StageCosts>& stages = costs.stages;
  const auto n_halves = static_cast<uint32_t>(2 * spec_.blocks.size());
  // Devices that only hold what rules put there must hold that too.
  for (size_t d = 0; d < devices_.size(); ++d) {
    if (costs.fixed[d] > devices_[d].info.budget_bytes) return std::nullopt;
  }
  if (!request_.shares.empty() || stages.size() == 1) {
    std::vector<uint32_t> cuts =
        request_.shares.empty() ? std::vector<uint32_t>{n_halves} : cuts_by_shares();
    uint32_t begin = 0;
    for (size_t s = 0; s < cuts.size(); ++s) {
      for (const StageMemory& memory : stages[s].memory) {
        if (bytes_of(memory, begin, cuts[s], n_halves) > memory.budget) return std::nullopt;
      }
      begin = cuts[s];
    }
    return cuts;
  }
  if (search == Search::any) return place_any(stages);
  Weighing weighing;
  weighing.micro_batches = std::max(1.0, k_typical_prompt / n_ubatch_);
  weighing.steps = k_typical_answer;
  weighing.several = request_.n_sequences > 1;
  return place(stages, weighing);
}

bool Planner::may_fit(uint32_t n_blocks) const {
  const Costs estimate = costs(n_blocks);
  const auto cuts = cuts_for(estimate, Search::any);
  if (!cuts) return false;
  // Devices of one memory share it.
  std::vector<uint64_t> bytes = estimate.fixed;
  uint32_t begin = 0;
  for (size_t s = 0; s < stages_.size(); ++s) {
    for (size_t m = 0; m < stages_[s].devices.size(); ++m) {
      bytes[stages_[s].devices[m]] = bytes_of(estimate.stages[s].memory[m], begin, (*cuts)[s],
                                              static_cast<uint32_t>(2 * spec_.blocks.size()));
    }
    begin = (*cuts)[s];
  }
  uint64_t sum = 0;
  for (const uint32_t d : host_devices_) sum += bytes[d];
  return sum <= host_limit_;
}

uint32_t Planner::most_blocks(uint64_t wanted) const {
  uint64_t low = 0, high = std::min<uint64_t>(wanted, (uint64_t{1} << 31) / k_block_tokens);
  if (may_fit(static_cast<uint32_t>(high))) return static_cast<uint32_t>(high);
  while (low + 1 < high) {
    const uint64_t middle = low + (high - low) / 2;
    (may_fit(static_cast<uint32_t>(middle)) ? low : high) = middle;
  }
  return static_cast<uint32_t>(low);
}

uint64_t Planner::host_bytes(const Plan& plan) const {
  uint64_t sum = 0;
  for (const uint32_t d : host_devices_) sum += plan.devices[d].bytes.total();
  return sum;
}

// What is the best that can be shown when nothing fits.
std::vector<uint32_t> Planner::cuts_to_show() const {
  const auto n_halves = static_cast<uint32_t>(2 * spec_.blocks.size());
  if (!request_.shares.empty() && request_.split != Split::none) return cuts_by_shares();
  if (stages_.size() == 1) return {n_halves};
  // As even as the budgets are.
  std::vector<uint32_t> cuts;
  double total = 0, before = 0;
  std::vector<double> room;
  for (const Group& group : stages_) {
    double budget = 0;
    for (const uint32_t d : group.devices) {
      budget += static_cast<double>(devices_[d].info.budget_bytes);
    }
    room.push_back(budget);
    total += budget;
  }
  for (const double budget : room) {
    before += budget;
    cuts.push_back(static_cast<uint32_t>(std::llround(before / std::max(total, 1.0) * n_halves)));
  }
  cuts.back() = n_halves;
  return cuts;
}

std::optional<Plan> Planner::build(uint32_t n_blocks, Missing* missing) {
  std::fill(slack_.begin(), slack_.end(), 0);
  const bool free_cuts = request_.shares.empty() && stages_.size() > 1;
  for (int attempt = 0; attempt < k_attempts; ++attempt) {
    auto cuts = cuts_for(costs(n_blocks), Search::best);
    const bool fits = cuts.has_value();
    // The estimate is a little high: what is given or cannot be cut otherwise is looked at.
    if (!fits) cuts = cuts_to_show();
    Plan plan = assemble(*cuts, n_blocks);
    bool over = false;
    for (size_t d = 0; d < devices_.size(); ++d) {
      const uint64_t total = plan.devices[d].bytes.total();
      if (total <= plan.devices[d].budget) continue;
      over = true;
      slack_[d] += total - plan.devices[d].budget;
    }
    const bool over_in_all = host_bytes(plan) > host_limit_;
    if (!over && !over_in_all) {
      bound_copies(plan);
      predict(plan);
      add_notes(plan);
      return plan;
    }
    if (fits && over && free_cuts && attempt + 1 < k_attempts) continue;
    if (over_in_all && free_cuts) {
      if (auto one = on_one(n_blocks)) {
        predict(*one);
        add_notes(*one);
        return one;
      }
    }
    if (missing != nullptr) {
      missing->devices.clear();
      missing->memory.reset();
      for (const DevicePlan& device : plan.devices) {
        missing->devices.push_back({device.name, device.bytes.total(), device.budget});
      }
      if (over_in_all) {
        std::vector<std::string> names;
        for (const uint32_t d : host_devices_) names.push_back(devices_[d].info.name);
        missing->memory = Refusal::Shortfall{join_names(names), host_bytes(plan), host_limit_};
      }
    }
    return std::nullopt;
  }
  return std::nullopt;
}

// All on one device of this machine's memory: several keep more activations.
std::optional<Plan> Planner::on_one(uint32_t n_blocks) const {
  const auto n_halves = static_cast<uint32_t>(2 * spec_.blocks.size());
  for (size_t s = 0; s < stages_.size(); ++s) {
    const Group& group = stages_[s];
    if (group.devices.size() > 1 || !devices_[group.devices[0]].here ||
        devices_[group.devices[0]].info.kind != "cpu") {
      continue;
    }
    std::vector<uint32_t> cuts(stages_.size(), n_halves);
    std::fill_n(cuts.begin(), s, 0);
    Plan plan = assemble(cuts, n_blocks);
    const bool fits = std::all_of(plan.devices.begin(), plan.devices.end(),
                                  [](const auto& d) { return d.bytes.total() <= d.budget; });
    if (fits && host_bytes(plan) <= host_limit_) return plan;
  }
  return std::nullopt;
}

Plan Planner::assemble(const std::vector<uint32_t>& cuts, uint32_t n_blocks) const {
  Plan plan;
  plan.split = request_.split;
  plan.kv_block_tokens = k_block_tokens;
  plan.n_kv_blocks = n_blocks;
  plan.n_context = uint64_t{n_blocks} * k_block_tokens;
  plan.n_batch = request_.n_batch;
  plan.n_ubatch = n_ubatch_;
  plan.max_tokens = max_tokens_;
  plan.max_outputs = max_outputs_;
  plan.shares.assign(devices_.size(), 0);
  if (request_.host_expert_layers) {
    const auto layers = static_cast<uint32_t>(
        std::count_if(spec_.blocks.begin(), spec_.blocks.end(),
                      [](const auto& block) { return block.experts.has_value(); }));
    plan.host_expert_layers = std::min(*request_.host_expert_layers, layers);
  }
  for (const device::Description& d : devices_) {
    DevicePlan device;
    device.name = d.info.name;
    device.budget = d.info.budget_bytes;
    plan.devices.push_back(std::move(device));
  }

  // Who runs what: runs of halves with the same devices.
  std::vector<Group> groups = stages_;
  const auto single = [&](uint32_t device) {
    for (size_t g = 0; g < groups.size(); ++g) {
      if (groups[g].devices == std::vector<uint32_t>{device}) return g;
    }
    groups.push_back({{device}, {1.0}, {}});
    return groups.size() - 1;
  };
  const auto n_halves = static_cast<uint32_t>(2 * spec_.blocks.size());
  std::vector<size_t> home(n_halves);
  size_t stage = 0;
  size_t last_stage = 0;
  for (uint32_t h = 0; h < n_halves; ++h) {
    while (h >= cuts[stage]) ++stage;
    last_stage = stage;
    home[h] = overrides_.halves[h] ? single(*overrides_.halves[h]) : stage;
  }
  struct Run {
    size_t group;
    uint32_t first, end;
    bool embeds;
  };
  std::vector<Run> runs;
  const size_t embed_home = overrides_.embedding ? single(*overrides_.embedding) : home[0];
  if (embed_home != home[0]) runs.push_back({embed_home, 0, 0, true});
  for (uint32_t h = 0; h < n_halves; ++h) {
    if (!runs.empty() && runs.back().group == home[h] && runs.back().end == h &&
        runs.back().first < h) {
      ++runs.back().end;
    } else {
      runs.push_back({home[h], h, h + 1, h == 0 && embed_home == home[0]});
    }
  }
  const size_t head_home = overrides_.head ? single(*overrides_.head) : last_stage;

  std::set<size_t> working;
  for (const Run& run : runs) {
    if (run.first < run.end) working.insert(run.group);
  }
  plan.pipeline.stages = static_cast<uint32_t>(working.size());
  plan.pipeline.copies = copies_for(plan.pipeline.stages);
  const bool cards = std::any_of(devices_.begin(), devices_.end(),
                                 [](const auto& d) { return d.info.kind != "cpu"; });
  plan.pipeline.least_tokens = cards ? k_least_on_cards : k_least_on_cores;
  plan.pipeline.asked = request_.copies.has_value();
  if (working.size() == 1) plan.pipeline.off_because = "one stage";
  plan.pipeline.scarce =
      !request_.copies && most_copies_ <= plan.pipeline.stages && plan.pipeline.stages > 1;
  if (working.size() > 1 && plan.pipeline.copies == 1) {
    plan.pipeline.off_because = plan.pipeline.scarce ? "copies=1: more do not fit" : "copies=1";
  }

  std::vector<bool> slot(devices_.size(), false);
  for (size_t r = 0; r < runs.size(); ++r) {
    const Run& run = runs[r];
    const Group& group = groups[run.group];
    const std::vector<uint32_t>& next =
        groups[r + 1 < runs.size() ? runs[r + 1].group : head_home].devices;
    Segment segment;
    segment.first_half = run.first;
    segment.end_half = run.end;
    segment.embeds = run.embeds;
    // A device that goes on writes for itself; the others write for who is new.
    std::vector<uint32_t> fresh;
    for (const uint32_t d : next) {
      slot[d] = true;
      if (std::find(group.devices.begin(), group.devices.end(), d) == group.devices.end()) {
        fresh.push_back(d);
      }
    }
    size_t given = 0;
    for (size_t m = 0; m < group.devices.size(); ++m) {
      const uint32_t d = group.devices[m];
      Member member;
      member.device = d;
      member.kv_device = d;
      if (request_.kv_on_host) {
        if (const auto host = host_of(devices_)) member.kv_device = *host;
      }
      const bool stays = std::find(next.begin(), next.end(), d) != next.end();
      member.output_device = stays || given == fresh.size() ? d : fresh[given++];
      slot[member.output_device] = true;
      if (!run.embeds) slot[d] = true;
      model::LowerOptions options = lowering();
      options.first_half = run.first;
      options.end_half = run.end;
      options.embeds = run.embeds;
      options.in_place = !run.embeds && member.output_device == d;
      options.shard = shard_of(group, m);
      member.lowered = lower_stage(spec_, options);
      segment.members.push_back(std::move(member));
    }
    for (; given < fresh.size(); ++given) {
      // From whoever has it: the first of those that were written to, or that stay.
      segment.copies.push_back({segment.members[0].output_device, fresh[given]});
    }
    plan.segments.push_back(std::move(segment));
  }
  const Group& head_group = groups[head_home];
  for (size_t m = 0; m < head_group.devices.size(); ++m) {
    const model::Shard* shard = shard_of(head_group, m);
    const model::Interval all{0, spec_.n_vocab};
    if (shard != nullptr && shard->vocabulary.empty()) continue;
    plan.head.push_back({head_group.devices[m], model::lower_head(spec_, shard),
                         shard == nullptr ? all : shard->vocabulary});
    plan.devices[head_group.devices[m]].head = true;
  }
  // The part with the most logits has the most room for hidden states.
  const auto widest = std::max_element(plan.head.begin(), plan.head.end(),
                                       [](const HeadPart& a, const HeadPart& b) {
                                         return a.vocabulary.size() < b.vocabulary.size();
                                       });
  plan.hidden.device = widest->device;
  plan.hidden.lowered = model::lower_hidden(spec_);
  for (size_t d = 0; d < devices_.size(); ++d) plan.devices[d].slots = slot[d] ? 1 : 0;
  // Shares are of what -ngl does not leave to the host.
  uint32_t begin = overrides_.first_half;
  for (size_t s = 0; s < stages_.size(); ++s) {
    const uint32_t end = std::max(begin, cuts[s]);
    for (size_t m = 0; m < stages_[s].devices.size(); ++m) {
      const uint32_t d = stages_[s].devices[m];
      plan.devices[d].share = end > begin ? stages_[s].shares[m] : 0;
      plan.shares[d] = stages_[s].shares[m] * (end - begin);
    }
    begin = end;
  }
  add_bytes(plan);
  return plan;
}

void Planner::add_bytes(Plan& plan) const {
  const auto add_program = [&](uint32_t d, const model::Lowered& lowered, uint32_t max_outputs) {
    DevicePlan& device = plan.devices[d];
    for (const model::WeightPart& part : lowered.weights) add_unique(device.weights, part);
    DeviceBytes& bytes = device.bytes;
    bytes.activations = std::max(
        bytes.activations, devices_[d].activation_bytes(lowered.program, max_tokens_, max_outputs));
    bytes.scratch = std::max(bytes.scratch,
                             devices_[d].scratch_bytes(lowered.program, max_tokens_, max_outputs));
  };
  for (const Segment& segment : plan.segments) {
    for (const Member& member : segment.members) {
      add_program(member.device, member.lowered, max_outputs_);
      DevicePlan& device = plan.devices[member.device];
      device.embeds = device.embeds || segment.embeds;
      for (uint32_t h = segment.first_half; h < segment.end_half; ++h) {
        (h % 2 == 0 ? device.attention_blocks : device.ffn_blocks).push_back(h / 2);
      }
      for (const device::KvLayer& layer : member.lowered.program.kv_layers) {
        plan.devices[member.kv_device].bytes.kv += layer.block_bytes() * plan.n_kv_blocks;
      }
    }
  }
  for (const HeadPart& part : plan.head) {
    add_program(part.device, part.lowered, max_outputs_);
    plan.devices[part.device].bytes.logits = uint64_t{max_outputs_} * part.vocabulary.size() * 4;
  }
  const uint64_t row = uint64_t{spec_.n_embd} * 4;
  uint64_t& room = plan.devices[plan.hidden.device].bytes.logits;
  // Vocabularies are wider than the residual stream, but a part of one may not be.
  room = std::max(room, device::k_row_granule * row);
  const uint64_t rows = std::min<uint64_t>(room / row, max_tokens_);
  plan.hidden.max_outputs =
      static_cast<uint32_t>(rows / device::k_row_granule * device::k_row_granule);
  add_program(plan.hidden.device, plan.hidden.lowered, plan.hidden.max_outputs);
  for (size_t d = 0; d < devices_.size(); ++d) {
    DevicePlan& device = plan.devices[d];
    std::sort(device.weights.begin(), device.weights.end(),
              [](const model::WeightPart& a, const model::WeightPart& b) { return a.id < b.id; });
    for (const model::WeightPart& part : device.weights) {
      device.bytes.weights += devices_[d].weight_bytes(model::spec_of(spec_, part));
    }
  }
  add_boundaries(plan);
}

void Planner::add_boundaries(Plan& plan) const {
  plan.pipeline.bytes = 0;
  for (DevicePlan& device : plan.devices) {
    device.bytes.boundary = uint64_t{device.slots} * plan.pipeline.copies * boundary_bytes();
    plan.pipeline.bytes += uint64_t{device.slots} * (plan.pipeline.copies - 1) * boundary_bytes();
  }
}

// Of many stages, stages + 1 copies are much memory: no more than a prompt gains from.
void Planner::bound_copies(Plan& plan) const {
  uint32_t& copies = plan.pipeline.copies;
  if (request_.copies || copies <= k_cheap_copies) return;
  const uint32_t all = copies;
  if (timed_) {
    const std::vector<std::vector<double>> seconds = prompt_seconds(plan, nullptr);
    const double best = prompt_time(plan, seconds, copies);
    copies = k_cheap_copies;
    while (copies < all && prompt_time(plan, seconds, copies) > k_copies_gain * best) ++copies;
  }
  for (const DevicePlan& device : plan.devices) {
    if (device.slots == 0) continue;
    const uint64_t most = device.budget / k_copies_part / boundary_bytes();
    copies = std::min(
        copies, std::max(k_cheap_copies, static_cast<uint32_t>(std::min<uint64_t>(most, all))));
  }
  plan.pipeline.fewer = copies < all;
  add_boundaries(plan);
}

// The slowest member's; `by_device` gets what each one takes.
double Planner::segment_seconds(const Segment& segment, const StepWork& work,
                                std::vector<double>* by_device) const {
  double slowest = 0;
  for (const Member& member : segment.members) {
    const device::Profile& profile = devices_[member.device].profile;
    double time = program_seconds(member.lowered.program, profile, work);
    if (member.output_device != member.device) {
      time += copy_seconds(profile, work.tokens, spec_.n_embd);
    }
    slowest = std::max(slowest, time);
    if (by_device != nullptr) (*by_device)[member.device] += time;
  }
  return slowest;
}

// Of a typical prompt: by micro-batch, by segment.
std::vector<std::vector<double>> Planner::prompt_seconds(const Plan& plan,
                                                         std::vector<double>* by_device) const {
  const uint32_t stages = plan.pipeline.copies > 1 ? plan.pipeline.stages : 1;
  std::vector<std::vector<double>> out;
  double past = 0;
  for (const uint32_t n : micro_batches(static_cast<uint64_t>(k_typical_prompt), n_ubatch_, stages,
                                        plan.pipeline.least_tokens)) {
    const auto tokens = static_cast<double>(n);
    const StepWork work{tokens, 0, tokens * past + tokens * (tokens + 1) / 2, past + tokens};
    out.emplace_back();
    for (const Segment& segment : plan.segments) {
      out.back().push_back(segment_seconds(segment, work, by_device));
    }
    past += tokens;
  }
  return out;
}

// Every micro-batch goes through the segments in order, a device does one at a time.
double Planner::prompt_time(const Plan& plan, const std::vector<std::vector<double>>& seconds,
                            uint32_t copies) const {
  std::vector<double> free_at(devices_.size(), 0);
  std::vector<double> ends;
  for (const std::vector<double>& times : seconds) {
    double at = ends.size() >= copies ? ends[ends.size() - copies] : 0;
    for (size_t s = 0; s < times.size(); ++s) {
      const std::vector<Member>& members = plan.segments[s].members;
      for (const Member& member : members) at = std::max(at, free_at[member.device]);
      at += times[s];
      for (const Member& member : members) free_at[member.device] = at;
    }
    ends.push_back(at);
  }
  return ends.back();
}

void Planner::predict(Plan& plan) const {
  if (!timed_) return;
  double head = 0;
  std::vector<double> prefill(devices_.size(), 0), decode(devices_.size(), 0);
  for (const HeadPart& part : plan.head) {
    const double time =
        program_seconds(part.lowered.program, devices_[part.device].profile, {0, 1, 0, 0});
    head = std::max(head, time);
    decode[part.device] += time;
  }
  const double prompt =
      prompt_time(plan, prompt_seconds(plan, &prefill), plan.pipeline.copies) + head;
  double step = head;
  for (const Segment& segment : plan.segments) {
    step += segment_seconds(segment, {1, 0, 32, 32}, &decode);
  }
  plan.predicted.prefill_tokens_per_second = prompt > 0 ? k_typical_prompt / prompt : 0;
  plan.predicted.decode_tokens_per_second = step > 0 ? 1 / step : 0;
  for (size_t d = 0; d < devices_.size(); ++d) {
    // Of a micro-batch of full size.
    plan.devices[d].prefill_seconds = prefill[d] * n_ubatch_ / k_typical_prompt;
    plan.devices[d].decode_seconds = decode[d];
  }
}

std::string Planner::why_no_work(uint32_t device, const Plan& plan) const {
  if (request_.split == Split::none) {
    return fmt::format("-sm none gives {} all",
                       devices_[request_.main_device.value_or(0)].info.name);
  }
  size_t s = 0;
  const auto has = [&](const Group& group) {
    return std::find(group.devices.begin(), group.devices.end(), device) != group.devices.end();
  };
  while (s < stages_.size() && !has(stages_[s])) ++s;
  if (!request_.shares.empty() && !(request_.shares[device] > 0)) return "-ts gives it no share";
  // Of the others, only a host for which -ngl says what it has is in no stage.
  if (s == stages_.size())
    return fmt::format("-ngl {} leaves it no layer", *request_.device_layers);
  if (overrides_.first_half == overrides_.halves.size()) return "-ngl 0 leaves no layer to cards";
  if (plan.devices[device].share > 0 ||
      std::all_of(overrides_.halves.begin(), overrides_.halves.end(),
                  [](const auto& to) { return to.has_value(); })) {
    return "rules put the layers that it would have elsewhere";
  }
  if (!request_.shares.empty()) return "its share of -ts is too small for half a layer";
  const Costs costs = this->costs(plan.n_kv_blocks);
  for (const StageMemory& memory : costs.stages[s].memory) {
    uint64_t least = UINT64_MAX;
    for (size_t h = 0; h < memory.half_bytes.size(); ++h) {
      if (!overrides_.halves[h]) least = std::min(least, memory.half_bytes[h]);
    }
    if (memory.fixed + memory.used_bytes + least > memory.budget) {
      return "it has too little memory for half a layer";
    }
  }
  return timed_ ? "the others are faster without it" : "the others have room for all";
}

void Planner::add_notes(Plan& plan) const {
  plan.notes = overrides_.notes;
  plan.warnings = overrides_.warnings;
  for (uint32_t d = 0; d < devices_.size(); ++d) {
    if (plan.devices[d].bytes.total() > 0) continue;
    plan.notes.push_back(
        fmt::format("{} has no work: {}", plan.devices[d].name, why_no_work(d, plan)));
  }
  if (!timed_ && devices_.size() > 1 && request_.shares.empty() && request_.split != Split::none) {
    plan.notes.push_back("the devices' speed is not known: they count as equal");
  }
}

}  // namespace strata::plan
