// 16-bit reals against formulas written with ldexp and against the processor's own conversions.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "tensor/types.h"

namespace strata {
namespace {

uint32_t bits_of(float value) { return std::bit_cast<uint32_t>(value); }

// The value of a 16-bit real with `fraction_bits`, out of its definition.
double value_by_definition(uint16_t bits, int fraction_bits, int bias) {
  const int exponent_bits = 15 - fraction_bits;
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const int exponent = (bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == (1 << exponent_bits) - 1) {
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * HUGE_VAL;
  }
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
}
double f16_value(uint16_t bits) { return value_by_definition(bits, 10, 15); }
double bf16_value(uint16_t bits) { return value_by_definition(bits, 7, 127); }

TEST(Half, EveryF16HasItsValue) {
  for (uint32_t i = 0; i < 65536; ++i) {
    const auto half = static_cast<uint16_t>(i);
    const double expected = f16_value(half);
    const float got = f16_to_f32(half);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(got)) << i;
      ASSERT_EQ(std::signbit(got), (i & 0x8000) != 0) << i;
    } else {
      ASSERT_EQ(bits_of(got), bits_of(static_cast<float>(expected))) << i;
    }
  }
}

TEST(Half, EveryBf16HasItsValue) {
  for (uint32_t i = 0; i < 65536; ++i) {
    const auto half = static_cast<uint16_t>(i);
    const double expected = bf16_value(half);
    const float got = bf16_to_f32(half);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(got)) << i;
    } else {
      ASSERT_EQ(bits_of(got), bits_of(static_cast<float>(expected))) << i;
    }
  }
}

TEST(Half, EveryValueSurvivesTheWayThereAndBack) {
  for (uint32_t i = 0; i < 65536; ++i) {
    const auto half = static_cast<uint16_t>(i);
    if (std::isnan(f16_value(half))) {
      ASSERT_EQ(f32_to_f16(f16_to_f32(half)), half | 0x200) << i;
    } else {
      ASSERT_EQ(f32_to_f16(f16_to_f32(half)), half) << i;
    }
    if (std::isnan(bf16_value(half))) {
      ASSERT_EQ(f32_to_bf16(bf16_to_f32(half)), half | 0x40) << i;
    } else {
      ASSERT_EQ(f32_to_bf16(bf16_to_f32(half)), half) << i;
    }
  }
}

// Rounding: between two neighbours the nearer wins, at the middle the even one, and one F32 step
// beside the middle its side wins. The step beyond the largest value counts as infinity.
void check_rounding(double (*value)(uint16_t), uint16_t (*convert)(float), uint16_t largest) {
  for (uint16_t low = 0; low <= largest; ++low) {
    const auto high = static_cast<uint16_t>(low + 1);
    const double step_end = low == largest
                                ? value(low) + (value(low) - value(static_cast<uint16_t>(low - 1)))
                                : value(high);
    const double middle = value(low) + (step_end - value(low)) / 2;
    const auto as_float = static_cast<float>(middle);
    ASSERT_EQ(static_cast<double>(as_float), middle);
    const uint16_t even = (low & 1) == 0 ? low : high;
    ASSERT_EQ(convert(as_float), even) << low;
    ASSERT_EQ(convert(-as_float), even | 0x8000) << low;
    ASSERT_EQ(convert(std::nextafter(as_float, 0.0f)), low) << low;
    ASSERT_EQ(convert(std::nextafter(as_float, HUGE_VALF)), high) << low;
  }
}

TEST(Half, F16RoundsToNearestEven) { check_rounding(f16_value, f32_to_f16, 0x7BFF); }
TEST(Half, Bf16RoundsToNearestEven) { check_rounding(bf16_value, f32_to_bf16, 0x7F7F); }

TEST(Half, SpecialValues) {
  EXPECT_EQ(f32_to_f16(0.0f), 0x0000);
  EXPECT_EQ(f32_to_f16(-0.0f), 0x8000);
  EXPECT_EQ(f32_to_f16(1.0f), 0x3C00);
  EXPECT_EQ(f32_to_f16(-2.0f), 0xC000);
  EXPECT_EQ(f32_to_f16(65504.0f), 0x7BFF);
  EXPECT_EQ(f32_to_f16(65536.0f), 0x7C00);
  EXPECT_EQ(f32_to_f16(HUGE_VALF), 0x7C00);
  EXPECT_EQ(f32_to_f16(-HUGE_VALF), 0xFC00);
  EXPECT_EQ(f32_to_f16(0x1p-14f), 0x0400);
  EXPECT_EQ(f32_to_f16(0x1p-24f), 0x0001);
  EXPECT_EQ(f32_to_f16(0x1p-149f), 0x0000);
  EXPECT_EQ(f32_to_bf16(1.0f), 0x3F80);
  EXPECT_EQ(f32_to_bf16(HUGE_VALF), 0x7F80);
  EXPECT_EQ(f32_to_bf16(-HUGE_VALF), 0xFF80);
  // NaN whose payload lies only in the bits that are dropped stays NaN.
  const float thin_nan = std::bit_cast<float>(0x7F800001u);
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(thin_nan))));
  EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(thin_nan))));
}

#if defined(__x86_64__)
__attribute__((target("f16c"))) uint16_t hardware_f16(float value) {
  const __m128i out = _mm_cvtps_ph(_mm_set_ss(value), _MM_FROUND_TO_NEAREST_INT);
  return static_cast<uint16_t>(_mm_extract_epi16(out, 0));
}
__attribute__((target("f16c"))) float hardware_f32(uint16_t half) {
  return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(half)));
}

TEST(Half, AgreesWithTheProcessor) {
  // Clang 14 cannot ask for F16C itself; every processor with AVX2 has it.
  if (!__builtin_cpu_supports("avx2")) GTEST_SKIP() << "skipped: no F16C";
  for (uint32_t i = 0; i < 65536; ++i) {
    const auto half = static_cast<uint16_t>(i);
    ASSERT_EQ(bits_of(f16_to_f32(half)), bits_of(hardware_f32(half))) << i;
  }
  // A prime stride visits every exponent with ever different fractions.
  for (uint64_t bits = 0; bits <= 0xFFFFFFFFu; bits += 1009) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(bits));
    ASSERT_EQ(f32_to_f16(value), hardware_f16(value)) << std::hex << bits;
  }
}
#endif

}  // namespace
}  // namespace strata
