// A bit per token: which may come next.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <span>

namespace strata::text {

// Puts -infinity wherever bit id % 32 of word id / 32 is clear. The mask has a bit for every logit.
void apply_mask(std::span<const uint32_t> mask, std::span<float> logits);

}  // namespace strata::text
