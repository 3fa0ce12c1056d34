// Rope frequencies against the published formulas and figures.
#include <gtest/gtest.h>

#include <cmath>

#include "model/spec.h"

namespace strata::model {
namespace {

TEST(Rope, plain_frequencies_are_powers_of_the_base) {
  RopeSpec rope;
  rope.n_rot = 8;
  rope.base = 10000;
  const auto f = inverse_frequencies(rope);
  ASSERT_EQ(f.size(), 4u);
  EXPECT_DOUBLE_EQ(f[0], 1.0);
  EXPECT_NEAR(f[1], 0.1, 1e-15);
  EXPECT_NEAR(f[2], 0.01, 1e-16);
  EXPECT_NEAR(f[3], 0.001, 1e-17);
  EXPECT_DOUBLE_EQ(rope_magnitude(rope), 1.0);
}

TEST(Rope, linear_scaling_divides_the_position) {
  RopeSpec rope;
  rope.n_rot = 8;
  rope.scaling = RopeScaling::linear;
  rope.factor = 4;
  EXPECT_NEAR(inverse_frequencies(rope)[1], 0.025, 1e-15);
  EXPECT_DOUBLE_EQ(rope_magnitude(rope), 1.0);
}

// gpt-oss: 64 dimensions, base 150000, factor 32 over 4096, betas 32 and 1. The ramp runs from
// dimension 8.093 to 17.398, rounded to 8 and 18; cos and sin are multiplied by 1.34657.
TEST(Rope, yarn_as_gpt_oss_publishes_it) {
  RopeSpec rope;
  rope.n_rot = 64;
  rope.base = 150000;
  rope.scaling = RopeScaling::yarn;
  rope.factor = 32;
  rope.original_context = 4096;
  const auto f = inverse_frequencies(rope);
  const auto theta = [](int i) { return std::pow(150000.0, -2.0 * i / 64); };
  for (int i = 0; i <= 8; ++i) EXPECT_NEAR(f[i] / theta(i), 1.0, 1e-12) << i;
  for (int i = 18; i < 32; ++i) EXPECT_NEAR(f[i] / theta(i), 1.0 / 32, 1e-12) << i;
  // Half way up the ramp the two are averaged.
  EXPECT_NEAR(f[13] / theta(13), 0.5 + 0.5 / 32, 1e-12);
  EXPECT_NEAR(rope_magnitude(rope), 1.34657, 1e-5);
}

TEST(Rope, yarn_without_a_factor_is_plain) {
  RopeSpec plain, yarn;
  plain.n_rot = yarn.n_rot = 32;
  yarn.scaling = RopeScaling::yarn;
  yarn.original_context = 4096;
  EXPECT_EQ(inverse_frequencies(plain).size(), 16u);
  for (int i = 0; i < 16; ++i) {
    EXPECT_NEAR(inverse_frequencies(yarn)[i] / inverse_frequencies(plain)[i], 1.0, 1e-12);
  }
  EXPECT_DOUBLE_EQ(rope_magnitude(yarn), 1.0);
}

}  // namespace
}  // namespace strata::model
