// Random blocks: the moments asked for, finite, the same for the same seed.
#include "tensor/random_blocks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace strata {
namespace {

constexpr size_t k_elems = size_t{1} << 18;

std::vector<uint8_t> bytes_of(ElementType type, uint64_t seed, double sigma, size_t elems) {
  std::vector<uint8_t> bytes(row_bytes(type, elems));
  random_values(type, seed, sigma, bytes.data(), elems);
  return bytes;
}

class RandomBlocks : public testing::TestWithParam<ElementType> {};

TEST_P(RandomBlocks, HaveMeanZeroAndTheDeviationAskedFor) {
  for (const double sigma : {1.0, 0.02, 3e-4}) {
    const auto bytes = bytes_of(GetParam(), 7, sigma, k_elems);
    EXPECT_TRUE(all_finite(GetParam(), bytes.data(), k_elems));
    std::vector<float> values(k_elems);
    dequantize(GetParam(), bytes.data(), values.data(), k_elems);
    double sum = 0, squares = 0, largest = 0;
    for (const float v : values) {
      sum += v;
      squares += double{v} * v;
      largest = std::max(largest, std::fabs(double{v}));
    }
    const double mean = sum / k_elems;
    const double deviation = std::sqrt(squares / k_elems - mean * mean);
    // The smallest F16 scales are rounded to a few steps: hence 5 %.
    EXPECT_NEAR(deviation / sigma, 1.0, 0.05) << sigma;
    EXPECT_LT(std::fabs(mean) / sigma, 0.02) << sigma;
    EXPECT_LT(largest, 6 * sigma) << sigma;
  }
}

TEST_P(RandomBlocks, FollowTheSeed) {
  const auto a = bytes_of(GetParam(), 1, 0.1, 4096);
  EXPECT_EQ(a, bytes_of(GetParam(), 1, 0.1, 4096));
  EXPECT_NE(a, bytes_of(GetParam(), 2, 0.1, 4096));
}

// Neighbouring values have nothing to do with each other: no matrix comes out with one direction
// that swallows all others.
TEST_P(RandomBlocks, AreUncorrelated) {
  const auto bytes = bytes_of(GetParam(), 3, 1.0, k_elems);
  std::vector<float> values(k_elems);
  dequantize(GetParam(), bytes.data(), values.data(), k_elems);
  for (const size_t lag : {1u, 16u, 32u, 128u, 256u, 2048u}) {
    double product = 0;
    for (size_t i = 0; i + lag < k_elems; ++i) product += double{values[i]} * values[i + lag];
    EXPECT_LT(std::fabs(product / k_elems), 0.05) << lag;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, RandomBlocks,
                         testing::ValuesIn(supported_types().begin(), supported_types().end()),
                         [](const auto& one) { return std::string(strata::info(one.param).name); });

}  // namespace
}  // namespace strata
