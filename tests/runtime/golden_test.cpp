// Whole models against logits that another engine computed (confirmed in float64).
#include <gtest/gtest.h>

#include "runtime/run_model.h"

namespace strata {
namespace {

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
