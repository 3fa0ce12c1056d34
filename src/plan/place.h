// Placing halves of blocks on stages: where to cut a model.
//
// Purpose: from the time and the memory that every half takes on every stage to the cuts that make
// a typical request fastest among those that fit. Stages keep the order in which they are given.
// Cost of a cut: with one user, a prompt flows through all stages at once (the slowest sets the
// pace) and a token through one after another; with several users tokens flow too.
// Threads: pure functions, plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace strata::plan {

// Memory that a stage's halves take on one of its devices.
struct StageMemory {
  uint64_t budget = 0;
  uint64_t fixed = 0;                // whatever it holds
  std::vector<uint64_t> half_bytes;  // by half
  uint64_t embed_bytes = 0;          // when the stage is the first
  uint64_t head_bytes = 0;           // when it is the last
  uint64_t used_bytes = 0;           // when it has a half at all
};

struct StageCosts {
  std::vector<double> prefill;  // seconds of a micro-batch, by half
  std::vector<double> decode;   // seconds of a step, by half
  double head_prefill = 0, head_decode = 0;
  std::vector<StageMemory> memory;  // of each device of the stage
};

// How much of what a typical request is made of.
struct Weighing {
  double micro_batches = 8;
  double steps = 256;
  bool several = false;  // sequences decode at once, on different stages
};

// By stage, one past its last half; stages may be left empty. nullopt when nothing fits.
std::optional<std::vector<uint32_t>> place(const std::vector<StageCosts>& stages,
                                           const Weighing& weighing);

// Some cuts that fit, found much faster.
std::optional<std::vector<uint32_t>> place_any(const std::vector<StageCosts>& stages);

// What a stage's device would hold with halves [begin, end) of `n`.
uint64_t bytes_of(const StageMemory& memory, uint32_t begin, uint32_t end, uint32_t n);

}  // namespace strata::plan
