// Micro-batches: how the tokens of a prompt are handed to the stages.
//
// Over several stages a prompt flows: while the first works on one micro-batch, the next does on
// the one before. All stages but one have nothing to do for the time of one micro-batch at the
// beginning and at the end, so many small ones are better than few large ones, as long as a device
// is not slower with them. The result does not depend on any of it (promise 3).
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <vector>

namespace strata::plan {

// Sizes of the micro-batches of `n` tokens, none above n_ubatch. `stages` that may work at the
// same time; 1: as few micro-batches as can be. `least`: what the devices are still fast with.
std::vector<uint32_t> micro_batches(uint64_t n, uint32_t n_ubatch, uint32_t stages, uint32_t least);

}  // namespace strata::plan
