// Whole models against logits that another engine computed (confirmed in float64).
// One device is held to the golden logits. Stages are held to the bits of one device, shards to the
// golden logits within the same limits.
#include <gtest/gtest.h>

#include <cstring>

#include "runtime/run_model.h"

namespace strata {
namespace {

void over_several_devices(const std::string& base, const std::string& tokens_path, double limit) {
  const auto golden = test::read_floats(base + ".logits.f32");
  const auto tokens = test::read_tokens(tokens_path);
  const auto one = test::all_logits(*test::load_model(base + ".gguf"), tokens);
  ASSERT_EQ(one.size(), golden.size());
  test::RunSetup setup;
  for (const uint32_t n : {2u, 3u}) {
    setup.n_devices = n;
    setup.split = plan::Split::layer;
    const auto stages = test::all_logits(*test::load_model(base + ".gguf", setup), tokens);
    ASSERT_EQ(stages.size(), one.size());
    EXPECT_EQ(std::memcmp(stages.data(), one.data(), one.size() * 4), 0) << n << " stages";
    setup.split = plan::Split::tensor;
    const auto shards = test::all_logits(*test::load_model(base + ".gguf", setup), tokens);
    ASSERT_EQ(shards.size(), golden.size());
    EXPECT_LE(test::normalised_error(shards, golden), limit) << n << " shards";
  }
}

class Mini : public testing::TestWithParam<const char*> {};

TEST_P(Mini, logits_match_to_1e9) {
  STRATA_NEED_SHARED();
  const std::string base = test::shared_path(std::string("models/mini/") + GetParam());
  const auto model = test::load_model(base + ".gguf");
  const auto golden = test::read_floats(base + ".logits.f32");
  const auto logits = test::all_logits(*model, test::read_tokens(base + ".tokens.txt"));
  ASSERT_EQ(logits.size(), golden.size());
  EXPECT_LE(test::normalised_error(logits, golden), 1e-9);
}

TEST_P(Mini, over_several_devices) {
  STRATA_NEED_SHARED();
  const std::string base = test::shared_path(std::string("models/mini/") + GetParam());
  over_several_devices(base, base + ".tokens.txt", 1e-9);
}

INSTANTIATE_TEST_SUITE_P(Families, Mini,
                         testing::Values("llama-gqa", "llama-tied", "llama-linear-rope", "mixtral",
                                         "qwen2", "qwen3", "qwen3moe"),
                         [](const auto& one) {
                           std::string name = one.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

struct QuantCase {
  const char* type;
  double limit;  // what the peer's kernels reach, rounded up
};

class Quant : public testing::TestWithParam<QuantCase> {};

TEST_P(Quant, logits_match_the_dequantised_weights) {
  STRATA_NEED_SHARED();
  const std::string folder = test::shared_path("models/quant/");
  const std::string base = folder + "llama-gqa." + GetParam().type;
  const auto model = test::load_model(base + ".gguf");
  const auto golden = test::read_floats(base + ".logits.f32");
  const auto logits = test::all_logits(*model, test::read_tokens(folder + "llama-gqa.tokens.txt"));
  ASSERT_EQ(logits.size(), golden.size());
  EXPECT_LE(test::normalised_error(logits, golden), GetParam().limit);
}

TEST_P(Quant, over_several_devices) {
  STRATA_NEED_SHARED();
  const std::string folder = test::shared_path("models/quant/");
  over_several_devices(folder + "llama-gqa." + GetParam().type, folder + "llama-gqa.tokens.txt",
                       GetParam().limit);
}

// Rounding keys and values costs no more than rounding weights to the same type. (For Q4_0 the
// limit is the type's own error of normally distributed numbers.)
TEST(Golden, caches_of_every_type) {
  STRATA_NEED_SHARED();
  using enum ElementType;
  const std::string base = test::shared_path("models/quant/llama-gqa.F16");
  const auto golden = test::read_floats(base + ".logits.f32");
  const auto tokens = test::read_tokens(test::shared_path("models/quant/llama-gqa.tokens.txt"));
  struct Limit {
    ElementType type;
    double limit;
  };
  for (const Limit& one : {Limit{f16, 5e-7}, {bf16, 1.5e-5}, {q8_0, 1.5e-4}, {q4_0, 7.5e-3}}) {
    test::RunSetup setup;
    setup.type_k = setup.type_v = one.type;
    const auto logits = test::all_logits(*test::load_model(base + ".gguf", setup), tokens);
    const double error = test::normalised_error(logits, golden);
    RecordProperty(std::string(info(one.type).name), std::to_string(error));
    EXPECT_LE(error, one.limit) << info(one.type).name;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Quant,
                         testing::Values(QuantCase{"F16", 5e-7}, QuantCase{"BF16", 1.5e-5},
                                         QuantCase{"Q8_0", 1.5e-4}, QuantCase{"Q4_0", 1.5e-4},
                                         QuantCase{"Q4_1", 1.5e-4}, QuantCase{"Q5_0", 1.5e-4},
                                         QuantCase{"Q5_1", 1.5e-4}, QuantCase{"IQ4_NL", 1.5e-4},
                                         QuantCase{"Q2_K", 3e-4}, QuantCase{"Q3_K_S", 3e-4},
                                         QuantCase{"Q4_K_S", 3e-4}, QuantCase{"Q5_K_S", 3e-4},
                                         QuantCase{"Q6_K", 3e-4}, QuantCase{"IQ4_XS", 3e-4}),
                         [](const auto& one) { return std::string(one.param.type); });

}  // namespace
}  // namespace strata
