#include "engine/step_pace.h"

#include <algorithm>

namespace strata {
namespace {

// So many steps with prompt tokens, then one without.
constexpr uint32_t k_measure_every = 32;
// Nothing is known yet: what does little harm anywhere.
constexpr uint32_t k_first_beside = 16;
constexpr uint32_t k_first_alone = 128;

void blend(double& mean, double value, double weight) {
  mean = mean > 0 ? mean + weight * (value - mean) : value;
}

}  // namespace

uint32_t StepPace::prompt_tokens(uint32_t generating, uint32_t room) {
  if (generating == 0) {
    uint32_t most = k_first_alone;
    if (alone_ > 0) {
      const double n = options_.longest_seconds / alone_;
      most = n < room ? std::max(static_cast<uint32_t>(n), options_.fewest_alone) : room;
    }
    return std::min(room, most);
  }
  const uint32_t top = std::min(room, options_.most);
  if (generate_seconds_ <= 0) return std::min(top, k_first_beside);
  if (since_ >= k_measure_every) {
    since_ = 0;
    return 0;
  }
  const double each = beside_ > 0 ? beside_ : alone_;
  if (each <= 0) return std::min(top, k_first_beside);
  const double n = (options_.stretch - 1) * generate_seconds_ / each;
  if (n >= top) return top;
  return std::min(top, std::max(static_cast<uint32_t>(n), options_.fewest));
}

void StepPace::took(double seconds, uint32_t generating, uint32_t prompt) {
  if (seconds <= 0) return;
  if (prompt == 0) {
    blend(generate_seconds_, seconds, 0.3);
    since_ = 0;
    return;
  }
  if (generating == 0) {
    blend(alone_, seconds / prompt, 0.5);
    return;
  }
  ++since_;
  const double more = std::max(seconds - generate_seconds_, 0.02 * seconds);
  blend(beside_, more / prompt, 0.2);
}

}  // namespace strata
