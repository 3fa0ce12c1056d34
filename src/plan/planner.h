// The inside of plan::make: one attempt at a plan with everything fixed but the cuts.
//
// Threads: a Planner belongs to one caller; it only reads what it was given.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "plan/place.h"
#include "plan/plan.h"
#include "plan/predict.h"
#include "plan/rules.h"

namespace strata::plan {

inline constexpr uint32_t k_block_tokens = k_kv_block_tokens;

// What the best cut lacks.
struct Missing {
  std::vector<Refusal::Shortfall> devices;   // all of them
  std::optional<Refusal::Shortfall> memory;  // that devices share and exceed together
};

class Planner {
 public:
  Planner(const model::ModelSpec& spec, const std::vector<device::Description>& devices,
          const Request& request);

  // The most blocks of cache that some cut may hold, up to `wanted`; 0: none.
  uint32_t most_blocks(uint64_t wanted) const;
  // Whether some cut holds so many, by an estimate that costs little and errs a little to either
  // side.
  bool may_fit(uint32_t n_blocks) const;
  // nullopt when no cut fits; `missing` then says what the best one lacks.
  std::optional<Plan> build(uint32_t n_blocks, Missing* missing);
  // Where nobody asked for a number of copies, no more than so many.
  void limit_copies(uint32_t most) { most_copies_ = most; }
  // Whether there may be several copies and nobody said how many.
  bool copies_are_free() const { return !request_.copies && stages_.size() > 1; }
  // Devices of this machine's memory hold so much together, and so much at most.
  uint64_t host_bytes(const Plan& plan) const;
  uint64_t host_limit() const { return host_limit_; }
  const std::vector<uint32_t>& host_devices() const { return host_devices_; }

  const Overrides& overrides() const { return overrides_; }

 private:
  // Devices that run the same halves, and what of them each one has.
  struct Group {
    std::vector<uint32_t> devices;
    std::vector<double> shares;        // of its devices, adding up to one
    std::vector<model::Shard> shards;  // empty for one device
  };
  struct Half {
    std::vector<double> prefill, decode;           // by member
    std::vector<uint64_t> weight_bytes, kv_bytes;  // by member; kv: of one block of the cache
    std::vector<uint64_t> work_bytes;              // activations and scratch
  };

  struct Costs {
    std::vector<StageCosts> stages;
    std::vector<uint64_t> fixed;  // by device: what rules put there, whatever the cut
  };
  enum class Search : uint8_t { any, best };

  void make_groups();
  void fix_shares(Group& group, const std::vector<double>& given);
  const model::Shard* shard_of(const Group& group, size_t member) const {
    return group.shards.empty() ? nullptr : &group.shards[member];
  }
  model::LowerOptions lowering() const;
  Half half_of(const Group& group, uint32_t half) const;
  std::vector<Half> halves_of(const Group& group) const;
  Costs costs(uint32_t n_blocks) const;
  std::optional<std::vector<uint32_t>> cuts_for(const Costs& costs, Search search) const;
  std::vector<uint32_t> cuts_to_show() const;
  std::optional<Plan> on_one(uint32_t n_blocks) const;
  std::vector<uint32_t> cuts_by_shares() const;
  Plan assemble(const std::vector<uint32_t>& cuts, uint32_t n_blocks) const;
  void add_bytes(Plan& plan) const;
  void predict(Plan& plan) const;
  void add_notes(Plan& plan) const;
  uint32_t copies_for(uint32_t stages) const;
  void bound_copies(Plan& plan) const;
  void add_boundaries(Plan& plan) const;
  double segment_seconds(const Segment& segment, const StepWork& work,
                         std::vector<double>* by_device) const;
  std::vector<std::vector<double>> prompt_seconds(const Plan& plan,
                                                  std::vector<double>* by_device) const;
  double prompt_time(const Plan& plan, const std::vector<std::vector<double>>& seconds,
                     uint32_t copies) const;
  std::string why_no_work(uint32_t device, const Plan& plan) const;
  uint64_t boundary_bytes() const { return uint64_t{max_tokens_} * spec_.n_embd * 4; }

  const model::ModelSpec& spec_;
  const std::vector<device::Description>& devices_;
  const Request& request_;
  Overrides overrides_;
  uint32_t most_copies_ = UINT32_MAX;
  bool timed_ = false;  // every device's speed is known
  uint32_t n_ubatch_ = 0, max_tokens_ = 0, max_outputs_ = 0;
  std::vector<Group> stages_;                     // in order
  std::vector<std::vector<Half>> halves_;         // by stage, by half
  std::map<uint32_t, std::vector<Half>> single_;  // by device of overrides, by half
  std::vector<uint64_t> slack_;                   // by device: what the estimate lacked
  std::vector<double> head_decode_;               // by stage
  std::vector<uint32_t> host_devices_;            // parts of this machine's memory
  uint64_t host_limit_ = 0;                       // of them together
};

}  // namespace strata::plan
