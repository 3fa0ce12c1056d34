#include "base/checked.h"

#include <gtest/gtest.h>

namespace strata {
namespace {

TEST(Checked, AddAndMultiplySayNoInsteadOfWrapping) {
  EXPECT_EQ(checked_add(UINT64_MAX - 1, 1), UINT64_MAX);
  EXPECT_EQ(checked_add(UINT64_MAX, 1), std::nullopt);
  EXPECT_EQ(checked_mul(uint64_t{1} << 32, (uint64_t{1} << 32) - 1), 0xffffffff00000000u);
  EXPECT_EQ(checked_mul(uint64_t{1} << 32, uint64_t{1} << 32), std::nullopt);
  EXPECT_EQ(checked_mul(0, UINT64_MAX), 0u);
}

TEST(Checked, Align) {
  EXPECT_EQ(checked_align(0, 32), 0u);
  EXPECT_EQ(checked_align(1, 32), 32u);
  EXPECT_EQ(checked_align(32, 32), 32u);
  EXPECT_EQ(checked_align(33, 32), 64u);
  EXPECT_EQ(checked_align(7, 1), 7u);
  EXPECT_EQ(checked_align(UINT64_MAX - 31, 32), UINT64_MAX - 31);
  EXPECT_EQ(checked_align(UINT64_MAX - 30, 32), std::nullopt);
  EXPECT_EQ(align_up(10, 12), 12u);
  EXPECT_EQ(align_up(24, 12), 24u);
}

TEST(Checked, PowerOfTwo) {
  EXPECT_FALSE(is_power_of_two(0));
  EXPECT_TRUE(is_power_of_two(1));
  EXPECT_TRUE(is_power_of_two(uint64_t{1} << 63));
  EXPECT_FALSE(is_power_of_two(48));
}

}  // namespace
}  // namespace strata
