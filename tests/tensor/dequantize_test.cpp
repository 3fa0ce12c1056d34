// Dequantisation against the element formulas, hand-made blocks and another engine's files.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "base/error.h"
#include "formulas.h"
#include "tensor/types.h"

namespace strata {
namespace {

std::vector<ElementType> block_types() {
  std::vector<ElementType> out;
  for (const ElementType type : supported_types()) {
    if (info(type).block_elems > 1) out.push_back(type);
  }
  return out;
}

std::string name_of_param(const testing::TestParamInfo<ElementType>& param) {
  return std::string(info(param.param).name);
}

class Blocks : public testing::TestWithParam<ElementType> {};

// Every value is the real one, rounded once: bit for bit what double gives.
TEST_P(Blocks, RandomBlocksFollowTheFormula) {
  const ElementType type = GetParam();
  const TypeInfo& t = info(type);
  std::mt19937 random(42 + t.id);
  constexpr size_t k_blocks = 3;
  for (int round = 0; round < 200; ++round) {
    // One byte off, so that nothing may count on alignment.
    std::vector<uint8_t> bytes(k_blocks * t.block_bytes + 1);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    std::vector<float> values(k_blocks * t.block_elems);
    dequantize(type, bytes.data() + 1, values.data(), values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      const uint8_t* block = bytes.data() + 1 + i / t.block_elems * t.block_bytes;
      const auto expected = static_cast<float>(test::element_value(type, block, i % t.block_elems));
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(values[i])) << i;
      } else {
        ASSERT_EQ(std::bit_cast<uint32_t>(values[i]), std::bit_cast<uint32_t>(expected))
            << "element " << i << ": " << values[i] << " and " << expected;
      }
    }
  }
}

// A non-finite scale in any block is found, and nothing else is.
TEST_P(Blocks, PoisonedScalesAreFound) {
  const ElementType type = GetParam();
  const TypeInfo& t = info(type);
  std::mt19937 random(7);
  constexpr size_t k_blocks = 4;
  std::vector<uint8_t> bytes(k_blocks * t.block_bytes);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  const size_t elems = k_blocks * t.block_elems;
  const auto [first, second] = test::scale_places(type);
  for (size_t b = 0; b < k_blocks; ++b) {
    for (const int place : {first, second}) {
      if (place >= 0) bytes[b * t.block_bytes + static_cast<size_t>(place) + 1] = 0x3C;
    }
    if (type == ElementType::mxfp4) bytes[b * t.block_bytes] = 127;
  }
  ASSERT_TRUE(all_finite(type, bytes.data(), elems));
  for (size_t b = 0; b < k_blocks; ++b) {
    for (const int place : {first, second}) {
      if (place < 0) continue;
      uint8_t& high = bytes[b * t.block_bytes + static_cast<size_t>(place) + 1];
      for (const uint8_t bad : {0x7C, 0x7E, 0xFC, 0xFF}) {
        high = bad;
        EXPECT_FALSE(all_finite(type, bytes.data(), elems)) << b << " " << place;
      }
      high = 0x3C;
    }
  }
  ASSERT_TRUE(all_finite(type, bytes.data(), elems));
}

INSTANTIATE_TEST_SUITE_P(AllTypes, Blocks, testing::ValuesIn(block_types()), name_of_param);

std::vector<float> values_of(ElementType type, const std::vector<uint8_t>& bytes) {
  std::vector<float> out(bytes.size() / info(type).block_bytes * info(type).block_elems);
  dequantize(type, bytes.data(), out.data(), out.size());
  return out;
}

TEST(KnownBlocks, Q4_0) {
  std::vector<uint8_t> bytes(18, 0x88);
  bytes[0] = 0x00;
  bytes[1] = 0x38;   // d = 0.5
  bytes[2] = 0x1F;   // elements 0 and 16: quants 15 and 1
  bytes[17] = 0x70;  // elements 15 and 31: quants 0 and 7
  const auto x = values_of(ElementType::q4_0, bytes);
  EXPECT_EQ(x[0], 3.5f);
  EXPECT_EQ(x[16], -3.5f);
  EXPECT_EQ(x[15], -4.0f);
  EXPECT_EQ(x[31], -0.5f);
  EXPECT_EQ(x[1], 0.0f);
}

