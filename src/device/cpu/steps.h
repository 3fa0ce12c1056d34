// Steps: a program's ops as the CPU device carries them out, with a barrier after each.
//
// Purpose: what belongs together runs together. Linear ops of one input become one step that
// quantises the input once; a norm or a gate before them is computed on the way, an addition after
// a single one is done where the sums are stored. Every fusion gives the same bits as its ops one
// after another.
// Threads: steps are constant once made.
#pragma once

#include <optional>
#include <variant>
#include <vector>

#include "device/host_context.h"

namespace strata::device::cpu {

// Packed linear ops of one input.
struct LinearStep {
  struct Output {
    WeightId weight = k_none;
    WeightId bias = k_none;
    ValueId out = k_none;
    ValueId residual = k_none;  // added last, when given
  };
  ValueId in = k_none;          // what is quantised
  std::optional<RmsNorm> norm;  // makes `in`
  std::optional<Gate> gate;     // makes `in`
  bool keep = false;            // others read `in` too: it is stored
  std::vector<Output> outputs;
};

using Step = std::variant<Op, LinearStep>;

std::vector<Step> steps_of(const Program& program);

void run(const Step& step, const HostContext& context);

// All steps with a barrier after each, as one rank of a team. `claims`: two, zero, of the team.
void run_steps(const std::vector<Step>& steps, HostContext context, Claims* claims);

// Working memory of a run with so many rows: `shared` once, `per_rank` for each thread; both
// multiples of 64.
struct Scratch {
  uint64_t shared = 0;
  uint64_t per_rank = 0;
};
Scratch scratch_of(const Program& program, uint64_t max_tokens, uint64_t max_outputs);

}  // namespace strata::device::cpu
