#include "device/cpu/steps.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "device/cpu/cpu_ops.h"
#include "device/cpu/ops/kv_integers.h"
#include "device/cpu/ops/packed.h"
#include "device/cpu/ops/support.h"
#include "device/cpu/pack.h"

namespace strata::device::cpu {
namespace {

class Fusion {
 public:
  Fusion(Program& program, bool fuse)
      : program_(program), fuse_(fuse), reads_(program.values.size(), 0) {
    for (const Op& op : program.ops) {
      for (const ValueId id : device::operands_of(op).reads) ++reads_[id];
    }
  }

  std::vector<Step> run() {
    while (at_ < program_.ops.size()) {
      if (take_gated() || take_linear() || take_experts() || take_kv()) continue;
      steps_.emplace_back(program_.ops[at_++]);
    }
    return std::move(steps_);
  }

 private:
  template <class T>
  const T* op_at(size_t i) const {
    return i < program_.ops.size() ? std::get_if<T>(&program_.ops[i]) : nullptr;
  }
  bool packed(WeightId id) const { return is_packed(program_.weights[id]); }
  const Linear* packed_linear_at(size_t i, ValueId in) const {
    const auto* linear = op_at<Linear>(i);
    if (linear == nullptr || !packed(linear->weight)) return nullptr;
    return in == k_none || linear->in == in ? linear : nullptr;
  }
  bool is_arena(ValueId id) const { return program_.values[id].place == Place::arena; }

  // A value of the device's own: blocks of `columns` activations per row of `like`.
  ValueId add_blocks(ValueId like, uint64_t columns) {
    const Value& from = program_.values[like];
    const uint64_t words = columns / k_x_columns * (sizeof(XBlock) / 4);
    program_.values.push_back(
        {from.name + " (blocks)", static_cast<uint32_t>(words), from.rows, Place::arena, 0});
    return static_cast<ValueId>(program_.values.size() - 1);
  }
  ValueId add_tiles(ValueId of) { return add_blocks(of, program_.values[of].width); }

  bool norm_at(size_t at, TiledInput& input) const {
    const auto* norm = op_at<RmsNorm>(at);
    if (norm == nullptr || norm->group != program_.values[norm->in].width || norm->in == norm->out)
      return false;
    input.norm = *norm;
    input.in = norm->out;
    return true;
  }

  // [norm], linear gate, linear up, gate, linear down [, addition]: two steps.
  bool take_gated() {
    if (!fuse_) return false;
    size_t at = at_;
    GatedStep step;
    if (norm_at(at, step.input)) ++at;
    const Linear* first = packed_linear_at(at, step.input.in);
    const Linear* second = first == nullptr ? nullptr : packed_linear_at(at + 1, first->in);
    const auto* gate = op_at<Gate>(at + 2);
    if (second == nullptr || gate == nullptr || first->out == second->out) return false;
    if (gate->gate != first->out) std::swap(first, second);
    if (gate->gate != first->out || gate->up != second->out) return false;
    const Linear* down = packed_linear_at(at + 3, gate->out);
    if (down == nullptr || program_.values[gate->out].width % k_x_columns != 0) return false;
    // Nobody else may want what is not stored. What is gated in place is read once more, by `down`.
    for (const ValueId id : {gate->gate, gate->up, gate->out}) {
      const bool by_gate = id == gate->gate || id == gate->up;
      const uint32_t readers = (by_gate ? 1 : 0) + (id == gate->out ? 1 : 0);
      if (!is_arena(id) || reads_[id] != readers) return false;
    }
    step.input.in = first->in;
    set_keep(step.input, 2);
    step.input.tiles = add_tiles(step.input.in);
    step.gate = {first->weight, first->bias};
    step.up = {second->weight, second->bias};
    step.activation = gate->activation;
    step.hidden = add_tiles(gate->out);

    LinearStep after;
    after.input.in = gate->out;
    after.input.ready = true;
    after.input.tiles = step.hidden;
    after.outputs.push_back({down->weight, down->bias, down->out, k_none});
    at_ = at + 4;
    take_addition(after);
    steps_.emplace_back(std::move(step));
    steps_.emplace_back(std::move(after));
    return true;
  }

  // [norm or gate], linear ops of one input [, addition].
  bool take_linear() {
    size_t at = at_;
    LinearStep step;
    TiledInput& input = step.input;
    if (fuse_) {
      if (norm_at(at, input)) {
        ++at;
      } else if (const auto* gate = op_at<Gate>(at)) {
        input.gate = *gate;
        input.in = gate->out;
        ++at;
      }
    }
    const Linear* linear = packed_linear_at(at, input.in);
    if (linear == nullptr) return false;
    input.in = linear->in;
    do {
      step.outputs.push_back({linear->weight, linear->bias, linear->out, k_none});
      linear = packed_linear_at(++at, input.in);
    } while (fuse_ && linear != nullptr);
    set_keep(input, static_cast<uint32_t>(step.outputs.size()));
    input.tiles = add_tiles(input.in);
    at_ = at;
    if (fuse_ && step.outputs.size() == 1) take_addition(step);
    steps_.emplace_back(std::move(step));
    return true;
  }

  bool take_experts() {
    const auto* op = op_at<Experts>(at_);
    if (op == nullptr) return false;
    ExpertsStep step;
    step.op = *op;
    if (packed(op->gate) || packed(op->up)) step.in_blocks = add_tiles(op->in);
    if (packed(op->down))
      step.hidden_blocks = add_blocks(op->hidden, uint64_t{op->n_used} * op->n_ff);
    ++at_;
    steps_.emplace_back(std::move(step));
    return true;
  }

