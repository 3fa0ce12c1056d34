// Layers that the cache holds as integers: what is stored and attended to by one program, against
// the same program on an F32 cache, and against itself in other shapes of batch.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "device/cpu/ops/kv_integers.h"
#include "device/op_case.h"

namespace strata::test {
namespace {

using namespace device;

struct Form {
  ElementType type_k = ElementType::f16;
  ElementType type_v = ElementType::f16;
  uint32_t n_heads = 8;
  uint32_t n_kv_heads = 2;
  uint32_t dim_k = 64;
  uint32_t dim_v = 64;
  uint32_t block_tokens = 32;
  uint32_t n_tokens = 300;
  uint32_t n_sequences = 1;
  uint32_t window = 0;
  float softcap = 0;
  bool sinks = false;
};

const std::vector<Form>& forms() {
  static const std::vector<Form> list = {
      {},
      {.n_tokens = 1},
      {.n_tokens = 0},
      {.n_heads = 4, .n_kv_heads = 1, .dim_k = 128, .dim_v = 128, .n_tokens = 273},
      {.n_heads = 5, .n_kv_heads = 1, .dim_k = 96, .dim_v = 32, .block_tokens = 16, .n_tokens = 50},
      {.dim_k = 32, .dim_v = 256, .n_tokens = 33, .softcap = 20, .sinks = true},
      {.type_k = ElementType::bf16, .block_tokens = 64, .n_tokens = 600, .window = 100},
      {.type_v = ElementType::bf16, .n_heads = 37, .n_kv_heads = 1, .n_tokens = 40},
      {.n_tokens = 90, .n_sequences = 4, .window = 7},
  };
  return list;
}

struct Numbers {
  std::vector<float> q, k, v;
};

Numbers random_rows(const Form& form) {
  Random random(21);
  const auto rows = [&](uint64_t width) { return random.normals(form.n_tokens * width); };
  return {rows(uint64_t{form.n_heads} * form.dim_k), rows(uint64_t{form.n_kv_heads} * form.dim_k),
          rows(uint64_t{form.n_kv_heads} * form.dim_v)};
}

// Stores all tokens, then attends with them.
OpCase store_and_attend(const Form& form, const Numbers& rows, bool in_f32 = false) {
  Random random(22);
  CaseBuilder builder("tokens " + std::to_string(form.n_tokens) + " dims " +
                          std::to_string(form.dim_k) + "/" + std::to_string(form.dim_v) +
                          " window " + std::to_string(form.window),
                      form.n_tokens, form.n_sequences);
  const uint32_t of_each = form.n_tokens / form.block_tokens + 1;
  const auto blocks = random.permutation(of_each * form.n_sequences);
  for (uint32_t i = 0; i < blocks.size(); ++i) {
    builder.batch().block_tables[i / of_each].push_back(blocks[i]);
  }
  KvLayer layer;
  layer.n_kv_heads = form.n_kv_heads;
  layer.head_dim_k = form.dim_k;
  layer.head_dim_v = form.dim_v;
  layer.type_k = in_f32 ? ElementType::f32 : form.type_k;
  layer.type_v = in_f32 ? ElementType::f32 : form.type_v;
  layer.block_tokens = form.block_tokens;
  StoreKv store;
  store.layer = builder.kv_layer(layer, static_cast<uint32_t>(blocks.size()), random);
  store.k = builder.input(form.n_kv_heads * form.dim_k, rows.k);
  store.v = builder.input(form.n_kv_heads * form.dim_v, rows.v);
  Attention attention;
  attention.layer = store.layer;
  attention.n_heads = form.n_heads;
  attention.scale = 1.0f / std::sqrt(static_cast<float>(form.dim_k));
  attention.softcap = form.softcap;
  attention.window = form.window;
  attention.q = builder.input(form.n_heads * form.dim_k, rows.q);
  attention.out = builder.output(form.n_heads * form.dim_v);
  if (form.sinks) attention.sinks = builder.weight_f32(random.normals(form.n_heads));
  builder.expect(attention.out);
  OpCase c = builder.build(store);
  c.program.ops.push_back(attention);
  return c;
}

std::vector<float> result_of(const OpCase& c, const Outcome& outcome) {
  std::vector<float> out;
  for (const uint32_t word : outcome.values[c.outputs[0]]) out.push_back(as_float(word));
  return out;
}

// Sum of squares of what is off, in those of what is right.
double error_of(const std::vector<float>& got, const std::vector<float>& want) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double d = static_cast<double>(got[i]) - static_cast<double>(want[i]);
    error += d * d;
    norm += static_cast<double>(want[i]) * static_cast<double>(want[i]);
  }
  return norm > 0 ? error / norm : error;
}

