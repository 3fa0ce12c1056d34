// Steps of the CPU device: what is fused, and that fusion changes no bit.
#include <gtest/gtest.h>

#include <cmath>

#include "device/cpu/pack.h"
#include "device/cpu/steps.h"
#include "device/op_case.h"
#include "tensor/types.h"

namespace strata::test {
namespace {

using namespace device;
using cpu::LinearStep;

constexpr uint32_t k_width = 64;
constexpr uint32_t k_hidden = 96;

// norm -> q, k, v -> (an addition of the residual after one more linear), gate and up -> gated ->
// down -> addition: a block of a model without its attention.
struct Block {
  OpCase c;
  ValueId normed, hidden, sum, out;
};

Block block(uint32_t n_tokens, ElementType type, bool keep_norm) {
  Random random(5);
  CaseBuilder builder("block", n_tokens);
  const auto matrix = [&](uint32_t n_in, uint32_t n_out) {
    return builder.weight(type, {n_in, n_out, 1},
                          random_weight(random, type, uint64_t{n_in} * n_out));
  };
  Block b;
  const ValueId x = builder.input(k_width, random.normals(uint64_t{n_tokens} * k_width));
  b.normed = builder.output(k_width);
  const WeightId norm = builder.weight_f32(random.normals(k_width));
  RmsNorm first{x, norm, b.normed, k_width, 1e-5f};
  std::vector<Op> ops;
  std::vector<ValueId> three;
  for (const uint32_t n_out : {64u, 40u, 17u}) {
    three.push_back(builder.output(n_out));
    const WeightId bias = builder.weight_f32(random.normals(n_out));
    ops.push_back(Linear{b.normed, matrix(k_width, n_out), bias, three.back()});
  }
  const ValueId mixed = builder.output(k_width);
  b.sum = builder.output(k_width);
  ops.push_back(Linear{three[0], matrix(64, k_width), k_none, mixed});
  ops.push_back(Add{x, mixed, b.sum});
  if (keep_norm) {
    const ValueId other = builder.output(k_width);
    ops.push_back(Add{b.normed, x, other});
  }
  const ValueId gate = builder.output(k_hidden), up = builder.output(k_hidden);
  ops.push_back(Linear{b.sum, matrix(k_width, k_hidden), k_none, gate});
  ops.push_back(Linear{b.sum, matrix(k_width, k_hidden), k_none, up});
  b.hidden = gate;
  ops.push_back(Gate{gate, up, gate, Activation::silu});
  const ValueId down = builder.output(k_width);
  b.out = builder.output(k_width);
  ops.push_back(Linear{gate, matrix(k_hidden, k_width), k_none, down});
  ops.push_back(Add{down, b.sum, b.out});
  b.c = builder.build(first);
  b.c.program.ops.insert(b.c.program.ops.end(), ops.begin(), ops.end());
  return b;
}

std::vector<LinearStep> linear_steps(const Program& program) {
  std::vector<LinearStep> out;
  for (const cpu::Step& step : cpu::steps_of(program)) {
    if (const auto* linear = std::get_if<LinearStep>(&step)) out.push_back(*linear);
  }
  return out;
}

TEST(CpuSteps, WhatBelongsTogetherIsOneStep) {
  const Block b = block(3, ElementType::q8_0, false);
  const auto steps = linear_steps(b.c.program);
  EXPECT_EQ(cpu::steps_of(b.c.program).size(), 4u);
  ASSERT_EQ(steps.size(), 4u);
  EXPECT_TRUE(steps[0].norm.has_value());
  EXPECT_EQ(steps[0].outputs.size(), 3u);
  EXPECT_FALSE(steps[0].keep);
  EXPECT_EQ(steps[1].outputs[0].out, b.sum);
  EXPECT_NE(steps[1].outputs[0].residual, k_none);
  EXPECT_EQ(steps[2].outputs.size(), 2u);
  EXPECT_TRUE(steps[3].gate.has_value());
  EXPECT_EQ(steps[3].outputs[0].out, b.out);
  EXPECT_EQ(steps[3].outputs[0].residual, b.sum);
}

TEST(CpuSteps, ValuesThatOthersReadAreKept) {
  const Block b = block(3, ElementType::q8_0, true);
  EXPECT_TRUE(linear_steps(b.c.program)[0].keep);
}

TEST(CpuSteps, PlainWeightsAreNotFused) {
  EXPECT_TRUE(linear_steps(block(2, ElementType::f16, false).c.program).empty());
}

// An addition is left alone when its result is an operand's place, or the sum is read elsewhere.
TEST(CpuSteps, AdditionsThatWouldReadTheirResultStayApart) {
  Block b = block(2, ElementType::q8_0, false);
  for (Op& op : b.c.program.ops) {
    if (auto* add = std::get_if<Add>(&op); add != nullptr && add->out == b.out) {
      add->out = add->b;
    }
  }
  EXPECT_EQ(linear_steps(b.c.program).back().outputs[0].residual, k_none);
}

TEST(CpuSteps, FusionChangesNoBit) {
  for (const ElementType type : {ElementType::q8_0, ElementType::q4_0}) {
    for (const uint32_t n_tokens : {1u, 2u, 17u, 70u}) {
      for (const bool keep : {false, true}) {
        Block b = block(n_tokens, type, keep);
        for (const cpu::Isa isa : available_isas()) {
          const Outcome apart = run_cpu(b.c, isa, 1, false);
          for (const uint32_t n_ranks : {1u, 2u, 3u}) {
            const Outcome fused = run_cpu(b.c, isa, n_ranks);
            ASSERT_EQ(fused.overrun, "");
            ASSERT_EQ(fused.values[b.sum], apart.values[b.sum]) << cpu::name_of(isa);
            ASSERT_EQ(fused.values[b.out], apart.values[b.out]) << cpu::name_of(isa);
            if (keep) {
              ASSERT_EQ(fused.values[b.normed], apart.values[b.normed]);
            }
          }
        }
      }
    }
  }
}

// Pieces of a weight, stored one after another, make the same as the whole.
TEST(CpuPack, PiecesMakeTheWhole) {
  Random random(6);
  for (const ElementType type : supported_types()) {
    const WeightSpec spec{"w", type, {256, 50, 3}};
    const auto bytes = random_weight(random, type, 256 * spec.rows());
    std::vector<std::byte> whole(cpu::stored_bytes(spec)), pieces(whole.size());
    EXPECT_TRUE(cpu::store_all(spec, bytes.data(), whole.data()));
    const uint64_t row = row_bytes(type, 256);
    for (const RowRange range : {RowRange{0, 16}, RowRange{16, 32}, RowRange{48, 2},
                                 RowRange{50, 50}, RowRange{100, 48}, RowRange{148, 2}}) {
      const uint64_t items = cpu::store_items(spec, range);
      for (uint64_t i = 0; i < items; ++i) {
        EXPECT_TRUE(cpu::store_items(spec, range, bytes.data() + range.first * row, pieces.data(),
                                     i, i + 1));
      }
    }
    EXPECT_EQ(whole, pieces) << info(type).name;
    EXPECT_LE(whole.size(), spec.bytes() * 64 / 50 + 64);  // panels are filled up, nothing else
  }
}

TEST(CpuPack, ValuesThatAreNotFiniteAreNoticed) {
  Random random(7);
  for (const ElementType type : supported_types()) {
    const WeightSpec spec{"w", type, {256, 40, 1}};
    auto bytes = random_weight(random, type, 256 * 40);
    for (size_t i = 0; i < row_bytes(type, 256); ++i) bytes[bytes.size() - 1 - i] = std::byte{0xFF};
    std::vector<std::byte> out(cpu::stored_bytes(spec));
    EXPECT_FALSE(cpu::store_all(spec, bytes.data(), out.data())) << info(type).name;
  }
}

}  // namespace
}  // namespace strata::test
