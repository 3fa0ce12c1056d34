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

// First-fit over lives for the values of one kind of rows. Returns the bytes per row needed.
uint64_t place(std::span<const Value> values, const std::vector<Life>& lives, Rows rows,
               std::vector<uint64_t>& offsets) {
  struct Placed {
    uint64_t begin;
    uint64_t end;
    Life life;
  };
  std::vector<ValueId> order;
  for (ValueId id = 0; id < values.size(); ++id) {
    const Value& value = values[id];
    if (value.place == Place::arena && value.rows == rows && lives[id].used()) order.push_back(id);
  }
  // Wide values first: the small ones then fill the gaps.
  std::stable_sort(order.begin(), order.end(),
                   [&](ValueId a, ValueId b) { return values[a].width > values[b].width; });
  std::vector<Placed> placed;
  uint64_t total = 0;
  for (const ValueId id : order) {
    const uint64_t size = uint64_t{values[id].width} * 4;
    std::vector<const Placed*> neighbours;
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
  plan.bytes_per_token = place(values, lives, Rows::tokens, offsets);
  plan.bytes_per_output = place(values, lives, Rows::outputs, offsets);
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
