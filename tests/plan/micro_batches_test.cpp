// Micro-batches: every token once, none too large, small ones where stages wait.
#include "plan/micro_batches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace strata::plan {
namespace {

TEST(MicroBatches, EveryTokenOnceAndNoneTooLarge) {
  for (const uint32_t ubatch : {1u, 7u, 16u, 64u, 100u, 256u, 512u, 2048u}) {
    for (uint32_t stages = 1; stages <= 9; ++stages) {
      for (uint64_t n = 0; n <= 5000; n += n < 300 ? 1 : 61) {
        SCOPED_TRACE(testing::Message() << n << " tokens, -ub " << ubatch << ", " << stages);
        const auto sizes = micro_batches(n, ubatch, stages);
        ASSERT_EQ(std::accumulate(sizes.begin(), sizes.end(), uint64_t{0}), n);
        const uint64_t even = (n + 4 * stages - 1) / (4 * stages);
        for (const uint32_t size : sizes) {
          ASSERT_GT(size, 0u);
          ASSERT_LE(size, ubatch);
          // So that all stages have some, four each where there are enough tokens.
          if (stages > 1) {
            ASSERT_LE(size, std::max<uint64_t>(64, (even + 15) / 16 * 16));
          }
        }
        if (stages == 1) {
          ASSERT_EQ(sizes.size(), (n + ubatch - 1) / ubatch);
        }
      }
    }
  }
}

TEST(MicroBatches, SmallAtBothEnds) {
  const auto sizes = micro_batches(2048, 256, 2);
  ASSERT_GE(sizes.size(), 8u);
  EXPECT_LT(sizes.front(), sizes[1]);
  EXPECT_LE(sizes.back(), sizes.front());
  EXPECT_EQ(*std::max_element(sizes.begin(), sizes.end()), 256u);
}

}  // namespace
}  // namespace strata::plan