TEST(KnownBlocks, Q5_1) {
  std::vector<uint8_t> bytes(24, 0);
  bytes[1] = 0x40;  // d = 2
  bytes[3] = 0xBC;  // m = -1
  bytes[6] = 0x03;  // fifth bits of elements 16 and 17
  bytes[8] = 0x21;  // elements 0 and 16: low quants 1 and 2
  const auto x = values_of(ElementType::q5_1, bytes);
  EXPECT_EQ(x[0], 1.0f);
  EXPECT_EQ(x[16], 2.0f * 18 - 1);
  EXPECT_EQ(x[17], 2.0f * 16 - 1);
  EXPECT_EQ(x[31], -1.0f);
}

TEST(KnownBlocks, Q6_K) {
  std::vector<uint8_t> bytes(210, 0);
  bytes[209] = 0x3C;                // d = 1
  bytes[192] = 1;                   // scale of elements 0 to 15
  bytes[192 + 15] = 0xFE;           // scale -2 of elements 240 to 255
  bytes[0] = 0x05;                  // element 0: low quant 5
  bytes[128] = 0x02;                // element 0: upper bits 2, so 32 + 5 - 32
  bytes[64 + 32 + 31] = 0xF0;       // element 255: low quant 15
  bytes[128 + 32 + 31] = 0x3 << 6;  // element 255: upper bits 3, so 48 + 15 - 32
  const auto x = values_of(ElementType::q6_k, bytes);
  EXPECT_EQ(x[0], 5.0f);
  EXPECT_EQ(x[1], -32.0f);
  EXPECT_EQ(x[16], 0.0f);
  EXPECT_EQ(x[255], -62.0f);
  EXPECT_EQ(x[254], 64.0f);
}

TEST(KnownBlocks, Mxfp4) {
  std::vector<uint8_t> bytes(17, 0);
  bytes[0] = 128;   // 2
  bytes[1] = 0x7F;  // element 0: -6, element 16: 6
  bytes[2] = 0x91;  // element 1: 0.5, element 17: -0.5
  auto x = values_of(ElementType::mxfp4, bytes);
  EXPECT_EQ(x[0], -12.0f);
  EXPECT_EQ(x[16], 12.0f);
  EXPECT_EQ(x[1], 1.0f);
  EXPECT_EQ(x[17], -1.0f);
  bytes[0] = 0;  // 2^-127, below the normal range
  x = values_of(ElementType::mxfp4, bytes);
  EXPECT_EQ(x[16], 6 * 0x1p-127f);
  EXPECT_EQ(x[1], 0x1p-128f);
  bytes[0] = 252;  // 2^125: six times that is the largest power's last
  EXPECT_TRUE(all_finite(ElementType::mxfp4, bytes.data(), 32));
  EXPECT_EQ(values_of(ElementType::mxfp4, bytes)[16], 6 * 0x1p125f);
  bytes[0] = 253;
  EXPECT_FALSE(all_finite(ElementType::mxfp4, bytes.data(), 32));
  bytes[1] = 0x55;  // 3 at most: 3 * 2^126 fits
  EXPECT_TRUE(all_finite(ElementType::mxfp4, bytes.data(), 32));
  bytes[0] = 255;
  EXPECT_FALSE(all_finite(ElementType::mxfp4, bytes.data(), 32));
  EXPECT_TRUE(std::isnan(values_of(ElementType::mxfp4, bytes)[31]));
}

