// Cases of the ops around the cache: rope_table, rope, store_kv, attention.
#include <algorithm>
#include <cmath>
#include <utility>

#include "device/cpu/kernels.h"
#include "device/op_case.h"
#include "device/reference/reference.h"

namespace strata::test {

using namespace device;

namespace {

constexpr double k_u = 0x1p-24;

// Gives the batch's sequences `starts[s]` positions of past and blocks in random places.
void place_in_cache(Batch& batch, const std::vector<int32_t>& starts, uint32_t block_tokens,
                    uint32_t n_blocks, Random& random) {
  const auto physical = random.permutation(n_blocks);
  uint32_t used = 0;
  for (uint32_t s = 0; s < batch.block_tables.size(); ++s) {
    int32_t end = starts[s];
    for (uint32_t t = 0; t < batch.size(); ++t) {
      if (batch.sequences[t] != s) continue;
      batch.positions[t] += starts[s];
      end = std::max(end, batch.positions[t] + 1);
    }
    for (int32_t p = 0; p < end; p += static_cast<int32_t>(block_tokens)) {
      batch.block_tables[s].push_back(physical.at(used++));
    }
  }
}

struct AttentionShape {
  ElementType type_k = ElementType::f32;
  ElementType type_v = ElementType::f32;
  uint32_t n_heads = 8;
  uint32_t n_kv_heads = 2;
  uint32_t head_dim_k = 16;
  uint32_t head_dim_v = 16;
  uint32_t block_tokens = 32;
  std::vector<int32_t> starts{0};
  uint32_t n_tokens = 5;
  uint32_t window = 0;
  float softcap = 0;
  bool sinks = false;
  float size = 1;  // of the queries
};

OpCase attention_case(Random& random, const AttentionShape& shape) {
  std::string name =
      std::string(info(shape.type_k).name) + "/" + std::string(info(shape.type_v).name) +
      " heads " + std::to_string(shape.n_heads) + "/" + std::to_string(shape.n_kv_heads) +
      " dims " + std::to_string(shape.head_dim_k) + "/" + std::to_string(shape.head_dim_v) +
      " blocks of " + std::to_string(shape.block_tokens) + " from " +
      std::to_string(shape.starts[0]) + " tokens " + std::to_string(shape.n_tokens) + " window " +
      std::to_string(shape.window);
  const auto n_sequences = static_cast<uint32_t>(shape.starts.size());
  CaseBuilder builder(name, shape.n_tokens, n_sequences);
  uint32_t n_blocks = 1;
  for (const int32_t start : shape.starts) {
    n_blocks += (static_cast<uint32_t>(start) + shape.n_tokens) / shape.block_tokens + 1;
  }
  place_in_cache(builder.batch(), shape.starts, shape.block_tokens, n_blocks, random);
  KvLayer layer;
  layer.n_kv_heads = shape.n_kv_heads;
  layer.head_dim_k = shape.head_dim_k;
  layer.head_dim_v = shape.head_dim_v;
  layer.type_k = shape.type_k;
  layer.type_v = shape.type_v;
  layer.block_tokens = shape.block_tokens;

  Attention op;
  op.layer = builder.kv_layer(layer, n_blocks, random);
  op.n_heads = shape.n_heads;
  op.scale = 1.0f / std::sqrt(static_cast<float>(shape.head_dim_k));
  op.softcap = shape.softcap;
  op.window = shape.window;
  const uint32_t width_q = shape.n_heads * shape.head_dim_k;
  const uint32_t width_out = shape.n_heads * shape.head_dim_v;
  const auto q = random.normals(uint64_t{shape.n_tokens} * width_q, shape.size);
  op.q = builder.input(width_q, q);
  op.out = builder.output(width_out);
  if (shape.sinks) op.sinks = builder.weight_f32(random.normals(shape.n_heads));

  // A score's error is at most delta = u * (2 * dim / 4 + 8) * scale * sum |q k|; Cauchy-Schwarz
  // bounds the sum by |q| |k|, and keys are bounded by 6 per element, typically sqrt(dim) in all.
  // Weights are off by 2 delta relative, sums of a range by 2 * 256 u, each merge by a few u; the
  // result is a mean of values bounded by 6.
  // Where the arithmetic may be in 16-bit integers (device/cpu/attention_tiles.h), a query and a
  // key are off by half a step of norm / 32700 in each dimension, a value by half a step of 6 /
  // 5792, and each weight of a range by half a step of its greatest / 32767.
  const bool integers = shape.type_k != ElementType::f32 && shape.type_v != ElementType::f32;
  std::vector<double> tolerance;
  for (uint32_t t = 0; t < shape.n_tokens; ++t) {
    for (uint32_t h = 0; h < shape.n_heads; ++h) {
      double norm = 0;
      for (uint32_t d = 0; d < shape.head_dim_k; ++d) {
        const double x =
            static_cast<double>(q[uint64_t{t} * width_q + uint64_t{h} * shape.head_dim_k + d]);
        norm += x * x;
      }
      const double key = 2 * std::sqrt(static_cast<double>(shape.head_dim_k)) + 4;
      const double delta = k_u * (2.0 * shape.head_dim_k / 4 + 8) * static_cast<double>(op.scale) *
                               std::sqrt(norm) * key +
                           8 * k_u * static_cast<double>(shape.softcap);
      const double ranges = builder.batch().positions[t] / 256.0 + 1;
      double bound = 6 * (2 * delta + k_u * (512 + 8 * ranges + 32));
      if (integers) {
        const double dim = static_cast<double>(shape.head_dim_k);
        const double step = static_cast<double>(op.scale) * std::sqrt(norm * dim) * key / 32700;
        const double seen = std::min(256, builder.batch().positions[t] + 1);
        bound += 6 * (2.2 * step + 0.51 * seen / 32767 + 0.51 / 5792);
      }
      for (uint32_t d = 0; d < shape.head_dim_v; ++d) tolerance.push_back(bound);
    }
  }
  builder.expect(op.out, std::move(tolerance));
  return builder.build(op);
}

OpCase store_case(Random& random, ElementType type_k, ElementType type_v, uint32_t dim_k,
                  uint32_t dim_v, uint32_t block_tokens, uint32_t n_tokens, float size) {
  CaseBuilder builder(std::string(info(type_k).name) + "/" + std::string(info(type_v).name) +
                          " dims " + std::to_string(dim_k) + "/" + std::to_string(dim_v),
                      n_tokens, n_tokens > 4 ? 2 : 1);
  Batch& batch = builder.batch();
  const std::vector<int32_t> starts(batch.block_tables.size(), 7);
  const uint32_t n_blocks = 2 * ((7 + n_tokens) / block_tokens + 1) + 1;
  place_in_cache(batch, starts, block_tokens, n_blocks, random);
  KvLayer layer;
  layer.n_kv_heads = 3;
  layer.head_dim_k = dim_k;
  layer.head_dim_v = dim_v;
  layer.type_k = type_k;
  layer.type_v = type_v;
  layer.block_tokens = block_tokens;
  StoreKv op;
  op.layer = builder.kv_layer(layer, n_blocks, random);
  op.k = builder.input(3 * dim_k, random.normals(uint64_t{n_tokens} * 3 * dim_k, size));
  op.v = builder.input(3 * dim_v, random.normals(uint64_t{n_tokens} * 3 * dim_v, size));
  return builder.build(op);  // the caches are compared byte for byte
}

OpCase rope_case(Random& random, RopeStyle style, uint32_t n_heads, uint32_t head_dim,
                 uint32_t n_rot, uint32_t n_tokens) {
  CaseBuilder builder("style " + std::to_string(static_cast<int>(style)) + " heads " +
                          std::to_string(n_heads) + " dim " + std::to_string(head_dim) + " rot " +
                          std::to_string(n_rot) + " tokens " + std::to_string(n_tokens),
                      n_tokens);
  const auto x = random.normals(uint64_t{n_tokens} * n_heads * head_dim);
  std::vector<float> table;
  for (uint32_t i = 0; i < n_tokens * n_rot / 2; ++i) {
    const double angle = random.unit() * 6.3;
    table.push_back(static_cast<float>(std::cos(angle)));
    table.push_back(static_cast<float>(std::sin(angle)));
  }
  Rope op;
  op.style = style;
  op.n_heads = n_heads;
  op.head_dim = head_dim;
  op.n_rot = n_rot;
  op.x = builder.input(n_heads * head_dim, x);
  op.table = builder.input(n_rot, table);
  // Two products and a sum of parts bounded by |a| + |b|, each at most 6.
  builder.expect(op.x, std::vector<double>(x.size(), 3 * k_u * 12));
  return builder.build(op);
}

OpCase rope_table_case(Random& random, uint32_t n_rot, uint32_t n_tokens, bool factors,
                       double magnitude) {
  CaseBuilder builder("rot " + std::to_string(n_rot) + " tokens " + std::to_string(n_tokens),
                      n_tokens);
  for (int32_t& position : builder.batch().positions) {
    position = static_cast<int32_t>(random.below(1u << 20));
  }
  auto frequencies = std::make_shared<std::vector<double>>();
  for (uint32_t i = 0; i < n_rot / 2; ++i) {
    frequencies->push_back(std::pow(10000.0, -2.0 * i / n_rot));
  }
  RopeTable op;
  op.inverse_frequencies = frequencies;
  op.magnitude = magnitude;
  op.out = builder.output(n_rot);
  if (factors) {
    std::vector<float> f;
    for (uint32_t i = 0; i < n_rot / 2; ++i) f.push_back(static_cast<float>(1 + 7 * random.unit()));
    op.factors = builder.weight_f32(f);
  }
  // Both in double, rounded once: equal, or neighbours where double's last place tips it.
  builder.expect(op.out, std::vector<double>(uint64_t{n_tokens} * n_rot, 2 * k_u * magnitude));
  return builder.build(op);
}

}  // namespace

std::vector<OpCase> cases_attention() {
  Random random(9);
  std::vector<OpCase> out;
  const auto add = [&](const AttentionShape& shape) {
    out.push_back(attention_case(random, shape));
  };
  using enum ElementType;
  add({});
  add({.n_tokens = 0});
  for (const uint32_t dim : {8u, 16u, 40u, 64u, 80u, 100u, 128u, 256u}) {
    const ElementType type = dim % 3 == 0 ? f32 : dim % 3 == 1 ? f16 : bf16;
    add({.type_k = type,
         .type_v = type,
         .n_heads = 5,
         .n_kv_heads = 1,
         .head_dim_k = dim,
         .head_dim_v = dim,
         .starts = {30},
         .n_tokens = 7});
  }
  // Key and value sizes and types that differ; odd sizes.
  add({.type_k = f16,
       .type_v = bf16,
       .n_heads = 8,
       .n_kv_heads = 2,
       .head_dim_k = 13,
       .head_dim_v = 7,
       .block_tokens = 5,
       .starts = {3},
       .n_tokens = 11});
  for (const auto& [type_k, type_v] : {std::pair{q8_0, q8_0},
                                       {q4_0, q4_0},
                                       {q8_0, q4_0},
                                       {f16, q8_0},
                                       {q4_0, bf16},
                                       {f32, q8_0},
                                       {q4_0, f32},
                                       {f32, f16},
                                       {bf16, f32}}) {
    add({.type_k = type_k,
         .type_v = type_v,
         .head_dim_k = 64,
         .head_dim_v = 32,
         .starts = {250},
         .n_tokens = 9});
    add({.type_k = type_k,
         .type_v = type_v,
         .n_heads = 8,
         .head_dim_k = 96,
         .head_dim_v = 128,
         .starts = {700, 3},
         .n_tokens = 2});
  }
  // Past over several ranges, one token and many, several sequences.
  add({.type_k = f16,
       .type_v = f16,
       .n_heads = 8,
       .n_kv_heads = 2,
       .starts = {1000},
       .n_tokens = 1});
  add({.n_heads = 2, .n_kv_heads = 2, .starts = {700, 0, 255, 256}, .n_tokens = 21});
  add({.n_heads = 2, .n_kv_heads = 1, .block_tokens = 16, .starts = {250}, .n_tokens = 17});
  // More query heads in a group than a unit holds.
  add({.n_heads = 37, .n_kv_heads = 1, .starts = {40}, .n_tokens = 3});
  add({.type_k = f16,
       .type_v = f16,
       .n_heads = 37,
       .n_kv_heads = 1,
       .starts = {400},
       .n_tokens = 3});
  for (const ElementType type : {f32, f16}) {
    // Windows: within a block, across ranges, wider than the past.
    for (const uint32_t window : {1u, 3u, 20u, 256u, 300u, 5000u}) {
      add({.type_k = type,
           .type_v = type,
           .n_heads = 4,
           .n_kv_heads = 1,
           .starts = {509},
           .n_tokens = 13,
           .window = window});
    }
    add({.type_k = type, .type_v = type, .starts = {300}, .softcap = 2.5f, .size = 5});
    add({.type_k = type, .type_v = type, .starts = {300}, .softcap = 50.0f, .sinks = true});
    add({.type_k = type,
         .type_v = type,
         .starts = {600},
         .n_tokens = 1,
         .window = 128,
         .sinks = true});
    // One sequence is much longer than the others.
    add({.type_k = type, .type_v = type, .starts = {2000, 3, 5}, .n_tokens = 3});
  }
  // Fewer query heads to a KV head, where no integers are used.
  for (const ElementType type : {f16, q8_0}) {
    add({.type_k = type,
         .type_v = type,
         .n_heads = 6,
         .head_dim_k = 32,
         .head_dim_v = 32,
         .starts = {300, 2},
         .n_tokens = 9});
  }
  // Scores far apart: the softmax is nearly one-hot.
  add({.head_dim_k = 64, .head_dim_v = 64, .starts = {520}, .n_tokens = 9, .size = 40});
  // A prompt longer than a tile and a range.
  add({.n_heads = 2, .n_kv_heads = 2, .block_tokens = 64, .n_tokens = 290});
  // Queries of zeros, some of which do not see the last range.
  add({.type_k = f16, .type_v = f16, .starts = {240}, .n_tokens = 30, .size = 0});
  add({.type_k = bf16,
       .type_v = f16,
       .n_heads = 10,
       .n_kv_heads = 2,
       .head_dim_k = 32,
       .head_dim_v = 64,
       .block_tokens = 64,
       .n_tokens = 290});
  return out;
}

std::vector<OpCase> cases_store_kv() {
  Random random(10);
  using enum ElementType;
  return {store_case(random, f32, f32, 16, 16, 32, 5, 1),
          store_case(random, f16, f16, 64, 40, 32, 17, 1),
          store_case(random, bf16, bf16, 33, 7, 5, 9, 1),
          store_case(random, f16, bf16, 128, 128, 16, 1, 1),
          store_case(random, f16, bf16, 31, 31, 16, 3, 1e-7f),
          store_case(random, f16, bf16, 31, 31, 16, 3, 3e4f),
          store_case(random, q8_0, q4_0, 64, 96, 32, 11, 1),
          store_case(random, q4_0, q8_0, 32, 128, 5, 3, 1e-3f),
          store_case(random, f32, q8_0, 7, 64, 16, 2, 300),
          store_case(random, f16, f16, 8, 8, 16, 0, 1)};
}

std::vector<OpCase> cases_rope() {
  Random random(11);
  std::vector<OpCase> out;
  for (const RopeStyle style : {RopeStyle::norm, RopeStyle::neox}) {
    out.push_back(rope_case(random, style, 1, 2, 2, 1));
    out.push_back(rope_case(random, style, 3, 40, 40, 5));
    out.push_back(rope_case(random, style, 4, 128, 64, 17));
    out.push_back(rope_case(random, style, 2, 100, 26, 3));
    out.push_back(rope_case(random, style, 2, 16, 16, 0));
  }
  return out;
}

std::vector<OpCase> cases_rope_table() {
  Random random(12);
  return {rope_table_case(random, 2, 1, false, 1), rope_table_case(random, 128, 5, false, 1),
          rope_table_case(random, 64, 17, true, 1.3), rope_table_case(random, 26, 0, false, 1)};
}

}  // namespace strata::test
