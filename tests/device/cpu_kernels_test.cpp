// The kernel tables: exact dequantisation, conversions, exp; numbers that are not finite stay seen.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "device/cpu/kernels.h"
#include "device/cpu/ops/support.h"
#include "device/cpu/pack.h"
#include "device/op_case.h"
#include "tensor/types.h"

namespace strata::test {
namespace {

using namespace device;
using cpu::KernelTable;

class KernelTest : public testing::TestWithParam<cpu::Isa> {
 protected:
  const KernelTable& table() const { return cpu::kernels(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(Kernels, KernelTest, testing::ValuesIn(available_isas()),
                         [](const auto& test) { return std::string(cpu::name_of(test.param)); });

TEST_P(KernelTest, DequantisationIsExact) {
  Random random(1);
  for (const ElementType type : supported_types()) {
    for (int round = 0; round < 40; ++round) {
      const uint64_t n = info(type).block_elems == 1 ? 300 + random.below(50) : 1024;
      auto bytes = random_weight(random, type, n);
      // Every bit pattern of a block, scales that are subnormal, huge or no numbers included.
      if (round % 2 == 1) {
        for (std::byte& b : bytes) b = static_cast<std::byte>(random.bits() >> 24);
      }
      std::vector<float> want(n), got(n);
      dequantize(type, bytes.data(), want.data(), n);
      if (info(type).block_elems == 1) {
        cpu::format_of(table(), type).dequantize(bytes.data(), got.data(), n);
      } else {
        // The rows of one panel and a bit: the last panel is filled up with zeros.
        const WeightSpec spec{"w", type, {256, 4, 1}};
        std::vector<std::byte> panel(cpu::stored_bytes(spec));
        cpu::store_all(spec, bytes.data(), panel.data());
        for (uint64_t row = 0; row < 4; ++row) {
          table().packed[cpu::format_index(type)].dequantize_row(panel.data(), row, 256,
                                                                 got.data() + 256 * row);
        }
      }
      for (uint64_t i = 0; i < n; ++i) {
        if (std::isnan(want[i])) {
          ASSERT_TRUE(std::isnan(got[i])) << info(type).name << " " << i;
        } else {
          ASSERT_EQ(got[i], want[i]) << info(type).name << " " << i;
        }
      }
    }
  }
}

TEST_P(KernelTest, EveryHalfWidens) {
  std::vector<uint16_t> halves(65536);
  for (uint32_t i = 0; i < 65536; ++i) halves[i] = static_cast<uint16_t>(i);
  for (const ElementType type : {ElementType::f16, ElementType::bf16}) {
    std::vector<float> got(65536);
    cpu::format_of(table(), type)
        .dequantize(reinterpret_cast<const std::byte*>(halves.data()), got.data(), got.size());
    for (uint32_t i = 0; i < 65536; ++i) {
      const float want = type == ElementType::f16 ? f16_to_f32(halves[i]) : bf16_to_f32(halves[i]);
      if (std::isnan(want)) {
        ASSERT_TRUE(std::isnan(got[i]));
      } else {
        ASSERT_EQ(as_word(got[i]), as_word(want)) << i;
      }
    }
  }
}

// Stores to the cache agree with the reference encoder: ties, subnormals, saturation, NaN.
TEST_P(KernelTest, StoresRoundAsTheReferenceDoes) {
  Random random(2);
  std::vector<float> values;
  for (uint32_t half = 0; half < 65536; ++half) {
    // Each half, the point between it and the next, and that point's neighbours.
    const float x = f16_to_f32(static_cast<uint16_t>(half));
    const float next = f16_to_f32(static_cast<uint16_t>(half + 1));
    const float middle = x + (next - x) / 2;
    for (const float y : {x, middle, std::nextafter(middle, 2 * next), std::nextafter(middle, x)}) {
      values.push_back(y);
    }
  }
  for (int i = 0; i < 200000; ++i) values.push_back(as_float(random.bits()));
  for (const float x : {65519.99f, 65520.0f, 1e30f, std::numeric_limits<float>::max(),
                        std::numeric_limits<float>::infinity()}) {
    values.push_back(x);
    values.push_back(-x);
  }
  for (const ElementType type : {ElementType::f16, ElementType::bf16}) {
    std::vector<uint16_t> want(values.size()), got(values.size());
    quantize(type, values.data(), want.data(), values.size());
    cpu::cache_kernels(table(), type)
        .store(values.data(), reinterpret_cast<std::byte*>(got.data()), values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      if (std::isnan(values[i])) {
        const float back = type == ElementType::f16 ? f16_to_f32(got[i]) : bf16_to_f32(got[i]);
        ASSERT_TRUE(std::isnan(back)) << as_word(values[i]);
      } else {
        ASSERT_EQ(got[i], want[i]) << info(type).name << " " << values[i];
      }
    }
  }
}

// Blocks of any size of values, down to scales that F16 rounds to zero and up to its end; ties;
// what is not finite.
TEST_P(KernelTest, BlocksAreStoredAsTheReferenceDoes) {
  Random random(4);
  std::vector<float> values;
  for (int exponent = -40; exponent < 40; ++exponent) {
    for (int round = 0; round < 8; ++round) {
      for (const float x : random.normals(32, std::ldexp(1.0f, exponent))) values.push_back(x);
    }
  }
  for (int round = 0; round < 200; ++round) {  // halves between quants, equal extremes
    for (int i = 0; i < 32; ++i) {
      values.push_back(0.5f * (static_cast<float>(random.below(509)) - 254));
    }
    values[values.size() - 1 - random.below(32)] = round % 2 == 0 ? 127.0f : -127.0f;
  }
  for (int round = 0; round < 200; ++round) {
    for (int i = 0; i < 32; ++i) values.push_back(as_float(random.bits()));
  }
  values.insert(values.end(), 32, 0.0f);
  for (const float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(),
        std::numeric_limits<float>::max()}) {
    for (const float x : random.normals(32)) values.push_back(x);
    values[values.size() - 9] = bad;
  }
  for (const ElementType type : {ElementType::q8_0, ElementType::q4_0}) {
    std::vector<std::byte> want(row_bytes(type, values.size())), got(want.size());
    quantize(type, values.data(), want.data(), values.size());
    cpu::cache_kernels(table(), type).store(values.data(), got.data(), values.size());
    for (size_t i = 0; i < values.size(); i += 32) {
      const size_t bytes = info(type).block_bytes;
      ASSERT_TRUE(std::equal(want.begin() + static_cast<ptrdiff_t>(i / 32 * bytes),
                             want.begin() + static_cast<ptrdiff_t>((i / 32 + 1) * bytes),
                             got.begin() + static_cast<ptrdiff_t>(i / 32 * bytes)))
          << info(type).name << " block " << i / 32 << " of " << values[i];
    }
  }
}

TEST_P(KernelTest, ExpIsGoodToOneUnitInTheLastPlace) {
  std::vector<float> x;
  for (double v = -104; v < 89; v += 0.00371) x.push_back(static_cast<float>(v));
  for (const float v :
       {0.0f, -0.0f, 1e-8f, -1e-8f, 88.72283f, 88.7229f, -103.97f, -104.5f, -1e30f, 1e30f,
        std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()}) {
    x.push_back(v);
  }
  std::vector<float> got(x.size());
  table().exp_sum(x.data(), 0, got.data(), x.size());
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double want = std::exp(static_cast<double>(x[i]));
    if (want > static_cast<double>(std::numeric_limits<float>::max())) {
      ASSERT_TRUE(std::isinf(got[i]) || got[i] > 3.4e38f) << x[i];
      continue;
    }
    const int exponent = std::max(std::ilogb(static_cast<float>(want)), -126);
    const double unit = want == 0 ? 0x1p-149 : std::ldexp(1.0, exponent - 23);
    worst = std::max(worst, std::fabs(static_cast<double>(got[i]) - want) / unit);
  }
  EXPECT_LE(worst, 1.0);
  float nan = std::numeric_limits<float>::quiet_NaN();
  table().exp_sum(&nan, 0, &nan, 1);
  EXPECT_TRUE(std::isnan(nan));
}

TEST_P(KernelTest, SoftCapIsTanh) {
  std::vector<float> x;
  for (double v = -200; v < 200; v += 0.0137) x.push_back(static_cast<float>(v));
  for (double v = -1; v < 1; v += 0.00037) x.push_back(static_cast<float>(v));
  for (const float cap : {1.0f, 30.0f, 50.0f}) {
    std::vector<float> got = x;
    table().soft_cap(got.data(), cap, got.size());
    for (size_t i = 0; i < x.size(); ++i) {
      const double c = static_cast<double>(cap);
      const double want = c * std::tanh(static_cast<double>(x[i]) / c);
      // Quotient, tanh (3 units) and product.
      ASSERT_NEAR(static_cast<double>(got[i]), want, 8 * 0x1p-24 * std::fabs(want)) << x[i];
    }
  }
}

TEST_P(KernelTest, MaxOfAnyLength) {
  Random random(3);
  for (uint32_t n = 1; n < 70; ++n) {
    const auto x = random.normals(n);
    EXPECT_EQ(table().max(x.data(), n), *std::max_element(x.begin(), x.end()));
  }
}

// What is not a number in weights or activations must come out, not vanish.
TEST_P(KernelTest, NotFiniteInputShows) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  const auto check = [&](ElementType type, uint32_t width, float bad) {
    for (const uint32_t n_tokens : {1u, 2u, 5u, 50u}) {
      for (const uint32_t at : {0u, 17u, width - 1}) {
        CaseBuilder builder(std::string(info(type).name), n_tokens);
        std::vector<float> x(n_tokens * width, 1.0f);
        x[at] = bad;
        Linear op;
        op.in = builder.input(width, x);
        Random random(1);
        op.weight =
            builder.weight(type, {width, 9, 1}, random_weight(random, type, uint64_t{width} * 9));
        op.out = builder.output(9);
        const OpCase c = builder.build(op);
        const Outcome out = run_cpu(c, GetParam());
        for (uint32_t r = 0; r < 9; ++r)
          EXPECT_FALSE(std::isfinite(as_float(out.values[op.out][r])));
        if (n_tokens > 1) {
          EXPECT_TRUE(std::isfinite(as_float(out.values[op.out][9])));
        }
      }
    }
  };
  for (const float bad : {nan, infinity, -infinity}) {
    check(ElementType::f16, 37, bad);
    for (const ElementType type : supported_types()) check(type, 256, bad);
  }
}

// packed.h: |x - d q| <= d / 2 with d = max |x| / 127, and the sums that belong to a block.
TEST_P(KernelTest, ActivationsAreQuantisedToTheNearestStep) {
  Random random(12);
  std::vector<float> x = random.normals(32 * 40);
  std::fill_n(x.begin(), 32, 0.0f);                              // nothing at all
  for (size_t i = 32; i < 64; ++i) x[i] *= 1e-40f;               // too small to divide by
  for (size_t i = 64; i < 96; ++i) x[i] *= 1e37f;                // large
  for (size_t i = 96; i < 128; ++i) x[i] = i % 2 != 0 ? -3 : 3;  // extremes only
  constexpr size_t k_step = 3;
  std::vector<cpu::XBlock> blocks(40 * k_step);
  table().quantize(x.data(), x.size(), blocks.data(), k_step);
  for (size_t b = 0; b < 40; ++b) {
    const cpu::XBlock& block = blocks[b * k_step];
    const float* values = x.data() + 32 * b;
    double top = 0;
    int32_t halves[2] = {0, 0};
    for (size_t i = 0; i < 32; ++i) top = std::max(top, std::fabs(static_cast<double>(values[i])));
    const double d = static_cast<double>(block.d);
    if (b == 1) {
      EXPECT_EQ(d, 0);
    } else {
      EXPECT_NEAR(d, top / 127, top / 127 * 1e-6) << b;
      for (size_t i = 0; i < 32; ++i) {
        // Rounded twice on the way: a millionth more than half a step.
        EXPECT_LE(std::fabs(static_cast<double>(values[i]) - d * block.q[i]), d * (0.5 + 127e-6))
            << b << " " << i;
      }
    }
    for (size_t i = 0; i < 32; ++i) halves[i / 16] += block.q[i];
    EXPECT_EQ(block.minus, -(halves[0] + halves[1]));
    EXPECT_EQ(block.sum, block.d * static_cast<float>(halves[0] + halves[1]));
    for (size_t h = 0; h < 2; ++h) {
      EXPECT_EQ(block.minus_half[h], -halves[h]);
      EXPECT_EQ(block.half_sum[h], block.d * static_cast<float>(halves[h]));
    }
  }
}

TEST(Isa, NamesAndChoice) {
  EXPECT_EQ(cpu::name_of(cpu::Isa::generic), "generic");
  EXPECT_EQ(cpu::name_of(cpu::Isa::avx2), "avx2");
  EXPECT_EQ(cpu::name_of(cpu::Isa::avx512vnni), "avx512vnni");
  EXPECT_TRUE(cpu::available(cpu::Isa::generic));
  EXPECT_TRUE(cpu::available(cpu::best_isa()));
  EXPECT_FALSE(cpu::processor_name().empty());
  for (const cpu::Isa isa : available_isas()) {
    EXPECT_EQ(cpu::isa_named(cpu::name_of(isa)), isa);
    EXPECT_EQ(cpu::kernels(isa).name, std::string(cpu::name_of(isa)));
  }
}

TEST(Isa, UnknownNameIsAUsageError) {
  for (const char* name : {"avx9", "AVX2", "avx2 ", ""}) {
    try {
      cpu::isa_named(name);
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::usage);
      EXPECT_NE(std::string(error.what()).find("generic, avx2, avx512vnni or amx"),
                std::string::npos);
    }
  }
}

}  // namespace
}  // namespace strata::test
