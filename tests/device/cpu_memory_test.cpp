// Memory that a run of the CPU device takes: values share the arena without harming each other, and
// nothing is stored that only passes from one step to the next.
#include <gtest/gtest.h>

#include <memory>

#include "device/op_case.h"
#include "device/registry.h"

namespace strata::test {
namespace {

using namespace device;

// Layers of random widths with everything that is fused, some values read once more.
struct Layers {
  OpCase c;
  ValueId out;
};

Layers layers(uint32_t seed, uint32_t n_tokens) {
  Random random(seed);
  CaseBuilder builder("layers", n_tokens);
  std::vector<Op> ops;
  const auto matrix = [&](uint32_t n_in, uint32_t n_out) {
    const ElementType type = random.below(8) == 0 ? ElementType::f16 : ElementType::q8_0;
    return builder.weight(type, {n_in, n_out, 1},
                          random_weight(random, type, uint64_t{n_in} * n_out));
  };
  const auto linear = [&](ValueId in, uint32_t n_in, uint32_t n_out) {
    const ValueId out = builder.output(n_out);
    const WeightId bias = random.below(2) == 0 ? k_none : builder.weight_f32(random.normals(n_out));
    ops.push_back(Linear{in, matrix(n_in, n_out), bias, out});
    return out;
  };
  const auto add = [&](ValueId a, ValueId b, uint32_t n) {
    const ValueId out = builder.output(n);
    ops.push_back(Add{a, b, out});
    return out;
  };
  const uint32_t width = 32 * (1 + random.below(3));
  const auto norm = [&](ValueId in) {
    const ValueId out = builder.output(width);
    ops.push_back(RmsNorm{in, builder.weight_f32(random.normals(width)), out, width, 1e-5f});
    return out;
  };
  ValueId x = builder.input(width, random.normals(uint64_t{n_tokens} * width));
  for (int layer = 0; layer < 3; ++layer) {
    const uint32_t inner = 32 * (1 + random.below(4)), n_ff = 32 * (1 + random.below(6));
    const ValueId a = norm(x);
    const ValueId q = linear(a, width, inner), k = linear(a, width, inner);
    const ValueId mixed = add(q, k, inner);
    x = add(x, linear(mixed, inner, width), width);
    if (random.below(4) == 0) x = add(x, a, width);
    const ValueId f = norm(x);
    const ValueId gate = linear(f, width, n_ff), up = linear(f, width, n_ff);
    const ValueId hidden = random.below(2) == 0 ? gate : builder.output(n_ff);
    ops.push_back(Gate{gate, up, hidden, Activation::silu});
    const ValueId y = linear(hidden, n_ff, width);
    x = add(y, x, width);
    if (random.below(4) == 0) x = add(x, linear(up, n_ff, width), width);
    if (random.below(4) == 0) x = add(x, f, width);
  }
  Layers l;
  l.out = x;
  builder.expect(x);
  l.c = builder.build(ops.front());
  l.c.program.ops = ops;
  return l;
}

TEST(CpuMemory, ValuesInTheArenaDoNotHarmEachOther) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    for (const uint32_t n_tokens : {1u, 19u}) {
      const Layers l = layers(seed, n_tokens);
      const Outcome apart = run_cpu(l.c, cpu::best_isa(), 1, false);
      for (const bool fused : {false, true}) {
        const Outcome together = run_cpu(l.c, cpu::best_isa(), 2, fused, true);
        ASSERT_EQ(together.overrun, "") << seed;
        ASSERT_EQ(together.values[l.out], apart.values[l.out]) << "seed " << seed;
      }
    }
  }
}

// Two layers of a model with grouped attention, as lowering writes them.
struct Shape {
  uint32_t n_embd, n_heads, n_kv_heads, head_dim, n_ff;
};