  bool take_kv() {
    const Op& op = program_.ops[at_];
    const auto* store = std::get_if<StoreKv>(&op);
    const auto* attention = std::get_if<Attention>(&op);
    if (store == nullptr && attention == nullptr) return false;
    if (!may_hold_integers(program_, store != nullptr ? store->layer : attention->layer)) {
      return false;
    }
    steps_.emplace_back(KvStep{op});
    ++at_;
    return true;
  }

  void set_keep(TiledInput& input, uint32_t readers_here) const {
    // A gate in place reads its own output: that is no other reader.
    const bool in_place =
        input.gate && (input.gate->out == input.gate->gate || input.gate->out == input.gate->up);
    const uint32_t readers = reads_[input.in] - (in_place ? 1 : 0);
    input.keep = (input.norm || input.gate) && (!is_arena(input.in) || readers > readers_here);
  }

  void take_addition(LinearStep& step) {
    const auto* sum = op_at<Add>(at_);
    LinearStep::Output& only = step.outputs[0];
    if (sum == nullptr || reads_[only.out] != 1 || !is_arena(only.out)) return;
    if (sum->out == sum->a || sum->out == sum->b) return;
    if (sum->a == only.out && sum->b != only.out) {
      only.residual = sum->b;
    } else if (sum->b == only.out && sum->a != only.out) {
      only.residual = sum->a;
    } else {
      return;
    }
    only.out = sum->out;
    ++at_;
  }

  Program& program_;
  bool fuse_;
  std::vector<uint32_t> reads_;  // of the program's own values
  std::vector<Step> steps_;
  size_t at_ = 0;
};

struct OperandVisitor {
  StepOperands out;

  void read(ValueId id) {
    if (id != k_none) out.reads.push_back(id);
  }
  void write(ValueId id) {
    if (id != k_none) out.writes.push_back(id);
  }
  void add(const TiledInput& input) {
    if (input.ready) {
      read(input.tiles);
      return;
    }
    write(input.tiles);
    if (input.norm) {
      read(input.norm->in);
    } else if (input.gate) {
      read(input.gate->gate);
      read(input.gate->up);
    } else {
      read(input.in);
      return;
    }
    if (input.keep) write(input.in);
  }

  void operator()(const Op& op) {
    OpOperands operands = device::operands_of(op);
    out = {std::move(operands.reads), std::move(operands.writes)};
  }
  void operator()(const KvStep& step) { (*this)(step.op); }
  void operator()(const LinearStep& step) {
    add(step.input);
    for (const LinearStep::Output& output : step.outputs) {
      // What the step itself has stored before, it does not need from others.
      if (!step.input.keep || output.residual != step.input.in) read(output.residual);
      write(output.out);
    }
  }
  void operator()(const GatedStep& step) {
    add(step.input);
    write(step.hidden);
  }
  void operator()(const ExpertsStep& step) {
    for (const ValueId id : {step.op.in, step.op.ids, step.op.weights}) read(id);
    write(step.in_blocks);
    write(step.hidden_blocks);
    if (step.hidden_blocks == k_none) write(step.op.hidden);
    write(step.op.out);
  }
};

uint64_t scratch_of(const Step& step, const Program& program, uint64_t max_rows) {
  if (const auto* linear = std::get_if<LinearStep>(&step)) {
    return linear_step_scratch_bytes(*linear, program);
  }
  if (const auto* gated = std::get_if<GatedStep>(&step)) {
    return gated_step_scratch_bytes(*gated, program, max_rows);
  }
  if (const auto* experts = std::get_if<ExpertsStep>(&step)) {
    return experts_scratch_bytes(experts->op, program, max_rows);
  }
  const auto* kv = std::get_if<KvStep>(&step);
  const Op& op = kv != nullptr ? kv->op : std::get<Op>(step);
  if (std::holds_alternative<Linear>(op)) return linear_scratch_bytes();
  if (const auto* route = std::get_if<Route>(&op)) return route_scratch_bytes(*route);
  if (const auto* attention = std::get_if<Attention>(&op)) {
    return attention_scratch_bytes(*attention, program);
  }
  return 0;
}

}  // namespace

StepOperands operands_of(const Step& step) {
  OperandVisitor visitor;
  std::visit(visitor, step);
  return std::move(visitor.out);
}

Compiled compile(const Program& program, uint64_t max_rows, bool fuse) {
  check(program);
  Compiled out;
  out.program = program;
  out.steps = Fusion(out.program, fuse).run();
  std::vector<StepOperands> operands;
  operands.reserve(out.steps.size());
  for (const Step& step : out.steps) {
    operands.push_back(operands_of(step));
    const uint64_t scratch = scratch_of(step, out.program, max_rows);
    out.scratch_per_rank = std::max(out.scratch_per_rank, align_up(scratch, 64));
  }
  out.arena = plan_arena(out.program.values, operands);
  return out;
}

void run(const Step& step, const HostContext& context) {
  if (const auto* linear = std::get_if<LinearStep>(&step)) {
    run_linear_step(*linear, context);
  } else if (const auto* gated = std::get_if<GatedStep>(&step)) {
    run_gated_step(*gated, context);
  } else if (const auto* experts = std::get_if<ExpertsStep>(&step)) {
    run_experts_step(*experts, context);
  } else if (const auto* kv = std::get_if<KvStep>(&step)) {
    run_kv_step(*kv, context);
  } else {
    run(std::get<Op>(step), context);
  }
}

void run_steps(const std::vector<Step>& steps, HostContext context, Claims* claims) {
  for (size_t i = 0; i < steps.size(); ++i) {
    context.claims = claims + i % 2;
    // Nobody uses the next step's claims now: all have passed the last step's barrier, none this
    // one's.
    if (context.rank == 0) claims[(i + 1) % 2].next.store(0, std::memory_order_relaxed);
    run(steps[i], context);
    context.barrier();
  }
}

}  // namespace strata::device::cpu
