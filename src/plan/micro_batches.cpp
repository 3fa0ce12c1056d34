#include "plan/micro_batches.h"

#include <algorithm>

#include "base/checked.h"

namespace strata::plan {
namespace {

// Smaller ones cost a device more than a shorter wait saves.
constexpr uint64_t k_least = 64;
constexpr uint64_t k_granule = 16;
// Micro-batches for each stage that a prompt should have.
constexpr uint64_t k_per_stage = 4;

}  // namespace

std::vector<uint32_t> micro_batches(uint64_t n, uint32_t n_ubatch, uint32_t stages) {
  std::vector<uint32_t> out;
  const auto add = [&](uint64_t size) {
    out.push_back(static_cast<uint32_t>(size));
    n -= size;
  };
  if (stages <= 1 || n <= k_least) {
    while (n > 0) add(std::min<uint64_t>(n, n_ubatch));
    return out;
  }
  const uint64_t even =
      align_up((n + k_per_stage * stages - 1) / (k_per_stage * stages), k_granule);
  const uint64_t size = std::min<uint64_t>(std::max(even, k_least), n_ubatch);
  const uint64_t small = std::min(size, std::max(k_least, align_up(size / 2, k_granule)));
  // Small at the beginning, large in the middle, small at the end.
  if (small < size && n > 2 * small + size) {
    add(small);
    while (n > small + size) add(size);
    if (n > size) add(n - small);
  }
  while (n > 0) add(std::min(n, size));
  return out;
}

}  // namespace strata::plan
