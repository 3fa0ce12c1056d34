#include "device/cpu/steps.h"

#include <algorithm>
#include <type_traits>

#include "base/checked.h"
#include "base/error.h"
#include "device/cpu/cpu_ops.h"
#include "device/cpu/ops/support.h"
#include "device/cpu/pack.h"

namespace strata::device::cpu {
namespace {

class Fusion {
 public:
  explicit Fusion(const Program& program) : program_(program), reads_(program.values.size(), 0) {
    for (const Op& op : program.ops) {
      for (const ValueId id : operands_of(op).reads) ++reads_[id];
    }
  }

  std::vector<Step> run() {
    std::vector<Step> out;
    while (at_ < program_.ops.size()) {
      LinearStep step;
      if (begin_linear(step)) {
        out.emplace_back(std::move(step));
      } else {
        out.emplace_back(program_.ops[at_++]);
      }
    }
    return out;
  }

 private:
  template <class T>
  const T* op_at(size_t i) const {
    return i < program_.ops.size() ? std::get_if<T>(&program_.ops[i]) : nullptr;
  }
  const Linear* packed_linear_at(size_t i, ValueId in) const {
    const auto* linear = op_at<Linear>(i);
    if (linear == nullptr || !is_packed(program_.weights[linear->weight])) return nullptr;
    return in == k_none || linear->in == in ? linear : nullptr;
  }
  bool is_arena(ValueId id) const { return program_.values[id].place == Place::arena; }

  // Takes the ops of one step, when one begins here.
  bool begin_linear(LinearStep& step) {
    size_t at = at_;
    if (const auto* norm = op_at<RmsNorm>(at); norm != nullptr &&
                                               norm->group == program_.values[norm->in].width &&
                                               norm->in != norm->out) {
      step.norm = *norm;
      step.in = norm->out;
    } else if (const auto* gate = op_at<Gate>(at)) {
      step.gate = *gate;
      step.in = gate->out;
    }
    if (step.in != k_none) ++at;
    const Linear* linear = packed_linear_at(at, step.in);
    if (linear == nullptr) return false;
    step.in = linear->in;
    for (; linear != nullptr; linear = packed_linear_at(at, step.in)) {
      step.outputs.push_back({linear->weight, linear->bias, linear->out, k_none});
      ++at;
    }
    // A gate in place reads its own output: that is no other reader.
    const bool in_place =
        step.gate && (step.gate->out == step.gate->gate || step.gate->out == step.gate->up);
    const uint32_t readers = reads_[step.in] - (in_place ? 1 : 0);
    step.keep = !is_arena(step.in) || readers > step.outputs.size();
    if (step.outputs.size() == 1) take_addition(step, at);
    at_ = at;
    return true;
  }

  void take_addition(LinearStep& step, size_t& at) const {
    const auto* sum = op_at<Add>(at);
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
    ++at;
  }

  const Program& program_;
  std::vector<uint32_t> reads_;
  size_t at_ = 0;
};

}  // namespace

std::vector<Step> steps_of(const Program& program) { return Fusion(program).run(); }

void run(const Step& step, const HostContext& context) {
  if (const auto* linear = std::get_if<LinearStep>(&step)) {
    run_linear_step(*linear, context);
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

Scratch scratch_of(const Program& program, uint64_t max_tokens, uint64_t max_outputs) {
  Scratch out;
  const auto need = [&](uint64_t shared, uint64_t per_rank) {
    out.shared = std::max(out.shared, align_up(shared, 64));
    out.per_rank = std::max(out.per_rank, align_up(per_rank, 64));
  };
  for (const Op& op : program.ops) {
    if (const auto* linear = std::get_if<Linear>(&op)) {
      const uint64_t rows =
          program.values[linear->in].rows == Rows::tokens ? max_tokens : max_outputs;
      need(linear_shared_bytes(*linear, program, rows), linear_scratch_bytes(*linear, program));
    }
    if (const auto* experts = std::get_if<Experts>(&op)) {
      need(experts_shared_bytes(*experts, program, max_tokens),
           experts_scratch_bytes(*experts, program));
    }
    if (const auto* route = std::get_if<Route>(&op)) need(0, route_scratch_bytes(*route));
    if (const auto* attention = std::get_if<Attention>(&op)) {
      need(0, attention_scratch_bytes(*attention, program));
    }
  }
  return out;
}

}  // namespace strata::device::cpu
