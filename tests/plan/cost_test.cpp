// The cost of a step against sums made by hand from the shapes.
#include "plan/cost.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/synth.h"

namespace strata::plan {
namespace {

model::ModelSpec spec_of(const char* shape, const char* mixture) {
  return model::read_spec(model::open_synthetic(std::make_shared<const model::SyntheticModel>(
      model::find_shape(shape), model::find_mixture(mixture))));
}

constexpr ElementType k_f16 = ElementType::f16;

TEST(Cost, OneTokenOfADenseModel) {
  const model::ModelSpec spec = spec_of("llama-1b", "f16");
  const StepCost cost = cost_of(spec, k_f16, k_f16, appended(4095, 1, 1));
  // 1,100,048,384 parameters: 92,160 in F32 norms, 32000 x 2048 in the embedding, of which one row
  // is read.
  const double table = 32000.0 * 2048;
  const double norms = 92160;
  EXPECT_EQ(cost.weight_bytes, 2 * (1100048384 - norms - table + 2048) + 4 * norms);
  // 22 layers of 4 heads of 64, keys and values, 2 bytes each.
  EXPECT_EQ(cost.kv_bytes, 4096.0 * 22 * 4 * 64 * 2 * 2);
  // Two operations per weight; 32 heads' scores and sums over 64 dimensions.
  EXPECT_EQ(cost.operations, 2 * (1100048384 - norms - table) + 22 * 32 * 2 * 128 * 4096.0);
}

TEST(Cost, APromptReadsWeightsOnce) {
  const model::ModelSpec spec = spec_of("llama-1b", "q8_0");
  const StepCost one = cost_of(spec, k_f16, k_f16, appended(0, 1, 1));
  const StepCost many = cost_of(spec, k_f16, k_f16, appended(0, 512, 1));
  EXPECT_EQ(many.weight_bytes - one.weight_bytes, 511 * 2048 / 32 * 34.0);  // rows of the embedding
  EXPECT_EQ(many.kv_bytes, 512 * one.kv_bytes);
  // The head computes one row; attention looks at 512 * 513 / 2 positions.
  const double head = 2.0 * 32000 * 2048;
  const double attention = 22 * 32 * 2 * 128.0;
  EXPECT_EQ(many.operations - head - attention * 512 * 513 / 2,
            512 * (one.operations - head - attention));
  // Without logits no head is read.
  const StepCost silent = cost_of(spec, k_f16, k_f16, appended(0, 512, 0));
  EXPECT_EQ(many.weight_bytes - silent.weight_bytes, 32000 * 2048 / 32 * 34.0 + 2048 * 4);
}

TEST(Cost, ExpertsCountAsFarAsTheyAreReached) {
  const model::ModelSpec spec = spec_of("moe-1.8b", "q8_0");
  const StepCost one = cost_of(spec, k_f16, k_f16, appended(0, 1, 1));
  const StepCost four = cost_of(spec, k_f16, k_f16, {4, 4, 4, 4});
  const StepCost all = cost_of(spec, k_f16, k_f16, appended(0, 4096, 1));
  const double experts = 16 * 64 * 3 * 1024 * 512 / 32 * 34.0;  // bytes of all of them
  const double row = 1024 / 32 * 34.0;
  // 8 of 64 for one token, nearly all for 4096.
  EXPECT_NEAR(all.weight_bytes - 4095 * row - one.weight_bytes, experts * (1 - 8.0 / 64), 1e-3);
  EXPECT_NEAR(four.weight_bytes - 3 * row - one.weight_bytes,
              experts * (1 - std::pow(1 - 8.0 / 64, 4) - 8.0 / 64), 1);
  // 16 layers: attention 1024 x (2048 + 2 x 512 + 2048), router, 8 experts; the head.
  const double layer = 1024.0 * (2048 + 2 * 512 + 2048) + 1024 * 64 + 8 * 3 * 1024 * 512;
  EXPECT_EQ(one.operations, 2 * (16 * layer + 32000 * 1024.0) + 16 * 16 * 2 * 256.0);
}

}  // namespace
}  // namespace strata::plan
