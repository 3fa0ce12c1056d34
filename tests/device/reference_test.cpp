// The reference ops themselves, against values computed by hand or from other formulas.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstring>
#include <limits>

#include "device/op_case.h"
#include "tensor/types.h"

namespace strata::test {
namespace {

using namespace device;

std::vector<float> floats(const Outcome& outcome, ValueId id) {
  std::vector<float> out;
  for (const uint32_t word : outcome.values[id]) out.push_back(as_float(word));
  return out;
}

std::vector<int32_t> ids(const Outcome& outcome, ValueId id) {
  return {outcome.values[id].begin(), outcome.values[id].end()};
}

std::vector<std::byte> as_bytes(const std::vector<float>& values) {
  std::vector<std::byte> out(values.size() * 4);
  quantize(ElementType::f32, values.data(), out.data(), values.size());
  return out;
}

TEST(Reference, LinearByHand) {
  CaseBuilder builder("linear", 2);
  Linear op;
  op.in = builder.input(3, {1, 2, 3, -1, 0, 0.5f});
  op.weight = builder.weight(ElementType::f32, {3, 2, 1}, as_bytes({1, 0, -1, 2, 2, 2}));
  op.bias = builder.weight_f32({10, 20});
  op.out = builder.output(2);
  const OpCase c = builder.build(op);
  EXPECT_EQ(floats(run_reference(c), op.out), (std::vector<float>{8, 32, 8.5f, 19}));
}

TEST(Reference, LinearReadsBlocksInFileLayout) {
  // Q8_0: scale 0.5 (half 0x3800), quants 1, 2, ... 32; times ones: 0.5 * 528.
  std::vector<std::byte> block(34);
  block[1] = std::byte{0x38};
  for (size_t i = 0; i < 32; ++i) block[2 + i] = static_cast<std::byte>(i + 1);
  CaseBuilder builder("linear", 1);
  Linear op;
  op.in = builder.input(32, std::vector<float>(32, 1.0f));
  op.weight = builder.weight(ElementType::q8_0, {32, 1, 1}, block);
  op.out = builder.output(1);
  const OpCase c = builder.build(op);
  EXPECT_EQ(floats(run_reference(c), op.out), std::vector<float>{264});
}

TEST(Reference, EmbedTakesRowsById) {
  CaseBuilder builder("embed", 3);
  builder.batch().tokens = {2, 0, 2};
  Embed op;
  op.weight = builder.weight(ElementType::f32, {2, 3, 1}, as_bytes({1, 2, 3, 4, 5, 6}));
  op.out = builder.output(2);
  const OpCase c = builder.build(op);
  EXPECT_EQ(floats(run_reference(c), op.out), (std::vector<float>{5, 6, 1, 2, 5, 6}));
}

TEST(Reference, RmsNormByHand) {
  // Groups (3, 4) and (0, 0): mean squares 12.5 and 0.
  CaseBuilder builder("rms_norm", 1);
  RmsNorm op;
  op.group = 2;
  op.eps = 0.25f;
  op.in = builder.input(4, {3, 4, 0, 0});
  op.weight = builder.weight_f32({1, 10});
  op.out = builder.output(4);
  const OpCase c = builder.build(op);
  const auto out = floats(run_reference(c), op.out);
  EXPECT_FLOAT_EQ(out[0], 3 / std::sqrt(12.75f));
  EXPECT_FLOAT_EQ(out[1], 40 / std::sqrt(12.75f));
  EXPECT_EQ(out[2], 0);
  EXPECT_EQ(out[3], 0);
}

TEST(Reference, RopeTableOfLlama) {
  CaseBuilder builder("rope_table", 2);
  builder.batch().positions = {1, 7};
  RopeTable op;
  op.inverse_frequencies = std::make_shared<std::vector<double>>(std::vector<double>{1, 0.01});
  op.magnitude = 2;
  op.factors = builder.weight_f32({1, 4});
  op.out = builder.output(4);
  const OpCase c = builder.build(op);
  const auto out = floats(run_reference(c), op.out);
  EXPECT_FLOAT_EQ(out[0], static_cast<float>(2 * std::cos(1.0)));
  EXPECT_FLOAT_EQ(out[1], static_cast<float>(2 * std::sin(1.0)));
  EXPECT_FLOAT_EQ(out[2], static_cast<float>(2 * std::cos(0.0025)));
  EXPECT_FLOAT_EQ(out[5], static_cast<float>(2 * std::sin(7.0)));
  EXPECT_FLOAT_EQ(out[7], static_cast<float>(2 * std::sin(0.0175)));
}

// Rotation is multiplication of complex numbers.
TEST(Reference, RopeIsComplexMultiplication) {
  Random random(1);
  for (const RopeStyle style : {RopeStyle::norm, RopeStyle::neox}) {
    constexpr uint32_t n_heads = 2, dim = 10, n_rot = 6;
    CaseBuilder builder("rope", 1);
    const auto x = random.normals(n_heads * dim);
    std::vector<float> table;
    for (uint32_t i = 0; i < n_rot / 2; ++i) {
      table.push_back(static_cast<float>(std::cos(0.3 * (i + 1))));
      table.push_back(static_cast<float>(std::sin(0.3 * (i + 1))));
    }
    Rope op;
    op.style = style;
    op.n_heads = n_heads;
    op.head_dim = dim;
    op.n_rot = n_rot;
    op.x = builder.input(n_heads * dim, x);
    op.table = builder.input(n_rot, table);
    const OpCase c = builder.build(op);
    const auto out = floats(run_reference(c), op.x);
    for (uint32_t h = 0; h < n_heads; ++h) {
      for (uint32_t i = 0; i < n_rot / 2; ++i) {
        const uint32_t a = h * dim + (style == RopeStyle::norm ? 2 * i : i);
        const uint32_t b = style == RopeStyle::norm ? a + 1 : a + n_rot / 2;
        const std::complex<double> turned =
            std::complex<double>(x[a], x[b]) * std::polar(1.0, 0.3 * (i + 1));
        EXPECT_NEAR(out[a], turned.real(), 1e-6);
        EXPECT_NEAR(out[b], turned.imag(), 1e-6);
      }
      for (uint32_t d = n_rot; d < dim; ++d) EXPECT_EQ(out[h * dim + d], x[h * dim + d]);
    }
  }
}

// What rope is for: scores depend on the distance only.
TEST(Reference, RotatedScoresDependOnDistanceOnly) {
  const auto score = [](double query_angle, double key_angle) {
    std::vector<float> rotated;
    for (const double angle : {query_angle, key_angle}) {
      CaseBuilder builder("rope", 1);
      Rope op;
      op.n_heads = 1;
      op.head_dim = op.n_rot = 2;
      op.x = builder.input(
          2, angle == query_angle ? std::vector<float>{1, 2} : std::vector<float>{0.5f, -3});
      op.table = builder.input(
          2, {static_cast<float>(std::cos(angle)), static_cast<float>(std::sin(angle))});
      const OpCase c = builder.build(op);
      for (const float x : floats(run_reference(c), op.x)) rotated.push_back(x);
    }
    return rotated[0] * rotated[2] + rotated[1] * rotated[3];
  };
  EXPECT_NEAR(score(5.0, 3.5), score(9.25, 7.75), 1e-5);
}

TEST(Reference, GateAtKnownPoints) {
  // SiLU(1) = 1 / (1 + 1/e); GELU's tanh form at 1, -1, 3 as published with the definition.
  for (const auto& [activation, x, want] : {std::tuple{Activation::silu, 1.0f, 0.7310585786},
                                            {Activation::silu, 0.0f, 0.0},
                                            {Activation::silu, -2.0f, -0.2384058440},
                                            {Activation::gelu_tanh, 1.0f, 0.8411919906},
                                            {Activation::gelu_tanh, -1.0f, -0.1588080094},
                                            {Activation::gelu_tanh, 3.0f, 2.9963627553}}) {
    CaseBuilder builder("gate", 1);
    Gate op;
    op.activation = activation;
    op.gate = builder.input(1, {x});
    op.up = builder.input(1, {10});
    op.out = builder.output(1);
    const OpCase c = builder.build(op);
    EXPECT_NEAR(floats(run_reference(c), op.out)[0], 10 * want, 2e-6) << x;
  }
}

TEST(Reference, AddAndGather) {
  CaseBuilder builder("add", 1);
  Add op;
  op.a = builder.input(2, {1, 2});
  op.b = builder.input(2, {10, -2});
  op.out = builder.output(2);
  const OpCase c = builder.build(op);
  EXPECT_EQ(floats(run_reference(c), op.out), (std::vector<float>{11, 0}));

  CaseBuilder other("gather", 3);
  other.batch().output_rows = {0, 2};
  Gather gather;
  gather.in = other.input(2, {1, 2, 3, 4, 5, 6});
  gather.out = other.output(2, Rows::outputs);
  const OpCase d = other.build(gather);
  EXPECT_EQ(floats(run_reference(d), gather.out), (std::vector<float>{1, 2, 5, 6}));
}

struct Routed {
  std::vector<int32_t> ids;
  std::vector<float> weights;
};

Routed route(Route op, const std::vector<float>& logits, const std::vector<float>& bias = {}) {
  CaseBuilder builder("route", 1);
  op.n_experts = static_cast<uint32_t>(logits.size());
  op.logits = builder.input(op.n_experts, logits);
  op.ids = builder.output(op.n_used);
  op.weights = builder.output(op.n_used);
  if (!bias.empty()) op.selection_bias = builder.weight_f32(bias);
  const OpCase c = builder.build(op);
  const Outcome outcome = run_reference(c);
  // The CPU's choice must be the same; the cases here hold ties and what is not a number.
  for (const cpu::Isa isa : available_isas()) {
    EXPECT_EQ(ids(run_cpu(c, isa), op.ids), ids(outcome, op.ids));
  }
  return {ids(outcome, op.ids), floats(outcome, op.weights)};
}

const float k_log2 = std::log(2.0f);

TEST(Reference, RouteSoftmaxByHand) {
  // Logits ln 1, ln 2, ln 4, ln 1: probabilities 1/8, 2/8, 4/8, 1/8.
  const Routed out = route({.n_used = 3, .scale = 2}, {0, k_log2, 2 * k_log2, 0});
  EXPECT_EQ(out.ids, (std::vector<int32_t>{2, 1, 0}));  // the tie goes to the lower id
  EXPECT_NEAR(out.weights[0], 1.0, 1e-6);
  EXPECT_NEAR(out.weights[1], 0.5, 1e-6);
  EXPECT_NEAR(out.weights[2], 0.25, 1e-6);
  const Routed renormalised = route({.n_used = 2, .renormalise = true}, {0, k_log2, 2 * k_log2, 0});
  EXPECT_NEAR(renormalised.weights[0], 2.0 / 3, 1e-6);
  EXPECT_NEAR(renormalised.weights[1], 1.0 / 3, 1e-6);
}

TEST(Reference, RouteSigmoidWithBias) {
  // Sigmoids 1/2, 2/3, 4/5; the bias lifts expert 0 to the front, its weight stays 1/2.
  const Routed out =
      route({.n_used = 2, .gating = Gating::sigmoid}, {0, k_log2, 2 * k_log2}, {1, 0, 0});
  EXPECT_EQ(out.ids, (std::vector<int32_t>{0, 2}));
  EXPECT_NEAR(out.weights[0], 0.5, 1e-6);
  EXPECT_NEAR(out.weights[1], 0.8, 1e-6);
}

TEST(Reference, RouteSoftmaxOverTheChosen) {
  const Routed out =
      route({.n_used = 2, .gating = Gating::softmax_selected}, {0, k_log2, 3 * k_log2, 0});
  EXPECT_EQ(out.ids, (std::vector<int32_t>{2, 1}));
  EXPECT_NEAR(out.weights[0], 0.8, 1e-6);
  EXPECT_NEAR(out.weights[1], 0.2, 1e-6);
}

TEST(Reference, RouteDividesByNoLessThanTheSmallestHalf) {
  // Sigmoids of about 2^-20 each: the sum is below 2^-14, which takes its place.
  const Routed out = route({.n_used = 2, .gating = Gating::sigmoid, .renormalise = true},
                           {-20 * k_log2, -20 * k_log2, -30});
  EXPECT_NEAR(out.weights[0], 0x1p-6, 1e-7);
}

TEST(Reference, RouteRanksWhatIsNotANumberLast) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Routed out = route({.n_used = 3, .gating = Gating::sigmoid}, {nan, -5, nan, 3});
  EXPECT_EQ(out.ids, (std::vector<int32_t>{3, 1, 0}));
  EXPECT_TRUE(std::isnan(out.weights[2]));
  // Nothing but NaN: ids are still distinct and in range.
  EXPECT_EQ(route({.n_used = 2}, {nan, nan, nan}).ids, (std::vector<int32_t>{0, 1}));
}

TEST(Reference, ExpertsByHand) {
  // Width 2, hidden width 1, three experts; token (1, 2) takes experts 2 and 0.
  CaseBuilder builder("experts", 1);
  Experts op;
  op.n_experts = 3;
  op.n_used = 2;
  op.n_ff = 1;
  op.in = builder.input(2, {1, 2});
  op.ids = builder.input_ids(2, {2, 0});
  op.weights = builder.input(2, {0.25f, 0.75f});
  op.hidden = builder.output(2);
  op.out = builder.output(2);
  op.gate = builder.weight(ElementType::f32, {2, 1, 3}, as_bytes({1, 0, 9, 9, 0, 1}));
  op.up = builder.weight(ElementType::f32, {2, 1, 3}, as_bytes({0, 1, 9, 9, 1, 1}));
  op.down = builder.weight(ElementType::f32, {1, 2, 3}, as_bytes({1, -1, 9, 9, 2, 4}));
  const OpCase c = builder.build(op);
  const auto silu = [](double x) { return x / (1 + std::exp(-x)); };
  const double first = silu(1) * 2;   // expert 0: gate 1, up 2
  const double second = silu(2) * 3;  // expert 2: gate 2, up 3
  const auto out = floats(run_reference(c), op.out);
  EXPECT_NEAR(out[0], 0.75 * first + 0.25 * 2 * second, 1e-6);
  EXPECT_NEAR(out[1], -0.75 * first + 0.25 * 4 * second, 1e-6);
}

// A cache of one layer with one head of size 1 per kv head, keys and values given by position.
struct TinyAttention {
  CaseBuilder builder;
  Attention op;
  OpCase made;

