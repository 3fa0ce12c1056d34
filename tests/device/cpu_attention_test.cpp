// What attention must not see: the future, blocks of others, cells that were never written.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "device/op_case.h"

namespace strata::test {
namespace {

using namespace device;

class AttentionTest : public testing::TestWithParam<cpu::Isa> {};

INSTANTIATE_TEST_SUITE_P(Isa, AttentionTest, testing::ValuesIn(available_isas()),
                         [](const auto& test) { return std::string(cpu::name_of(test.param)); });

// Fills the cells of a position (every head) with bytes that read as NaN.
void poison(OpCase& c, uint64_t block, uint32_t row) {
  const KvLayer& layer = c.program.kv_layers[0];
  for (uint32_t h = 0; h < layer.n_kv_heads; ++h) {
    std::byte* region = c.kv[0].data();
    std::fill_n(k_rows(layer, region, block, h) + row * layer.k_row_bytes(), layer.k_row_bytes(),
                std::byte{0xFF});
    std::fill_n(v_rows(layer, region, block, h) + row * layer.v_row_bytes(), layer.v_row_bytes(),
                std::byte{0xFF});
  }
}

uint32_t window_of(const OpCase& c) { return std::get<Attention>(c.op()).window; }

TEST_P(AttentionTest, CellsThatNoTokenSeesAreNotUsed) {
  for (const OpCase& c : cases_attention()) {
    if (c.batch.size() == 0) continue;
    const KvLayer& layer = c.program.kv_layers[0];
    const uint64_t n_blocks = c.kv[0].size() / layer.block_bytes();
    std::vector<bool> seen(n_blocks * layer.block_tokens, false);
    for (uint32_t t = 0; t < c.batch.size(); ++t) {
      const auto end = static_cast<uint32_t>(c.batch.positions[t]) + 1;
      const uint32_t window = window_of(c);
      for (uint32_t p = window > 0 && end > window ? end - window : 0; p < end; ++p) {
        const uint64_t block = c.batch.block_tables[c.batch.sequences[t]][p / layer.block_tokens];
        seen[block * layer.block_tokens + p % layer.block_tokens] = true;
      }
    }
    OpCase poisoned = c;
    for (uint64_t cell = 0; cell < seen.size(); ++cell) {
      if (!seen[cell]) {
        poison(poisoned, cell / layer.block_tokens,
               static_cast<uint32_t>(cell % layer.block_tokens));
      }
    }
    for (const uint32_t n_ranks : {1u, 4u}) {
      ASSERT_EQ(run_cpu(c, GetParam(), n_ranks).values,
                run_cpu(poisoned, GetParam(), n_ranks).values)
          << c.name;
    }
  }
}

// The last token of each case is in the cache already when the others are computed with it in one
// tile: whatever it holds, even NaN, only that token may notice.
TEST_P(AttentionTest, NoTokenSeesTheFuture) {
  for (const OpCase& c : cases_attention()) {
    if (c.batch.size() < 2 || c.batch.block_tables.size() > 1) continue;
    const KvLayer& layer = c.program.kv_layers[0];
    const uint32_t last = c.batch.size() - 1;
    const auto p = static_cast<uint32_t>(c.batch.positions[last]);
    OpCase poisoned = c;
    poison(poisoned, c.batch.block_tables[0][p / layer.block_tokens], p % layer.block_tokens);
    const Outcome clean = run_cpu(c, GetParam());
    const Outcome dirty = run_cpu(poisoned, GetParam());
    const ValueId out = c.outputs[0];
    const uint64_t before = uint64_t{last} * c.program.values[out].width;
    ASSERT_TRUE(std::equal(clean.values[out].begin(),
                           clean.values[out].begin() + static_cast<ptrdiff_t>(before),
                           dirty.values[out].begin()))
        << c.name;
    EXPECT_NE(as_float(dirty.values[out][before]), as_float(dirty.values[out][before])) << c.name;
  }
}

// The whole result's error against the same cache in double. Integers are as good as F16's own
// rounding; a position left out or counted twice would be a thousand times worse.
TEST_P(AttentionTest, ErrorIsThatOfTheArithmetic) {
  for (const OpCase& c : cases_attention()) {
    if (c.batch.size() == 0) continue;
    const KvLayer& layer = c.program.kv_layers[0];
    const Outcome want = run_reference(c);
    const Outcome got = run_cpu(c, GetParam(), 2);
    double error = 0, norm = 0;
    const ValueId out = c.outputs[0];
    for (size_t i = 0; i < want.values[out].size(); ++i) {
      const double a = static_cast<double>(as_float(want.values[out][i]));
      const double d = static_cast<double>(as_float(got.values[out][i])) - a;
      error += d * d;
      norm += a * a;
    }
    const bool f32 = layer.type_k == ElementType::f32 || layer.type_v == ElementType::f32;
    EXPECT_LE(error, norm * (f32 || GetParam() != cpu::Isa::avx512vnni ? 1e-11 : 1.6e-7)) << c.name;
  }
}

// Equal keys: the result is the plain mean of the values seen, whatever the ranges.
TEST_P(AttentionTest, EqualScoresGiveTheMean) {
  Random random(5);
  for (const uint32_t past : {1u, 255u, 256u, 257u, 1000u, 3000u}) {
    CaseBuilder builder("mean", 1);
    builder.batch().positions = {static_cast<int32_t>(past) - 1};
    KvLayer layer;
    layer.n_kv_heads = 1;
    layer.head_dim_k = layer.head_dim_v = 8;
    layer.type_k = layer.type_v = ElementType::f32;
    const uint32_t n_blocks = past / 32 + 1;
    Attention op;
    op.layer = builder.kv_layer(layer, n_blocks, random);
    for (uint32_t b = 0; b < n_blocks; ++b) builder.batch().block_tables[0].push_back(b);
    op.n_heads = 1;
    op.scale = 1;
    op.q = builder.input(8, std::vector<float>(8, 0.0f));
    op.out = builder.output(8);
    const OpCase c = builder.build(op);
    double mean = 0;
    for (uint32_t p = 0; p < past; ++p) {
      float value;
      const std::byte* row =
          v_rows(layer, const_cast<std::byte*>(c.kv[0].data()), p / 32, 0) + p % 32 * 32;
      std::copy_n(row, 4, reinterpret_cast<std::byte*>(&value));
      mean += static_cast<double>(value) / past;
    }
    for (const uint32_t n_ranks : {1u, 3u}) {
      const Outcome out = run_cpu(c, GetParam(), n_ranks);
      EXPECT_NEAR(static_cast<double>(as_float(out.values[op.out][0])), mean, 1e-5) << past;
    }
  }
}

}  // namespace
}  // namespace strata::test
