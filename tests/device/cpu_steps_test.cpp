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

std::vector<LinearStep> linear_steps(const OpCase& c) {
  std::vector<LinearStep> out;
  for (const cpu::Step& step : compile_case(c).steps) {
    if (const auto* linear = std::get_if<LinearStep>(&step)) out.push_back(*linear);
  }
  return out;
}

TEST(CpuSteps, WhatBelongsTogetherIsOneStep) {
  const Block b = block(3, ElementType::q8_0, false);
  const cpu::Compiled compiled = compile_case(b.c);
  const auto steps = linear_steps(b.c);
  ASSERT_EQ(compiled.steps.size(), 4u);
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_TRUE(steps[0].input.norm.has_value());
  EXPECT_EQ(steps[0].outputs.size(), 3u);
  EXPECT_FALSE(steps[0].input.keep);
  EXPECT_EQ(steps[1].outputs[0].out, b.sum);
  EXPECT_NE(steps[1].outputs[0].residual, k_none);
  const auto* gated = std::get_if<cpu::GatedStep>(&compiled.steps[2]);
  ASSERT_NE(gated, nullptr);
  EXPECT_EQ(gated->input.in, b.sum);
  EXPECT_TRUE(steps[2].input.ready);
  EXPECT_EQ(steps[2].input.tiles, gated->hidden);
  EXPECT_EQ(steps[2].outputs[0].out, b.out);
  EXPECT_EQ(steps[2].outputs[0].residual, b.sum);
}

TEST(CpuSteps, ValuesThatOthersReadAreKept) {
  const Block b = block(3, ElementType::q8_0, true);
  EXPECT_TRUE(linear_steps(b.c)[0].input.keep);
}

TEST(CpuSteps, PlainWeightsAreNotFused) {
  EXPECT_TRUE(linear_steps(block(2, ElementType::f16, false).c).empty());
}