Program program_of(const Shape& shape) {
  Program p;
  const auto value = [&](uint32_t width) {
    p.values.push_back({"v" + std::to_string(p.values.size()), width, Rows::tokens});
    return static_cast<ValueId>(p.values.size() - 1);
  };
  const auto weight = [&](ElementType type, uint64_t n_in, uint64_t n_out) {
    p.weights.push_back({"w" + std::to_string(p.weights.size()), type, {n_in, n_out, 1}});
    return static_cast<WeightId>(p.weights.size() - 1);
  };
  const auto linear = [&](ValueId in, uint32_t n_out) {
    const ValueId out = value(n_out);
    p.ops.push_back(Linear{in, weight(ElementType::q4_k, p.values[in].width, n_out), k_none, out});
    return out;
  };
  const auto norm = [&](ValueId in) {
    const ValueId out = value(shape.n_embd);
    p.ops.push_back(RmsNorm{in, weight(ElementType::f32, shape.n_embd, 1), out, shape.n_embd, 0});
    return out;
  };
  const uint32_t q_width = shape.n_heads * shape.head_dim;
  const uint32_t kv_width = shape.n_kv_heads * shape.head_dim;
  const ValueId table = value(shape.head_dim);
  p.ops.push_back(RopeTable{table, std::make_shared<std::vector<double>>(shape.head_dim / 2)});
  ValueId x = value(shape.n_embd);
  p.ops.push_back(Embed{weight(ElementType::q4_k, shape.n_embd, 1000), x});
  for (uint32_t layer = 0; layer < 2; ++layer) {
    const ValueId a = norm(x);
    const ValueId q = linear(a, q_width), k = linear(a, kv_width), v = linear(a, kv_width);
    p.ops.push_back(Rope{q, table, shape.n_heads, shape.head_dim, shape.head_dim});
    p.ops.push_back(Rope{k, table, shape.n_kv_heads, shape.head_dim, shape.head_dim});
    p.kv_layers.push_back({shape.n_kv_heads, shape.head_dim, shape.head_dim});
    p.ops.push_back(StoreKv{k, v, layer});
    const ValueId mixed = value(q_width);
    Attention attention;
    attention.q = q;
    attention.out = mixed;
    attention.layer = layer;
    attention.n_heads = shape.n_heads;
    attention.scale = 1;
    p.ops.push_back(attention);
    const ValueId y = linear(mixed, shape.n_embd);
    const ValueId sum = value(shape.n_embd);
    p.ops.push_back(Add{x, y, sum});
    const ValueId f = norm(sum);
    const ValueId gate = linear(f, shape.n_ff), up = linear(f, shape.n_ff);
    p.ops.push_back(Gate{gate, up, gate});
    const ValueId down = linear(gate, shape.n_embd);
    x = value(shape.n_embd);
    p.ops.push_back(Add{sum, down, x});
  }
  return p;
}

// Blocks of quantised activations take half the bytes of F32. Nothing beyond what a step reads and
// writes is there; the figures are stated for -ub 512.
TEST(CpuMemory, FiguresOfPublishedShapes) {
  struct Case {
    const char* name;
    Shape shape;
    double most_mib;  // values and working memory together
  };
  const auto device = open_device({"cpu", 1, 0});
  for (const Case& c : {Case{"llama-1b", {2048, 32, 4, 64, 5632}, 17},
                        Case{"llama-3.2-1b", {2048, 32, 8, 64, 8192}, 18},
                        Case{"llama-3-8b", {4096, 32, 8, 128, 14336}, 33},
                        Case{"llama-3.1-70b", {8192, 64, 8, 128, 28672}, 63}}) {
    const Shape& s = c.shape;
    const Program program = program_of(s);
    const uint64_t q = s.n_heads * s.head_dim, kv = s.n_kv_heads * s.head_dim;
    uint64_t words = 0;
    for (const uint64_t step : {
             s.n_embd + s.n_embd / 2 + q + 2 * kv,            // norm; q, k, v
             s.n_embd + 2 * q,                                // attention
             q + q / 2 + uint64_t{2} * s.n_embd,              // its output; addition
             uint64_t{s.n_embd} + s.n_embd / 2 + s.n_ff / 2,  // norm; gate, up
             uint64_t{2} * s.n_embd + s.n_ff / 2,             // down; addition
         }) {
      words = std::max(words, step + s.head_dim);  // and the table of rotations
    }
    const uint64_t activations = device->activation_bytes(program, 512, 0);
    const uint64_t scratch = device->scratch_bytes(program, 512, 0);
    EXPECT_EQ(activations, 512 * words * 4) << c.name;
    EXPECT_LE(static_cast<double>(activations + scratch), c.most_mib * 1048576) << c.name;
    RecordProperty(std::string(c.name) + "_activations", std::to_string(activations));
    RecordProperty(std::string(c.name) + "_scratch", std::to_string(scratch));
  }
}

}  // namespace
}  // namespace strata::test
