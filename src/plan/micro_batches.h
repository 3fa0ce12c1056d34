// Micro-batches: how the tokens of a prompt are handed to the stages.
//
// Over several stages a prompt flows: while the first works on one micro-batch, the next does on
// the one before. Small ones at both ends keep the time short in which some stages have nothing to
// do. The result does not depend on any of it (promise 3).
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <vector>

namespace strata::plan {

// Sizes of the micro-batches of `n` tokens, none above n_ubatch. `stages` that may work at the
// same time; 1: as few micro-batches as can be.
std::vector<uint32_t> micro_batches(uint64_t n, uint32_t n_ubatch, uint32_t stages);

}  // namespace strata::plan
