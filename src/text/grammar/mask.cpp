#include "text/grammar/mask.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace strata::text {

void apply_mask(std::span<const uint32_t> mask, std::span<float> logits) {
  if (mask.size() < (logits.size() + 31) / 32) {
    fail(ErrorCode::internal, "a mask of {} words for {} logits", mask.size(), logits.size());
  }
  for (size_t i = 0; i < logits.size(); i += 32) {
    const uint32_t word = mask[i / 32];
    if (word == 0xFFFFFFFF) continue;
    const size_t n = std::min<size_t>(32, logits.size() - i);
    for (size_t k = 0; k < n; ++k) {
      if ((word >> k & 1) == 0) logits[i + k] = -std::numeric_limits<float>::infinity();
    }
  }
}

}  // namespace strata::text