bool has_integers(cpu::Isa isa) { return cpu::kernels(isa).tiles != nullptr; }

class KvIntegersTest : public testing::TestWithParam<cpu::Isa> {};

INSTANTIATE_TEST_SUITE_P(Isa, KvIntegersTest, testing::ValuesIn(available_isas()),
                         [](const auto& test) { return std::string(cpu::name_of(test.param)); });

TEST(KvIntegers, AreKeptWhereAllThatReadsThemIsAttentionInIntegers) {
  const auto kept = [](const Form& form) {
    return cpu::may_hold_integers(store_and_attend(form, random_rows(form)).program, 0);
  };
  for (const Form& form : forms()) EXPECT_TRUE(kept(form)) << form.dim_k << " " << form.dim_v;
  EXPECT_FALSE(kept({.type_k = ElementType::f32}));
  EXPECT_FALSE(kept({.type_v = ElementType::q8_0}));
  EXPECT_FALSE(kept({.dim_k = 48}));
  EXPECT_FALSE(kept({.dim_v = 80}));
  EXPECT_FALSE(kept({.block_tokens = 24}));
  EXPECT_FALSE(kept({.n_heads = 6}));  // three to a KV head
  // What comes from outside is in the element types.
  OpCase c = store_and_attend({}, random_rows({}));
  c.program.ops.erase(c.program.ops.begin());
  EXPECT_FALSE(cpu::may_hold_integers(c.program, 0));
}

// Keys are off by steps of their norm / 65000 or their greatest / 32700, values by steps of their
// greatest / 5792, weights by steps of their greatest / 32767. For normal numbers that is less than
// the 2^-12 of each element by which F16 is off.
TEST_P(KvIntegersTest, ErrorIsBelowThatOfAnF16Cache) {
  for (const Form& form : forms()) {
    const Numbers rows = random_rows(form);
    const OpCase c = store_and_attend(form, rows);
    const OpCase exact_case = store_and_attend(form, rows, true);
    const auto exact = result_of(exact_case, run_reference(exact_case));
    const auto rounded = result_of(c, run_reference(c));
    const Outcome outcome = run_cpu(c, GetParam(), 2);
    ASSERT_EQ(outcome.overrun, "") << c.name;
    const auto got = result_of(c, outcome);
    if (has_integers(GetParam())) {
      EXPECT_LE(error_of(got, exact), std::max(error_of(rounded, exact), 8e-8)) << c.name;
    } else {
      EXPECT_LE(error_of(got, rounded), 1e-11) << c.name;
    }
  }
}

TEST_P(KvIntegersTest, NeitherRanksNorTheBatchMatter) {
  Random random(23);
  for (const Form& form : forms()) {
    const OpCase c = store_and_attend(form, random_rows(form));
    const Outcome whole = run_cpu(c, GetParam());
    for (const uint32_t n_ranks : {2u, 3u, 7u}) {
      ASSERT_EQ(whole, run_cpu(c, GetParam(), n_ranks)) << c.name << ", ranks " << n_ranks;
    }
    const ValueId out = c.outputs[0];
    const uint32_t width = c.program.values[out].width;
    const auto expect_rows = [&](OpCase& at, const std::vector<uint32_t>& tokens) {
      const Outcome part = run_cpu(with_rows(at, tokens), GetParam(), 1 + tokens.size() % 2);
      for (size_t i = 0; i < tokens.size(); ++i) {
        const auto want = whole.values[out].begin() + static_cast<ptrdiff_t>(tokens[i]) * width;
        const auto got = part.values[out].begin() + static_cast<ptrdiff_t>(i) * width;
        ASSERT_TRUE(std::equal(got, got + width, want)) << c.name << ", token " << tokens[i];
      }
      at.kv = part.kv;
    };
    // In micro-batches, each on what those before it left.
    for (const uint32_t size : {1u, 7u, 64u}) {
      if (size == 1 && form.n_tokens > 100) continue;
      OpCase at = c;
      for (uint32_t begin = 0; begin < form.n_tokens; begin += size) {
        std::vector<uint32_t> tokens;
        for (uint32_t t = begin; t < std::min(begin + size, form.n_tokens); ++t)
          tokens.push_back(t);
        expect_rows(at, tokens);
        if (testing::Test::HasFatalFailure()) return;
      }
      ASSERT_EQ(at.kv, whole.kv) << c.name;
    }
    // A token alone stores what is there already.
    OpCase full = c;
    full.kv = whole.kv;
    for (uint32_t t = 0; t < form.n_tokens; t += 1 + form.n_tokens / 16) {
      expect_rows(full, {t});
      if (testing::Test::HasFatalFailure()) return;
    }
    ASSERT_EQ(full.kv, whole.kv) << c.name;
  }
}

