// Micro-batches: every token once, none too large, enough of them for all stages.
#include "plan/micro_batches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace strata::plan {
namespace {

TEST(MicroBatches, EveryTokenOnceAndNoneTooLarge) {
  for (const uint32_t ubatch : {1u, 7u, 16u, 64u, 100u, 256u, 512u, 2048u}) {
    for (uint32_t stages = 1; stages <= 9; ++stages) {
      for (const uint32_t least : {1u, 32u, 128u}) {
        SCOPED_TRACE(testing::Message()
                     << "-ub " << ubatch << ", " << stages << " stages, " << least << " at least");
        for (uint64_t n = 0; n <= 5000; n += n < 150 ? 1 : 61) {
          const auto sizes = micro_batches(n, ubatch, stages, least);
          ASSERT_EQ(std::accumulate(sizes.begin(), sizes.end(), uint64_t{0}), n);
          ASSERT_EQ(std::count(sizes.begin(), sizes.end(), 0u), 0) << n;
          ASSERT_LE(sizes.empty() ? 0 : *std::max_element(sizes.begin(), sizes.end()), ubatch);
          // As few as can be for one stage.
          if (stages == 1) {
            ASSERT_EQ(sizes.size(), (n + ubatch - 1) / ubatch);
          }
          // All but the last are large enough for the devices.
          if (sizes.size() > 1) {
            ASSERT_GE(*std::min_element(sizes.begin(), sizes.end() - 1), std::min(least, ubatch));
          }
        }
      }
    }
  }
}

// What stages lose while they fill and drain is stages - 1 micro-batches of all there are.
TEST(MicroBatches, LittleIsLostAtTheEnds) {
  for (uint32_t stages = 2; stages <= 4; ++stages) {
    const auto sizes = micro_batches(2048, 512, stages, 16);
    const double largest = *std::max_element(sizes.begin(), sizes.end());
    EXPECT_LE((stages - 1) * largest / 2048, 0.1) << stages;
  }
  // Not at the price of micro-batches that devices are slow with.
  EXPECT_EQ(micro_batches(2048, 512, 2, 128).front(), 128u);
}

}  // namespace
}  // namespace strata::plan
