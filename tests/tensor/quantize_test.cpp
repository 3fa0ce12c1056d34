// The reference encoders: known blocks, error bounds, degenerate rows.
#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>
#include <random>
#include <vector>

#include "tensor/types.h"

namespace strata {
namespace {

constexpr ElementType k_encoders[] = {ElementType::f32, ElementType::f16, ElementType::bf16,
                                      ElementType::q8_0, ElementType::q4_0};

std::vector<uint8_t> encode(ElementType type, const std::vector<float>& row) {
  std::vector<uint8_t> out(row_bytes(type, row.size()));
  quantize(type, row.data(), out.data(), row.size());
  return out;
}

std::vector<float> there_and_back(ElementType type, const std::vector<float>& row) {
  const auto bytes = encode(type, row);
  std::vector<float> out(row.size());
  dequantize(type, bytes.data(), out.data(), out.size());
  return out;
}

TEST(Quantize, KnownQ8_0Block) {
  std::vector<float> row(32);
  for (int i = 0; i < 32; ++i) row[static_cast<size_t>(i)] = static_cast<float>(i - 16) / 4;
  row[31] = -31.75f;  // the largest magnitude: d = 31.75 / 127 = 0.25
  const auto block = encode(ElementType::q8_0, row);
  EXPECT_EQ(block[0] | block[1] << 8, 0x3400);  // 0.25
  for (int i = 0; i < 31; ++i) {
    EXPECT_EQ(static_cast<int8_t>(block[static_cast<size_t>(2 + i)]), i - 16);
  }
  EXPECT_EQ(static_cast<int8_t>(block[33]), -127);
  EXPECT_EQ(there_and_back(ElementType::q8_0, row), row);
}

TEST(Quantize, KnownQ4_0Block) {
  std::vector<float> row(32);
  for (int i = 0; i < 32; ++i) row[static_cast<size_t>(i)] = static_cast<float>(i % 16 - 8) / 2;
  const auto block = encode(ElementType::q4_0, row);
  EXPECT_EQ(block[0] | block[1] << 8, 0x3800);  // -4 / -8 = 0.5
  for (size_t j = 0; j < 16; ++j) EXPECT_EQ(block[2 + j], j | j << 4);
  EXPECT_EQ(there_and_back(ElementType::q4_0, row), row);
  for (float& x : row) x = -x;  // now the extreme is positive and the scale negative
  EXPECT_EQ(encode(ElementType::q4_0, row)[1], 0xB8);
  EXPECT_EQ(there_and_back(ElementType::q4_0, row), row);
}

TEST(Quantize, ErrorStaysWithinHalfAStep) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (int round = 0; round < 500; ++round) {
    std::vector<float> row(64);
    const float size = std::ldexp(1.0f, round % 20 - 10);
    for (float& x : row) x = normal(random) * size;
    for (const ElementType type : k_encoders) {
      const auto back = there_and_back(type, row);
      for (size_t b = 0; b < row.size(); b += 32) {
        float largest = 0;
        for (size_t i = b; i < b + 32; ++i) largest = std::max(largest, std::fabs(row[i]));
        for (size_t i = b; i < b + 32; ++i) {
          // The scale is rounded to F16 too: 2^-11 of the value, or half the smallest step for
          // each quant. Q4_0 reaches from -8 to 7 steps
          // where the extreme stands for -8, so its far side may lose a whole step.
          float bound = 0;
          if (type == ElementType::q8_0)
            bound = largest / 127 * 0.5f + largest * 0x1p-11f + 127 * 0x1p-25f;
          if (type == ElementType::q4_0) bound = largest / 8 + largest * 0x1p-11f + 8 * 0x1p-25f;
          if (type == ElementType::f16) bound = std::fabs(row[i]) * 0x1p-11f + 0x1p-25f;
          if (type == ElementType::bf16) bound = std::fabs(row[i]) * 0x1p-8f;
          ASSERT_LE(std::fabs(back[i] - row[i]), bound * 1.0001f)
              << info(type).name << " " << row[i] << " " << largest;
        }
      }
    }
  }
}

struct NamedRow {
  const char* name;
  std::vector<float> row;
};

std::vector<NamedRow> degenerate_rows() {
  const auto filled = [](float x) { return std::vector<float>(32, x); };
  const auto outlier = [&](float rest, float x) {
    auto row = filled(rest);
    row[13] = x;
    return row;
  };
  return {{"zero", filled(0)},
          {"negative zero", filled(-0.0f)},
          {"constant", filled(3.25f)},
          {"smallest", filled(FLT_TRUE_MIN)},
          {"small", filled(1e-40f)},
          {"near the smallest half", filled(0x1p-24f)},
          {"half scale underflows", filled(0x1p-22f)},
          {"largest", filled(FLT_MAX)},
          {"lowest", filled(-FLT_MAX)},
          {"above half", filled(1e6f)},
          {"outlier", outlier(1e-3f, 1e5f)},
          {"huge outlier", outlier(1.0f, FLT_MAX)},
          {"huge negative outlier", outlier(-1e-30f, -FLT_MAX)},
          {"tiny outlier", outlier(0, FLT_TRUE_MIN)},
          {"scale just overflows", filled(65520.0f * 127)},
          {"scale just fits", filled(65504.0f * 127)}};
}

TEST(Quantize, DegenerateRowsStayFinite) {
  for (const auto& [name, row] : degenerate_rows()) {
    for (const ElementType type : k_encoders) {
      const auto bytes = encode(type, row);
      EXPECT_TRUE(all_finite(type, bytes.data(), row.size())) << name << " " << info(type).name;
      const auto back = there_and_back(type, row);
      for (size_t i = 0; i < row.size(); ++i) {
        ASSERT_TRUE(std::isfinite(back[i])) << name << " " << info(type).name;
        // Never larger than what was put in, but for the rounding of the scale, and never of the
        // other sign.
        EXPECT_LE(std::fabs(back[i]),
                  std::fabs(row[i]) * 1.5f + std::fabs(row[13]) * 0.07f + 0x1p-24f)
            << name << " " << info(type).name;
        if (back[i] != 0) {
          EXPECT_EQ(std::signbit(back[i]), std::signbit(row[i])) << name;
        }
      }
    }
  }
}

TEST(Quantize, ValuesBeyondTheRangeSaturate) {
  EXPECT_EQ(there_and_back(ElementType::f16, {1e6f, -1e6f}), (std::vector<float>{65504, -65504}));
  EXPECT_EQ(there_and_back(ElementType::bf16, {FLT_MAX, -FLT_MAX}),
            (std::vector<float>{0x1.FEp127f, -0x1.FEp127f}));
  EXPECT_EQ(there_and_back(ElementType::q8_0, std::vector<float>(32, FLT_MAX))[0], 65504.0f * 127);
  EXPECT_EQ(there_and_back(ElementType::q4_0, std::vector<float>(32, -FLT_MAX))[0], 65504.0f * -8);
}

TEST(Quantize, WhatIsNotFiniteStaysVisible) {
  for (const float bad : {NAN, HUGE_VALF, -HUGE_VALF}) {
    std::vector<float> row(64, 1.0f);
    row[40] = bad;
    for (const ElementType type : k_encoders) {
      const auto bytes = encode(type, row);
      EXPECT_FALSE(all_finite(type, bytes.data(), row.size())) << info(type).name;
      EXPECT_TRUE(all_finite(type, bytes.data(), 32)) << info(type).name;
      EXPECT_FALSE(std::isfinite(there_and_back(type, row)[40])) << info(type).name;
    }
  }
}

}  // namespace
}  // namespace strata
