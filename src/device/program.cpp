#include "device/program.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"

namespace strata::device {
namespace {

struct Life {
  size_t first = std::numeric_limits<size_t>::max();
  size_t last = 0;
  bool used() const { return first != std::numeric_limits<size_t>::max(); }
  bool overlaps(const Life& other) const { return first <= other.last && other.first <= last; }
};

void check_id(uint32_t id, size_t count, const char* what, const Program& program, size_t at) {
  if (id >= count) {
    fail(ErrorCode::internal, "program '{}', op {} ({}): {} {} of {} does not exist", program.name,
         at, name_of(program.ops[at]), what, id, count);
  }
}

std::vector<Life> lives_of(std::span<const Value> values, std::span<const StepOperands> steps) {
  std::vector<Life> lives(values.size());
  for (size_t at = 0; at < steps.size(); ++at) {
    for (const ValueId id : steps[at].reads) {
      if (!lives[id].used() && values[id].place == Place::arena) {
        fail(ErrorCode::internal, "step {} reads '{}' before anything wrote it", at,
             values[id].name);
      }
      lives[id].last = at;
    }
    for (const ValueId id : steps[at].writes) {
      lives[id].first = std::min(lives[id].first, at);
      lives[id].last = at;
    }
  }
  return lives;
}

// Bytes per row that live in each step.
std::vector<uint64_t> loads_of(std::span<const Value> values, const std::vector<Life>& lives,
                               const std::vector<ValueId>& ids, size_t n_steps) {
  std::vector<uint64_t> loads(n_steps, 0);
  for (const ValueId id : ids) {
    for (size_t at = lives[id].first; at <= lives[id].last; ++at) {
      loads[at] += uint64_t{values[id].width} * 4;
    }
  }
  return loads;
}

// Each value in the lowest gap that is free for all its life. Returns the bytes per row needed.
uint64_t first_fit(std::span<const Value> values, const std::vector<Life>& lives,
                   const std::vector<ValueId>& order, std::vector<uint64_t>& offsets) {
  struct Placed {
    uint64_t begin;
    uint64_t end;
    Life life;
  };
  std::vector<Placed> placed;
  std::vector<const Placed*> neighbours;
  placed.reserve(order.size());
  uint64_t total = 0;
  for (const ValueId id : order) {
    const uint64_t size = uint64_t{values[id].width} * 4;
    neighbours.clear();
    for (const Placed& other : placed) {
      if (other.life.overlaps(lives[id])) neighbours.push_back(&other);
    }
    std::sort(neighbours.begin(), neighbours.end(),
              [](const Placed* a, const Placed* b) { return a->begin < b->begin; });
    uint64_t at = 0;
    for (const Placed* other : neighbours) {
      if (at + size <= other->begin) break;
      at = std::max(at, other->end);
    }
    offsets[id] = at;
    placed.push_back({at, at + size, lives[id]});
    total = std::max(total, at + size);
  }
  return total;
}

// Offsets for the values of one kind of rows. No order of first-fit is the best for all programs:
// the best of a few counts. Returns the bytes per row needed.
uint64_t place(std::span<const Value> values, const std::vector<Life>& lives, size_t n_steps,
               Rows rows, std::vector<uint64_t>& offsets) {
  std::vector<ValueId> ids;
  for (ValueId id = 0; id < values.size(); ++id) {
    const Value& value = values[id];
    if (value.place == Place::arena && value.rows == rows && lives[id].used()) ids.push_back(id);
  }
  const std::vector<uint64_t> loads = loads_of(values, lives, ids, n_steps);
  const uint64_t least = loads.empty() ? 0 : *std::max_element(loads.begin(), loads.end());
  std::vector<uint64_t> fullest(values.size(), 0);  // load of the fullest step of a life
  for (const ValueId id : ids) {
    const auto begin = loads.begin() + static_cast<ptrdiff_t>(lives[id].first);
    fullest[id] = *std::max_element(
        begin, begin + static_cast<ptrdiff_t>(lives[id].last - lives[id].first + 1));
  }
  // The greatest keys come first; among equals the wide ones: small ones then fill the gaps.
  const auto by_width = [](ValueId) { return uint64_t{0}; };
  const auto by_life = [&](ValueId id) { return uint64_t{lives[id].last - lives[id].first}; };
  const auto by_beginning = [&](ValueId id) { return uint64_t{n_steps - lives[id].first}; };
  const auto by_load = [&](ValueId id) { return fullest[id]; };

  uint64_t best = std::numeric_limits<uint64_t>::max();
  std::vector<uint64_t> trial(values.size(), 0);
  const auto attempt = [&](const auto& key) {
    if (best == least) return;
    std::vector<ValueId> order = ids;
    std::stable_sort(order.begin(), order.end(), [&](ValueId a, ValueId b) {
      return std::pair{key(a), values[a].width} > std::pair{key(b), values[b].width};
    });
    const uint64_t total = first_fit(values, lives, order, trial);
    if (total >= best) return;
    best = total;
    for (const ValueId id : ids) offsets[id] = trial[id];
  };
  attempt(by_life);
  attempt(by_beginning);
  attempt(by_load);
  attempt(by_width);
  return best;
}

}  // namespace

void check(const Program& program) {
  std::vector<bool> written(program.values.size(), false);
  for (size_t at = 0; at < program.ops.size(); ++at) {
    const OpOperands operands = operands_of(program.ops[at]);
    for (const WeightId id : operands.weights) {
      check_id(id, program.weights.size(), "weight", program, at);
    }
    for (const ValueId id : operands.reads) {
      check_id(id, program.values.size(), "value", program, at);
      if (!written[id] && program.values[id].place == Place::arena) {
        fail(ErrorCode::internal, "program '{}', op {} ({}): reads '{}' before anything wrote it",
             program.name, at, name_of(program.ops[at]), program.values[id].name);
      }
    }
    for (const ValueId id : operands.writes) {
      check_id(id, program.values.size(), "value", program, at);
      written[id] = true;
    }
  }
}

ArenaPlan plan_arena(std::span<const Value> values, std::span<const StepOperands> steps) {
  const std::vector<Life> lives = lives_of(values, steps);
  std::vector<uint64_t> offsets(values.size(), 0);
  ArenaPlan plan;
  plan.slots.resize(values.size());
  plan.bytes_per_token = place(values, lives, steps.size(), Rows::tokens, offsets);
  plan.bytes_per_output = place(values, lives, steps.size(), Rows::outputs, offsets);
  for (ValueId id = 0; id < values.size(); ++id) {
    if (values[id].place == Place::external) continue;
    if (values[id].rows == Rows::tokens) {
      plan.slots[id].per_token = offsets[id];
    } else {
      // Output values lie behind all token values.
      plan.slots[id].per_token = plan.bytes_per_token;
      plan.slots[id].per_output = offsets[id];
    }
  }
  return plan;
}

ArenaPlan plan_arena(const Program& program) {
  check(program);
  std::vector<StepOperands> steps;
  steps.reserve(program.ops.size());
  for (const Op& op : program.ops) {
    OpOperands operands = operands_of(op);
    steps.push_back({std::move(operands.reads), std::move(operands.writes)});
  }
  return plan_arena(program.values, steps);
}

}  // namespace strata::device
