#include "plan/micro_batches.h"

#include <algorithm>

#include "base/checked.h"

namespace strata::plan {
namespace {

constexpr uint64_t k_granule = 16;
// Micro-batches for each stage that a prompt should have: what is lost at the ends is one of them.
constexpr uint64_t k_per_stage = 16;

}  // namespace

std::vector<uint32_t> micro_batches(uint64_t n, uint32_t n_ubatch, uint32_t stages,
                                    uint32_t least) {
  uint64_t size = n_ubatch;
  if (stages > 1) {
    const uint64_t parts = k_per_stage * stages;
    const uint64_t even = align_up((n + parts - 1) / parts, k_granule);
    size = std::min<uint64_t>(std::max<uint64_t>(even, least), n_ubatch);
  }
  std::vector<uint32_t> out;
  while (n > 0) {
    out.push_back(static_cast<uint32_t>(std::min(n, size)));
    n -= out.back();
  }
  return out;
}

}  // namespace strata::plan