// An addition is left alone when its result is an operand's place, or the sum is read elsewhere.
TEST(CpuSteps, AdditionsThatWouldReadTheirResultStayApart) {
  Block b = block(2, ElementType::q8_0, false);
  for (Op& op : b.c.program.ops) {
    if (auto* add = std::get_if<Add>(&op); add != nullptr && add->out == b.out) {
      add->out = add->b;
    }
  }
  EXPECT_EQ(linear_steps(b.c).back().outputs[0].residual, k_none);
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

// A gated feed-forward in all its forms.
struct GatedForm {
  uint32_t n_tokens = 3;
  uint32_t width = 64;
  uint32_t n_ff = 96;
  ElementType type = ElementType::q8_0;
  ElementType down = ElementType::q8_0;
  Activation activation = Activation::silu;
  bool norm = true;
  bool biases = false;
  bool up_first = false;
  bool residual = true;
  enum class Place { gate, up, apart } place = Place::gate;                // of what is gated
  enum class Reader { none, normed, gate, hidden } reader = Reader::none;  // one more
};

struct Gated {
  OpCase c;
  ValueId out;
};

Gated gated(const GatedForm& form) {
  Random random(9);
  CaseBuilder builder("gated", form.n_tokens);
  const auto matrix = [&](ElementType type, uint32_t n_in, uint32_t n_out) {
    return builder.weight(type, {n_in, n_out, 1},
                          random_weight(random, type, uint64_t{n_in} * n_out));
  };
  const auto bias = [&](uint32_t n) {
    return form.biases ? builder.weight_f32(random.normals(n)) : k_none;
  };
  const ValueId x = builder.input(form.width, random.normals(uint64_t{form.n_tokens} * form.width));
  const WeightId norm = builder.weight_f32(random.normals(form.width));
  std::vector<Op> ops;
  ValueId in = x;
  if (form.norm) {
    in = builder.output(form.width);
    ops.push_back(RmsNorm{x, norm, in, form.width, 1e-5f});
  }
  const ValueId gate = builder.output(form.n_ff), up = builder.output(form.n_ff);
  const Linear first{in, matrix(form.type, form.width, form.n_ff), bias(form.n_ff), gate};
  const Linear second{in, matrix(form.type, form.width, form.n_ff), bias(form.n_ff), up};
  ops.push_back(form.up_first ? second : first);
  ops.push_back(form.up_first ? first : second);
  ValueId hidden = form.place == GatedForm::Place::up ? up : gate;
  if (form.place == GatedForm::Place::apart) hidden = builder.output(form.n_ff);
  ops.push_back(Gate{gate, up, hidden, form.activation});
  const ValueId down = builder.output(form.width);
  ops.push_back(Linear{hidden, matrix(form.down, form.n_ff, form.width), bias(form.width), down});
  Gated g;
  g.out = down;
  if (form.residual) {
    g.out = builder.output(form.width);
    ops.push_back(Add{x, down, g.out});
  }
  if (form.reader == GatedForm::Reader::normed) {
    ops.push_back(Add{in, x, builder.output(form.width)});
  } else if (form.reader != GatedForm::Reader::none) {
    const ValueId read = form.reader == GatedForm::Reader::gate ? gate : hidden;
    ops.push_back(Add{read, read, builder.output(form.n_ff)});
  }
  builder.expect(g.out);
  g.c = builder.build(ops.front());
  g.c.program.ops = ops;
  return g;
}

bool has_gated_step(const OpCase& c) {
  for (const cpu::Step& step : compile_case(c).steps) {
    if (std::holds_alternative<cpu::GatedStep>(step)) return true;
  }
  return false;
}

void expect_same_bits(const GatedForm& form, std::initializer_list<uint32_t> ranks,
                      const std::string& what) {
  const Gated g = gated(form);
  for (const cpu::Isa isa : available_isas()) {
    const Outcome apart = run_cpu(g.c, isa, 1, false);
    for (const uint32_t n_ranks : ranks) {
      const Outcome fused = run_cpu(g.c, isa, n_ranks);
      ASSERT_EQ(fused.overrun, "") << what;
      ASSERT_EQ(fused.values[g.out], apart.values[g.out])
          << what << ", " << cpu::name_of(isa) << ", " << n_ranks << " ranks";
      // What others read is there, whatever was fused.
      const ValueId last = static_cast<ValueId>(g.c.values.size() - 1);
      if (form.reader != GatedForm::Reader::none) {
        ASSERT_EQ(fused.values[last], apart.values[last]) << what;
      }
    }
  }
}

TEST(CpuSteps, GatedFeedForwardOfEverySizeIsTheSame) {
  for (const uint32_t n_ff : {32u, 96u, 1056u}) {
    for (const uint32_t n_tokens : {1u, 2u, 5u, 8u, 9u, 33u, 48u, 65u}) {
      GatedForm form;
      form.n_ff = n_ff;
      form.n_tokens = n_tokens;
      EXPECT_TRUE(has_gated_step(gated(form).c));
      expect_same_bits(form, {1, 2, 3, 4},
                       std::to_string(n_ff) + " columns, " + std::to_string(n_tokens) + " tokens");
    }
  }
  // More tokens than are held at a time.
  for (const uint32_t n_tokens : {512u, 513u, 600u}) {
    GatedForm form;
    form.n_tokens = n_tokens;
    form.n_ff = 160;
    expect_same_bits(form, {1, 2}, std::to_string(n_tokens) + " tokens");
  }
}

TEST(CpuSteps, GatedFeedForwardOfEveryFormIsTheSame) {
  using Place = GatedForm::Place;
  for (const bool biases : {false, true}) {
    for (const bool norm : {false, true}) {
      for (const Place place : {Place::gate, Place::up, Place::apart}) {
        for (const Activation activation : {Activation::silu, Activation::gelu_tanh}) {
          GatedForm form;
          form.n_tokens = 19;
          form.biases = biases;
          form.norm = norm;
          form.place = place;
          form.activation = activation;
          form.up_first = norm == biases;
          form.residual = biases;
          EXPECT_TRUE(has_gated_step(gated(form).c));
          expect_same_bits(form, {1, 3}, "form");
        }
      }
    }
  }
  for (const ElementType type : {ElementType::q4_k, ElementType::q6_k, ElementType::q5_1}) {
    for (const uint32_t n_tokens : {1u, 7u, 50u}) {
      GatedForm form;
      form.type = type;
      form.down = ElementType::q6_k;
      form.width = 256;
      form.n_ff = 512;
      form.n_tokens = n_tokens;
      EXPECT_TRUE(has_gated_step(gated(form).c));
      expect_same_bits(form, {1, 2}, "types");
    }
  }
}

// What others read too is stored, so the steps are others; the numbers are not.
TEST(CpuSteps, WhatOthersReadIsNotPassedOnOnly) {
  using Reader = GatedForm::Reader;
  GatedForm form;
  form.place = GatedForm::Place::apart;
  for (const Reader reader : {Reader::normed, Reader::gate, Reader::hidden}) {
    form.reader = reader;
    EXPECT_EQ(has_gated_step(gated(form).c), reader == Reader::normed);
    expect_same_bits(form, {1, 2}, "another reader");
  }
  form.reader = Reader::none;
  form.down = ElementType::f16;  // multiplied in F32
  EXPECT_FALSE(has_gated_step(gated(form).c));
  expect_same_bits(form, {1, 2}, "plain down");
  form.down = ElementType::q8_0;
  form.type = ElementType::bf16;
  EXPECT_FALSE(has_gated_step(gated(form).c));
  expect_same_bits(form, {1, 2}, "plain gate and up");
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