TEST_P(KvIntegersTest, CellsThatWereNeverWrittenAreNotUsed) {
  for (const Form& form : forms()) {
    const OpCase c = store_and_attend(form, random_rows(form));
    const Outcome want = run_cpu(c, GetParam());
    for (const unsigned byte : {0xFFu, 0x7Fu, 0x01u}) {
      OpCase other = c;
      std::fill(other.kv[0].begin(), other.kv[0].end(), static_cast<std::byte>(byte));
      ASSERT_EQ(run_cpu(other, GetParam(), 2).values, want.values) << c.name;
    }
  }
}

TEST_P(KvIntegersTest, RowsThatAreNoNumbersAreSeenByThoseWhoSeeThem) {
  const Form form{.n_tokens = 60, .window = 9};
  const Numbers rows = random_rows(form);
  const OpCase clean_case = store_and_attend(form, rows);
  const auto clean = result_of(clean_case, run_cpu(clean_case, GetParam()));
  const uint32_t bad = 37;
  for (const float value :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    for (const uint32_t element : {0u, 9u, 63u}) {
      for (const bool key : {true, false}) {
        Numbers dirty_rows = rows;
        auto& changed = key ? dirty_rows.k : dirty_rows.v;
        changed[bad * 128 + 64 + element] = value;  // of the second head
        const OpCase c = store_and_attend(form, dirty_rows);
        const auto dirty = result_of(c, run_cpu(c, GetParam(), 2));
        for (uint32_t t = 0; t < form.n_tokens; ++t) {
          const bool sees = t >= bad && t < bad + form.window;
          const size_t row = uint64_t{t} * 512;
          ASSERT_TRUE(std::equal(dirty.begin() + static_cast<ptrdiff_t>(row),
                                 dirty.begin() + static_cast<ptrdiff_t>(row + (sees ? 256 : 512)),
                                 clean.begin() + static_cast<ptrdiff_t>(row)))
              << t;
          // In F16 an infinite key may well weigh nothing.
          if (sees && has_integers(GetParam())) {
            EXPECT_TRUE(std::isnan(dirty[row + 256])) << t;
          }
        }
      }
    }
  }
}

// Rows that make the sums as large as they can be: keys that lie in their queries' direction,
// values that are all of the greatest; of any size, of one element, of both signs.
TEST_P(KvIntegersTest, TheLargestSumsAreExact) {
  for (const uint32_t dim : {32u, 64u, 256u}) {
    const Form form{.n_heads = 4, .n_kv_heads = 1, .dim_k = dim, .dim_v = dim, .n_tokens = 257};
    for (const float size : {1e-20f, 1.0f, 3e4f}) {
      for (const int shape : {0, 1, 2}) {
        const auto element = [&](uint64_t d) {
          if (shape == 1) return d == dim - 1 ? 1.0f : 0.0f;
          return shape == 0 || d % 2 == 0 ? 1.0f : -1.0f;
        };
        Numbers rows = random_rows(form);
        for (size_t i = 0; i < rows.q.size(); ++i)
          rows.q[i] = element(i % dim) / std::max(size, 1.0f);
        for (size_t i = 0; i < rows.k.size(); ++i) rows.k[i] = element(i % dim) * size;
        for (size_t i = 0; i < rows.v.size(); ++i) rows.v[i] = element(i % dim) * size;
        if (size < 1 && !has_integers(GetParam())) continue;  // F16 has no such numbers
        const OpCase c = store_and_attend(form, rows);
        const auto got = result_of(c, run_cpu(c, GetParam()));
        // Equal scores: the mean of equal values.
        for (size_t i = 0; i < got.size(); ++i) {
          const float want = element(i % dim) * size;
          ASSERT_NEAR(static_cast<double>(got[i]), static_cast<double>(want),
                      static_cast<double>(size) * 6e-4)
              << dim << " " << size << " " << shape << " " << i;
        }
      }
    }
  }
}

// What is too large for F16 is not for integers; either way it stays finite.
TEST_P(KvIntegersTest, LargeRowsStayFinite) {
  const Form form{.n_tokens = 20};
  for (const float size : {1e5f, 1e20f, 1e25f}) {
    Numbers rows = random_rows(form);
    for (float& x : rows.q) x *= 1e-25f;
    for (float& x : rows.k) x *= size;
    for (float& x : rows.v) x *= size;
    const OpCase c = store_and_attend(form, rows);
    for (const float x : result_of(c, run_cpu(c, GetParam())))
      ASSERT_TRUE(std::isfinite(x)) << size;
  }
}

}  // namespace
}  // namespace strata::test