TEST(KnownBlocks, PlainRealsAreFiniteOrNot) {
  std::vector<float> row(9, 1.0f);
  EXPECT_TRUE(all_finite(ElementType::f32, row.data(), row.size()));
  for (const float bad : {NAN, HUGE_VALF, -HUGE_VALF}) {
    row[8] = bad;
    EXPECT_FALSE(all_finite(ElementType::f32, row.data(), row.size()));
    EXPECT_TRUE(all_finite(ElementType::f32, row.data(), row.size() - 1));
    std::vector<uint16_t> half(9), brain(9);
    quantize(ElementType::f16, row.data(), half.data(), 9);
    quantize(ElementType::bf16, row.data(), brain.data(), 9);
    EXPECT_FALSE(all_finite(ElementType::f16, half.data(), 9));
    EXPECT_TRUE(all_finite(ElementType::f16, half.data(), 8));
    EXPECT_FALSE(all_finite(ElementType::bf16, brain.data(), 9));
    EXPECT_TRUE(all_finite(ElementType::bf16, brain.data(), 8));
  }
}

TEST(Table, SizesOfThePublishedFormats) {
  struct Row {
    const char* name;
    uint32_t elems, bytes;
  };
  for (const Row& row : {Row{"f32", 1, 4}, Row{"f16", 1, 2}, Row{"bf16", 1, 2}, Row{"q4_0", 32, 18},
                         Row{"q4_1", 32, 20}, Row{"q5_0", 32, 22}, Row{"q5_1", 32, 24},
                         Row{"q8_0", 32, 34}, Row{"q2_k", 256, 84}, Row{"q3_k", 256, 110},
                         Row{"q4_k", 256, 144}, Row{"q5_k", 256, 176}, Row{"q6_k", 256, 210},
                         Row{"iq4_nl", 32, 18}, Row{"iq4_xs", 256, 136}, Row{"mxfp4", 32, 17}}) {
    const auto type = parse_type(row.name);
    ASSERT_TRUE(type) << row.name;
    EXPECT_EQ(info(*type).block_elems, row.elems) << row.name;
    EXPECT_EQ(info(*type).block_bytes, row.bytes) << row.name;
    EXPECT_EQ(row_bytes(*type, 512), 512 / row.elems * row.bytes) << row.name;
    EXPECT_EQ(info(*type).name, row.name);
    EXPECT_TRUE(info(*type).supported);
    EXPECT_EQ(find_type(static_cast<uint32_t>(*type)), &info(*type));
  }
  EXPECT_EQ(supported_types().size(), 16u);
  EXPECT_TRUE(std::is_sorted(supported_types().begin(), supported_types().end()));
}

TEST(Table, NamesAndIds) {
  EXPECT_EQ(parse_type("Q4_K"), ElementType::q4_k);
  EXPECT_EQ(parse_type("BF16"), ElementType::bf16);
  EXPECT_EQ(parse_type("q8_1"), std::nullopt);  // known, not computed
  EXPECT_EQ(parse_type("q4_k "), std::nullopt);
  EXPECT_EQ(parse_type(""), std::nullopt);
  for (const uint32_t retired : {4u, 5u, 31u, 32u, 33u, 36u, 37u, 38u}) {
    ASSERT_NE(find_type(retired), nullptr) << retired;
    EXPECT_EQ(find_type(retired)->block_elems, 0u) << retired;
    EXPECT_FALSE(find_type(retired)->supported) << retired;
  }
  for (const uint32_t unknown : {43u, 97u, 99u, 133u, 0x80000000u, 0xFFFFFFFFu}) {
    EXPECT_EQ(find_type(unknown), nullptr) << unknown;
  }
  ASSERT_NE(find_type(16), nullptr);
  EXPECT_EQ(find_type(16)->name, "iq2_xxs");
  EXPECT_EQ(find_type(16)->block_bytes, 66u);
  EXPECT_FALSE(find_type(16)->supported);
}

TEST(Table, WrongUseIsAnError) {
  EXPECT_THROW(row_bytes(ElementType::q4_0, 33), Error);
  EXPECT_THROW(row_bytes(ElementType::f32, uint64_t{1} << 62), Error);
  EXPECT_THROW(info(static_cast<ElementType>(16)), Error);
  EXPECT_THROW(info(static_cast<ElementType>(99)), Error);
  float x[32] = {};
  uint8_t block[34];
  EXPECT_THROW(quantize(ElementType::q8_0, x, block, 31), Error);
  try {
    quantize(ElementType::q4_1, x, block, 32);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
  }
}

}  // namespace
}  // namespace strata
