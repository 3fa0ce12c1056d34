// Predicted times against the formula, summed by hand with profiles made up for it.
#include "plan/predict.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/lower.h"
#include "model/synth.h"

namespace strata::plan {
namespace {

using device::Profile;
using device::Program;
using device::Rows;
using device::ValueId;

// Speeds that tell the parts apart.
Profile made_up() {
  Profile profile;
  profile.linear[ElementType::q8_0] = {10e9, 200e9};
  profile.other_linear = {5e9, 50e9};
  profile.attention = {4e9, 40e9};
  profile.seconds_per_op = 1e-6;
  profile.element_bytes_per_second = 20e9;
  profile.copy_bytes_per_second = 8e9;
  profile.copy_seconds = 3e-6;
  return profile;
}

ValueId add_value(Program& program, uint32_t width, Rows rows = Rows::tokens) {
  program.values.push_back({"v" + std::to_string(program.values.size()), width, rows});
  return static_cast<ValueId>(program.values.size() - 1);
}

Program one_linear(ElementType type, Rows rows) {
  Program program;
  const ValueId in = add_value(program, 1024, rows);
  const ValueId out = add_value(program, 512, rows);
  program.weights.push_back({"w", type, {1024, 512, 1}});
  program.ops.push_back(device::Linear{in, 0, device::k_none, out});
  return program;
}

TEST(Predict, LinearHasTwoEnds) {
  const double bytes = 512 * 1024 / 32 * 34.0;
  const double row = 2.0 * 1024 * 512;
  const Program program = one_linear(ElementType::q8_0, Rows::tokens);
  EXPECT_DOUBLE_EQ(program_seconds(program, made_up(), {1, 1, 1, 1}), 1e-6 + bytes / 10e9);
  EXPECT_DOUBLE_EQ(program_seconds(program, made_up(), {33, 1, 33, 33}),
                   1e-6 + bytes / 10e9 + 32 * row / 200e9);
  // A type of its own, or the others'.
  EXPECT_DOUBLE_EQ(
      program_seconds(one_linear(ElementType::f16, Rows::tokens), made_up(), {2, 0, 2, 2}),
      1e-6 + 512 * 1024 * 2 / 5e9 + row / 50e9);
}

TEST(Predict, RowsAreTokensOrOutputs) {
  const Program head = one_linear(ElementType::q8_0, Rows::outputs);
  EXPECT_EQ(program_seconds(head, made_up(), {512, 0, 512, 512}), 0);
  EXPECT_EQ(program_seconds(head, made_up(), {512, 3, 512, 512}),
            program_seconds(one_linear(ElementType::q8_0, Rows::tokens), made_up(), {3, 3, 3, 3}));
}

TEST(Predict, AnUnknownProfileGivesNoTime) {
  EXPECT_EQ(program_seconds(one_linear(ElementType::q8_0, Rows::tokens), {}, {1, 1, 1, 1}), 0);
  EXPECT_EQ(copy_seconds({}, 512, 4096), 0);
}

TEST(Predict, AttentionReadsWhatIsCachedAndMultipliesWhatIsAttended) {
  Program program;
  const ValueId q = add_value(program, 32 * 64);
  const ValueId out = add_value(program, 32 * 64);
  program.kv_layers.push_back({4, 64, 64, ElementType::f16, ElementType::q8_0, 32});
  device::Attention attention;
  attention.q = q;
  attention.out = out;
  attention.n_heads = 32;
  program.ops.push_back(attention);
  const double position = 4 * (64 * 2 + 64 / 32 * 34.0);
  const double operations = 2.0 * 32 * 128;  // scores and sums, of one query at one position
  EXPECT_DOUBLE_EQ(program_seconds(program, made_up(), appended(2047, 1, 1)),
                   1e-6 + 2048 * position / 4e9);
  // Eight sequences, one token each.
  EXPECT_DOUBLE_EQ(program_seconds(program, made_up(), {8, 8, 800, 800}),
                   1e-6 + 800 * position / 4e9);
  // 512 tokens after 1000: the first sees 1001 positions, the last 1512; reading serves one.
  const double attended = 512 * 1000.0 + 512 * 513 / 2.0;
  EXPECT_DOUBLE_EQ(program_seconds(program, made_up(), appended(1000, 512, 0)),
                   1e-6 + 1512 * position / 4e9 + (attended - 1512) * operations / 40e9);
  // A window bounds both.
  std::get<device::Attention>(program.ops[0]).window = 256;
  EXPECT_DOUBLE_EQ(program_seconds(program, made_up(), appended(2047, 1, 1)),
                   1e-6 + 256 * position / 4e9);
  EXPECT_DOUBLE_EQ(program_seconds(program, made_up(), appended(100000, 512, 0)),
                   1e-6 + 768 * position / 4e9 + (512 * 256 - 768) * operations / 40e9);
}

TEST(Predict, ExpertsCountAsFarAsTheyAreReached) {
  Program program;
  const ValueId in = add_value(program, 256);
  const ValueId ids = add_value(program, 2);
  const ValueId weights = add_value(program, 2);
  const ValueId hidden = add_value(program, 2 * 64);
  const ValueId out = add_value(program, 256);
  program.weights.push_back({"gate", ElementType::q8_0, {256, 64, 8}});
  program.weights.push_back({"up", ElementType::q8_0, {256, 64, 8}});
  program.weights.push_back({"down", ElementType::q8_0, {64, 256, 8}});
  device::Experts experts{in, ids, weights, hidden, out, 0, 1, 2};
  experts.n_experts = 8;
  experts.n_used = 2;
  experts.n_ff = 64;
  program.ops.push_back(experts);
  const double expert = 3 * 256 * 64 / 32 * 34.0;  // bytes of one
  const double pair = 3 * 2.0 * 256 * 64;
  const auto seconds = [&](double n) { return program_seconds(program, made_up(), {n, 0, n, n}); };
  EXPECT_NEAR(seconds(1), 1e-6 + 2 * expert / 10e9, 1e-15);
  const double reached = 8 * (1 - std::pow(0.75, 16));
  EXPECT_NEAR(seconds(16), 1e-6 + reached * expert / 10e9 + (32 - reached) * pair / 200e9, 1e-15);

  // A part of the experts does its share of the work.
  for (device::WeightSpec& weight : program.weights) weight.dims[2] = 2;
  EXPECT_NEAR(seconds(16) - 1e-6, (reached * expert / 10e9 + (32 - reached) * pair / 200e9) / 4,
              1e-15);
}

TEST(Predict, TheRestReadsAndWritesActivations) {
  Program program;
  const ValueId x = add_value(program, 256);
  const ValueId y = add_value(program, 256);
  const ValueId sum = add_value(program, 256);
  program.weights.push_back({"table", ElementType::q8_0, {256, 1000, 1}});
  program.ops.push_back(device::Embed{0, x});
  EXPECT_DOUBLE_EQ(program_seconds(program, made_up(), {10, 0, 10, 10}),
                   1e-6 + 10 * (256 / 32 * 34 + 1024.0) / 20e9);
  program.ops = {device::Add{x, y, sum}};
  EXPECT_DOUBLE_EQ(program_seconds(program, made_up(), {10, 0, 10, 10}),
                   1e-6 + 10 * 3 * 1024.0 / 20e9);
}

TEST(Predict, ACopyHasABeginningAndALength) {
  EXPECT_DOUBLE_EQ(copy_seconds(made_up(), 512, 4096), 3e-6 + 512 * 4096 * 4 / 8e9);
}

// Where bytes alone take the time, a model's time is its bytes by the formula of the ideal.
TEST(Predict, AModelsBytesAreThoseOfTheIdeal) {
  const model::ModelSpec spec =
      model::read_spec(model::open_synthetic(std::make_shared<const model::SyntheticModel>(
          model::find_shape("moe-1.8b"), model::find_mixture("q4_k_m"))));
  Profile profile;
  profile.other_linear = {1e9, 1e30};
  profile.attention = {1e9, 1e30};
  profile.element_bytes_per_second = 1e30;
  model::LowerOptions options;
  options.embeds = true;
  options.end_half = static_cast<uint32_t>(2 * spec.blocks.size());
  const StepWork work = appended(3000, 16, 16);
  const double seconds = program_seconds(model::lower_stage(spec, options).program, profile, work) +
                         program_seconds(model::lower_head(spec).program, profile, work);
  const StepCost cost = cost_of(spec, ElementType::f16, ElementType::f16, work);
  // All but the norms and rows of the embedding.
  EXPECT_NEAR(seconds * 1e9, cost.weight_bytes + cost.kv_bytes, 3e-3 * cost.weight_bytes);
  EXPECT_LE(seconds * 1e9, cost.weight_bytes + cost.kv_bytes);
}

}  // namespace
}  // namespace strata::plan
