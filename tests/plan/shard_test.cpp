// Shards: the parts are the whole, each once, with borders where matrices can be cut.
#include "model/shard.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/error.h"
#include "described.h"
#include "model/lower.h"

namespace strata::plan {
namespace {

using model::BlockShard;
using model::Interval;
using model::ModelSpec;
using model::Shard;

using Part = Interval BlockShard::*;

void expect_tiles(const std::vector<Shard>& shards, uint32_t block, Part part, uint64_t count) {
  uint64_t at = 0;
  for (const Shard& shard : shards) {
    const Interval& p = shard.blocks[block].*part;
    EXPECT_LE(p.begin, p.end);
    if (p.empty()) continue;
    EXPECT_EQ(p.begin, at);
    at = p.end;
  }
  EXPECT_EQ(at, count);
}

void check(const ModelSpec& spec, const std::vector<double>& shares) {
  const std::vector<Shard> shards = model::cut(spec, shares);
  ASSERT_EQ(shards.size(), shares.size());
  double total = 0;
  size_t wanting = 0;
  for (const double share : shares) {
    total += share;
    wanting += share > 0;
  }
  uint64_t tokens = 0;
  for (const Shard& shard : shards) {
    EXPECT_EQ(shard.members, shares.size());
    if (shard.vocabulary.empty()) continue;
    EXPECT_EQ(shard.vocabulary.begin, tokens);
    tokens = shard.vocabulary.end;
  }
  EXPECT_EQ(tokens, spec.n_vocab);
  for (uint32_t b = 0; b < spec.blocks.size(); ++b) {
    const model::BlockSpec& block = spec.blocks[b];
    const model::AttentionSpec& a = block.attention;
    const uint64_t group = a.n_heads / a.n_kv_heads;
    expect_tiles(shards, b, &BlockShard::heads, a.n_heads);
    const uint64_t o_block = info(spec.weights[a.output].spec.type).block_elems;
    uint64_t kv_held = 0;
    for (size_t m = 0; m < shards.size(); ++m) {
      const BlockShard& part = shards[m].blocks[b];
      if (shares[m] == 0) {
        EXPECT_TRUE(part.heads.empty());
        continue;
      }
      // The columns of the attention output are whole blocks.
      EXPECT_EQ(part.heads.begin * a.head_dim_v % o_block, 0u);
      if (part.heads.empty()) continue;
      // Its key-value heads are exactly those that its query heads read.
      EXPECT_EQ(part.kv_heads.begin, part.heads.begin / group);
      EXPECT_EQ(part.kv_heads.end, (part.heads.end - 1) / group + 1);
      kv_held += part.kv_heads.size();
    }
    // Divided where there is one for each member, else copied.
    const uint64_t unit = std::max<uint64_t>(1, o_block / std::gcd(o_block, group * a.head_dim_v));
    if (a.n_kv_heads / unit >= wanting) {
      EXPECT_EQ(kv_held, a.n_kv_heads);
    }
    const uint64_t n_ff = block.dense ? block.dense->n_ff : block.experts->n_ff;
    const model::WeightId down = block.dense ? block.dense->down : block.experts->down;
    const uint64_t d_block = info(spec.weights[down].spec.type).block_elems;
    for (const Shard& shard : shards) EXPECT_EQ(shard.blocks[b].ff.begin % d_block, 0u);
    if (block.dense) {
      expect_tiles(shards, b, &BlockShard::ff, n_ff);
      continue;
    }
    // Inside every expert, or whole experts.
    const bool inside = shards[0].blocks[b].experts.size() == block.experts->n_experts &&
                        shards[0].blocks[b].ff.size() < n_ff;
    if (inside) {
      expect_tiles(shards, b, &BlockShard::ff, n_ff);
      for (const Shard& shard : shards) {
        EXPECT_EQ(shard.blocks[b].experts, (Interval{0, block.experts->n_experts}));
      }
    } else if (wanting > 1) {
      expect_tiles(shards, b, &BlockShard::experts, block.experts->n_experts);
      for (const Shard& shard : shards) EXPECT_EQ(shard.blocks[b].ff, (Interval{0, n_ff}));
    }
  }
}

TEST(Shard, PartsAreTheWholeOnceForAnyShares) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> share(0, 1);
  for (const char* shape : {"llama-1b", "llama-3.1-70b", "qwen2.5-0.5b", "qwen2.5-7b", "moe-1.8b",
                            "mixtral-8x7b", "qwen3-30b-a3b"}) {
    for (const char* mixture : {"q4_k_m", "q8_0", "f16"}) {
      model::Shape small = model::find_shape(shape);
      small.n_layers = 2;
      small.n_vocab = 4000;
      const ModelSpec spec = test::spec_of(small, mixture);
      for (size_t n = 1; n <= 8; ++n) {
        SCOPED_TRACE(testing::Message() << shape << " " << mixture << " over " << n);
        check(spec, std::vector<double>(n, 1));
        for (int i = 0; i < 4; ++i) {
          std::vector<double> shares(n);
          for (double& s : shares) s = share(random);
          if (i == 3) shares[random() % n] = n > 1 ? 0 : 1;
          check(spec, shares);
        }
      }
    }
  }
}

// 70,30 of what is fine enough to be cut so.
TEST(Shard, UnevenSharesAreMet) {
  const ModelSpec spec = test::spec_of("llama-3.1-70b", "q4_k_m");
  const std::vector<Shard> shards = model::cut(spec, std::vector<double>{70, 30});
  // 28672 columns in blocks of 256: 78.4 of 112 are 78.
  EXPECT_EQ(shards[0].blocks[0].ff, (Interval{0, 78 * 256}));
  // 64 heads in groups of 8: 5.6 of 8 are 6.
  EXPECT_EQ(shards[0].blocks[0].heads, (Interval{0, 48}));
  EXPECT_EQ(shards[1].blocks[0].kv_heads, (Interval{6, 8}));
  // 128256 tokens in rows of 32: 2805.6 of 4008.
  EXPECT_EQ(shards[0].vocabulary, (Interval{0, 2806 * 32}));
}

TEST(Shard, KeyValueHeadsAreCopiedWhereThereAreTooFew) {
  // 14 heads of 64 on 2 key-value heads, over 7 members.
  const ModelSpec spec = test::spec_of("qwen2.5-0.5b", "f16");
  const std::vector<Shard> shards = model::cut(spec, std::vector<double>(7, 1));
  for (uint64_t m = 0; m < 7; ++m) {
    EXPECT_EQ(shards[m].blocks[0].heads, (Interval{2 * m, 2 * m + 2}));
    EXPECT_EQ(shards[m].blocks[0].kv_heads, (Interval{2 * m / 7, (2 * m + 1) / 7 + 1}));
  }
}

TEST(Shard, ExpertsInsideOrWhole) {
  // 512 columns in blocks of 256: two members halve every expert, three take whole ones.
  const ModelSpec spec = test::spec_of("moe-1.8b", "q4_k_m");
  const auto two = model::cut(spec, std::vector<double>{1, 1});
  EXPECT_EQ(two[1].blocks[0].ff, (Interval{256, 512}));
  EXPECT_EQ(two[1].blocks[0].experts, (Interval{0, 64}));
  const auto three = model::cut(spec, std::vector<double>{1, 1, 1});
  EXPECT_EQ(three[1].blocks[0].ff, (Interval{0, 512}));
  EXPECT_EQ(three[1].blocks[0].experts, (Interval{21, 43}));
}

TEST(Shard, SharesThatMakeNoSense) {
  const ModelSpec spec = test::spec_of("llama-1b", "q8_0");
  for (const std::vector<double>& shares :
       {std::vector<double>{}, {0, 0}, {1, -1}, {1, std::nan("")}, {1, INFINITY}}) {
    try {
      model::cut(spec, shares);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::usage);
    }
  }
}

// What the members' programs hold is the model, each byte once but for what is replicated.
TEST(Shard, WeightsOfTheMembersAddUp) {
  model::Shape shape = model::find_shape("llama-3-8b");
  shape.n_layers = 4;
  shape.n_vocab = 32000;
  const ModelSpec spec = test::spec_of(shape, "q4_k_m");
  const auto shards = model::cut(spec, std::vector<double>{2, 1, 1});
  uint64_t parts = 0, whole = 0;
  const auto matrices = [](const model::Lowered& lowered) {
    uint64_t bytes = 0;
    for (const device::WeightSpec& w : lowered.program.weights) {
      if (w.rows() > 1) bytes += w.bytes();
    }
    return bytes;
  };
  model::LowerOptions options;
  options.type_k = options.type_v = ElementType::f16;
  options.kv_block_tokens = k_kv_block_tokens;
  options.first_half = 0;
  options.end_half = static_cast<uint32_t>(2 * spec.blocks.size());
  whole = matrices(model::lower_stage(spec, options));
  for (const Shard& shard : shards) {
    options.shard = &shard;
    parts += matrices(model::lower_stage(spec, options));
  }
  EXPECT_EQ(parts, whole);
}

}  // namespace
}  // namespace strata::plan
