// Steps: a program's ops as the CPU device carries them out, with a barrier after each.
//
// Purpose: what belongs together runs together, and what only passes from one op to the next is
// never stored in F32. Linear ops of one input become one step that quantises the input once; a
// norm or a gate before them is computed on the way, an addition after a single one is done where
// the sums are stored. A gated feed-forward keeps its hidden activations as quantised blocks only.
// Every fusion gives the same bits as its ops one after another.
// Memory: tiles of quantised activations are values of the device's own, planned by liveness
// together with the program's.
// Threads: steps are constant once made.
#pragma once

#include <optional>
#include <variant>
#include <vector>

#include "device/host_context.h"

namespace strata::device::cpu {

// What a step multiplies: a value, quantised into tiles (ops/packed.h).
struct TiledInput {
  ValueId in = k_none;
  std::optional<RmsNorm> norm;  // makes `in`
  std::optional<Gate> gate;     // makes `in`
  bool keep = false;            // others read `in` too: it is stored when a norm or a gate makes it
  bool ready = false;           // the step before left the tiles; `in` itself does not exist
  ValueId tiles = k_none;
};

// Packed linear ops of one input.
struct LinearStep {
  struct Output {
    WeightId weight = k_none;
    WeightId bias = k_none;
    ValueId out = k_none;
    ValueId residual = k_none;  // added last, when given
  };
  TiledInput input;
  std::vector<Output> outputs;
};

// The hidden activations of a gated feed-forward: activation(gate . in) * (up . in), both packed,
// as tiles for the step that follows.
struct GatedStep {
  struct Matrix {
    WeightId weight = k_none;
    WeightId bias = k_none;
  };
  TiledInput input;
  Matrix gate;
  Matrix up;
  Activation activation = Activation::silu;
  ValueId hidden = k_none;  // tiles
};

// Experts whose weights are (in part) packed. Blocks lie row by row: [row][n / 32].
struct ExpertsStep {
  Experts op;
  ValueId in_blocks = k_none;      // a row for each token, when gate or up is packed
  ValueId hidden_blocks = k_none;  // n_used rows for each token, when down is packed
};

// StoreKv or Attention over a layer that the cache holds as integers, where the instruction set has
// them (ops/kv_integers.h).
struct KvStep {
  Op op;
};

using Step = std::variant<Op, LinearStep, GatedStep, ExpertsStep, KvStep>;

// A program ready to be carried out.
struct Compiled {
  Program program;  // with the values of the device's own behind its own
  std::vector<Step> steps;
  ArenaPlan arena;
  uint64_t scratch_per_rank = 0;  // bytes of each thread's working memory, a multiple of 64
};

// `max_rows`: most tokens or outputs of a run. `fuse`: else a step for every op. Checks the program
// as device::check does.
Compiled compile(const Program& program, uint64_t max_rows, bool fuse = true);

StepOperands operands_of(const Step& step);

void run(const Step& step, const HostContext& context);

// All steps with a barrier after each, as one rank of a team. `claims`: two, zero, of the team.
void run_steps(const std::vector<Step>& steps, HostContext context, Claims* claims);

}  // namespace strata::device::cpu