  TinyAttention(const std::vector<float>& k, const std::vector<float>& v,
                const std::vector<float>& q, uint32_t n_heads = 1)
      : builder("attention", static_cast<uint32_t>(q.size() / n_heads)) {
    Random random(1);
    KvLayer layer;
    layer.n_kv_heads = 1;
    layer.head_dim_k = layer.head_dim_v = 1;
    layer.type_k = layer.type_v = ElementType::f32;
    layer.block_tokens = 2;
    op.layer = builder.kv_layer(layer, 3, random);
    builder.batch().block_tables[0] = {2, 0};  // logical block 0 lies in block 2
    op.n_heads = n_heads;
    op.scale = 1;
    op.q = builder.input(n_heads, q);
    op.out = builder.output(n_heads);
    cells_k = k;
    cells_v = v;
  }
  std::vector<float> cells_k, cells_v;

  std::vector<float> run() {
    OpCase c = builder.build(op);
    for (size_t p = 0; p < cells_k.size(); ++p) {
      const size_t block = p < 2 ? 2 : 0;
      std::byte* at = c.kv[0].data() + block * 16 + p % 2 * 4;
      std::memcpy(at, &cells_k[p], 4);
      std::memcpy(at + 8, &cells_v[p], 4);
    }
    made = c;
    return floats(run_reference(c), op.out);
  }
};

TEST(Reference, AttentionOfTwoTokensByHand) {
  // Keys 0 and ln 2, values 3 and 9. The first token sees itself only; the second weighs 1 : 2.
  TinyAttention attention({0, k_log2}, {3, 9}, {5, 1});
  const auto out = attention.run();
  EXPECT_FLOAT_EQ(out[0], 3);
  EXPECT_NEAR(out[1], (3 + 2 * 9) / 3.0, 1e-6);
}

TEST(Reference, AttentionScaleCapWindowAndSinks) {
  {
    TinyAttention attention({0, k_log2}, {3, 9}, {0, 1});
    attention.op.scale = 2;  // 1 : 4
    EXPECT_NEAR(attention.run()[1], (3 + 4 * 9) / 5.0, 1e-6);
  }
  {
    TinyAttention attention({0, 1000}, {3, 9}, {0, 1});
    attention.op.softcap = k_log2;  // the score is capped at ln 2: 1 : 2
    EXPECT_NEAR(attention.run()[1], (3 + 2 * 9) / 3.0, 1e-6);
  }
  {
    TinyAttention attention({0, 0, 0, 0}, {1, 2, 4, 8}, {0, 0, 0, 0});
    attention.op.window = 2;
    EXPECT_EQ(attention.run(), (std::vector<float>{1, 1.5f, 3, 6}));
  }
  {
    // Two equal scores of 0 and a sink of ln 2: the denominator is 2 + 2.
    TinyAttention attention({0, 0}, {3, 9}, {0, 0});
    attention.op.sinks = attention.builder.weight_f32({k_log2});
    EXPECT_NEAR(attention.run()[1], 12 / 4.0, 1e-6);
  }
}

TEST(Reference, AttentionHeadsOfAGroupShareKeys) {
  // Two query heads of one kv head; the first has zero scores everywhere (the mean), the second
  // prefers the second key by far.
  TinyAttention attention({0, 1}, {3, 9}, {0, 0, 0, 200}, 2);
  const auto out = attention.run();
  EXPECT_FLOAT_EQ(out[2], 6);
  EXPECT_FLOAT_EQ(out[3], 9);
}

TEST(Reference, StoreKvThenAttentionReadsItBack) {
  // Token at position 3 of a sequence in blocks (1, 2) of two positions: row 1 of block 2.
  Random random(3);
  CaseBuilder builder("store_kv", 1);
  KvLayer layer;
  layer.n_kv_heads = 2;
  layer.head_dim_k = 3;
  layer.head_dim_v = 2;
  layer.type_k = ElementType::f32;
  layer.type_v = ElementType::f16;
  layer.block_tokens = 2;
  StoreKv op;
  op.layer = builder.kv_layer(layer, 3, random);
  builder.batch().positions = {3};
  builder.batch().block_tables[0] = {1, 2};
  op.k = builder.input(6, {1, 2, 3, 4, 5, 6});
  op.v = builder.input(4, {0.5f, 1, 2, 4});
  const OpCase c = builder.build(op);
  const Outcome out = run_reference(c);
  // Per block: keys 2 heads x 2 rows x 12 bytes, then values 2 x 2 x 4 bytes: 64 bytes.
  EXPECT_EQ(layer.block_bytes(), 64u);
  const auto at = [&](size_t offset, auto& to) {
    std::memcpy(&to, out.kv[0].data() + 2 * 64 + offset, sizeof to);
  };
  float k[3];
  at(12, k);  // head 0, row 1
  EXPECT_EQ(k[0], 1);
  EXPECT_EQ(k[2], 3);
  at(36, k);  // head 1, row 1
  EXPECT_EQ(k[0], 4);
  uint16_t v[2];
  at(48 + 4, v);  // head 0, row 1: halves of 0.5 and 1
  EXPECT_EQ(v[0], 0x3800);
  EXPECT_EQ(v[1], 0x3C00);
  at(48 + 12, v);  // head 1, row 1: halves of 2 and 4
  EXPECT_EQ(v[0], 0x4000);
  EXPECT_EQ(v[1], 0x4400);
  // Nothing else was touched.
  size_t changed = 0;
  for (size_t i = 0; i < out.kv[0].size(); ++i) changed += out.kv[0][i] != c.kv[0][i] ? 1 : 0;
  EXPECT_LE(changed, 2u * 12 + 2 * 4);
}

}  // namespace
}  // namespace strata::test
