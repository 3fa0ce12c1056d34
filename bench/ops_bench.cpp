// Micro-benchmarks of the CPU ops at sizes of real models, one set per op of the table.
//
//   bench_ops --benchmark_filter='linear/q4_k.*avx512'
//
// Names: op/what/tokens/instruction set/threads. Reported: GB/s of weights (or of cache) that were
// read, and GFLOP/s of the products.
#include <benchmark/benchmark.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "device/op_case.h"
#include "tensor/types.h"

namespace strata::test {
namespace {

using namespace device;

struct Measured {
  OpCase c;
  double bytes = 0;  // read from weights or cache in one run
  double flops = 0;
};

// A case that is made when it is to run: all of them together would fill the memory.
struct Lazy {
  std::string name;
  std::function<Measured()> make;
};

// Rows of random weights, repeated: what is measured does not look at values.
std::vector<std::byte> many_rows(ElementType type, uint64_t n_in, uint64_t n_rows) {
  Random random(1);
  const uint64_t distinct = std::min<uint64_t>(n_rows, 64);
  const auto some = random_weight(random, type, n_in * distinct);
  std::vector<std::byte> out(row_bytes(type, n_in) * n_rows);
  for (uint64_t at = 0; at < out.size(); at += some.size()) {
    std::copy_n(some.begin(), std::min(some.size(), out.size() - at),
                out.begin() + static_cast<ptrdiff_t>(at));
  }
  return out;
}

std::vector<float> numbers(uint64_t n) {
  std::vector<float> out(n);
  for (uint64_t i = 0; i < n; ++i) out[i] = 0.01f * static_cast<float>(i % 197) - 1;
  return out;
}

Measured linear(ElementType type, uint32_t n_in, uint32_t n_out, uint32_t n_tokens) {
  CaseBuilder builder("linear", n_tokens);
  Linear op;
  op.in = builder.input(n_in, numbers(uint64_t{n_tokens} * n_in));
  op.out = builder.output(n_out);
  op.weight = builder.weight(type, {n_in, n_out, 1}, many_rows(type, n_in, n_out));
  Measured out{builder.build(op)};
  out.bytes = static_cast<double>(out.c.weights[0].size());
  out.flops = 2.0 * n_in * n_out * n_tokens;
  return out;
}

std::vector<Lazy> bench_linear() {
  std::vector<Lazy> out;
  const auto add = [&](ElementType type, uint32_t n_in, uint32_t n_out, uint32_t n_tokens) {
    out.push_back({fmt::format("{}/{}x{}/{}", info(type).name, n_in, n_out, n_tokens),
                   [=] { return linear(type, n_in, n_out, n_tokens); }});
  };
  for (const ElementType type : supported_types()) {
    add(type, 4096, 8192, 1);
    add(type, 4096, 1024, 4);
    add(type, 4096, 1024, 512);
  }
  add(ElementType::q4_k, 14336, 4096, 1);
  add(ElementType::q4_k, 14336, 1024, 512);
  return out;
}

// As in Qwen3-30B-A3B, with fewer experts.
Measured experts(uint32_t n_tokens) {
  constexpr uint32_t n_embd = 2048, n_ff = 768, n_experts = 32, n_used = 8;
  CaseBuilder builder("experts", n_tokens);
  Random random(1);
  std::vector<int32_t> ids;
  for (uint32_t t = 0; t < n_tokens; ++t) {
    const auto order = random.permutation(n_experts);
    ids.insert(ids.end(), order.begin(), order.begin() + n_used);
  }
  Experts op;
  op.n_experts = n_experts;
  op.n_used = n_used;
  op.n_ff = n_ff;
  op.in = builder.input(n_embd, numbers(uint64_t{n_tokens} * n_embd));
  op.ids = builder.input_ids(n_used, ids);
  op.weights = builder.input(n_used, numbers(uint64_t{n_tokens} * n_used));
  op.hidden = builder.output(n_used * n_ff);
  op.out = builder.output(n_embd);
  for (WeightId* id : {&op.gate, &op.up}) {
    *id = builder.weight(ElementType::q4_k, {n_embd, n_ff, n_experts},
                         many_rows(ElementType::q4_k, n_embd, uint64_t{n_ff} * n_experts));
  }
  op.down = builder.weight(ElementType::q4_k, {n_ff, n_embd, n_experts},
                           many_rows(ElementType::q4_k, n_ff, uint64_t{n_embd} * n_experts));
  Measured m{builder.build(op)};
  for (const auto& weight : m.c.weights) m.bytes += static_cast<double>(weight.size());
  if (n_tokens == 1) m.bytes = m.bytes * n_used / n_experts;
  m.flops = 6.0 * n_embd * n_ff * n_used * n_tokens;
  return m;
}

std::vector<Lazy> bench_experts() {
  return {{"q4_k/2048x768x32/1", [] { return experts(1); }},
          {"q4_k/2048x768x32/512", [] { return experts(512); }}};
}

struct AttentionShape {
  ElementType type;
  uint32_t heads, kv_heads, dim, past, n_tokens;
  uint32_t sequences = 1;  // that share the tokens
};

Measured attention(const AttentionShape& s) {
  CaseBuilder builder("attention", s.n_tokens, s.sequences);
  Random random(1);
  KvLayer layer;
  layer.n_kv_heads = s.kv_heads;
  layer.head_dim_k = layer.head_dim_v = s.dim;
  layer.type_k = layer.type_v = s.type;
  const uint32_t per_sequence = s.n_tokens / s.sequences;
  const uint32_t blocks_each = (s.past + per_sequence) / 32 + 1;
  const uint32_t n_blocks = blocks_each * s.sequences;
  Attention op;
  op.layer = builder.kv_layer(layer, n_blocks, random);
  const auto physical = random.permutation(n_blocks);
  for (uint32_t i = 0; i < s.sequences; ++i) {
    builder.batch().block_tables[i].assign(physical.begin() + i * blocks_each,
                                           physical.begin() + (i + 1) * blocks_each);
  }
  for (uint32_t t = 0; t < s.n_tokens; ++t) {
    builder.batch().sequences[t] = t / per_sequence;
    builder.batch().positions[t] = static_cast<int32_t>(s.past + t % per_sequence);
  }
  op.n_heads = s.heads;
  op.scale = 1 / std::sqrt(static_cast<float>(s.dim));
  op.q = builder.input(s.heads * s.dim, numbers(uint64_t{s.n_tokens} * s.heads * s.dim));
  op.out = builder.output(s.heads * s.dim);
  Measured m{builder.build(op)};
  m.bytes = static_cast<double>(m.c.kv[0].size());
  m.flops = 4.0 * s.dim * s.heads * s.n_tokens * (s.past + per_sequence / 2.0);
  return m;
}

std::vector<Lazy> bench_attention() {
  std::vector<Lazy> out;
  constexpr auto f16 = ElementType::f16, f32 = ElementType::f32;
  constexpr auto q8_0 = ElementType::q8_0, q4_0 = ElementType::q4_0;
  for (const AttentionShape& s : {AttentionShape{f16, 32, 4, 64, 0, 512},
                                  {f16, 32, 4, 64, 3584, 512},
                                  {q8_0, 32, 4, 64, 3584, 512},
                                  {f16, 32, 8, 128, 3584, 512},
                                  {f16, 8, 8, 128, 3584, 512},
                                  {f32, 32, 4, 64, 3584, 512},
                                  {f16, 32, 4, 64, 4096, 1},
                                  {q8_0, 32, 4, 64, 4096, 1},
                                  {q4_0, 32, 4, 64, 4096, 1},
                                  {f16, 32, 8, 128, 4096, 1},
                                  {f16, 8, 8, 128, 4096, 1},
                                  {f16, 32, 8, 128, 65535, 1},
                                  {f16, 32, 4, 64, 65535, 1},
                                  {f32, 32, 4, 64, 4096, 1},
                                  {f16, 32, 4, 64, 1024, 16, 16}}) {
    out.push_back({fmt::format("{}/{}_{}x{}/past_{}/{}_of_{}", info(s.type).name, s.heads,
                               s.kv_heads, s.dim, s.past, s.n_tokens, s.sequences),
                   [=] { return attention(s); }});
  }
  return out;
}

// The cheap ops: one token and a micro-batch of 512.
template <class Make>
std::vector<Lazy> for_token_counts(Make make) {
  std::vector<Lazy> out;
  for (const uint32_t n_tokens : {1u, 512u}) {
    out.push_back({fmt::format("{}", n_tokens), [=] {
                     CaseBuilder builder("case", n_tokens);
                     const auto op = make(builder, n_tokens);
                     Measured m{builder.build(op)};
                     for (const auto& value : m.c.values) {
                       m.bytes += 4.0 * static_cast<double>(value.size());
                     }
                     return m;
                   }});
  }
  return out;
}

std::vector<Lazy> bench_embed() {
  return for_token_counts([](CaseBuilder& b, uint32_t) {
    Embed op;
    op.weight =
        b.weight(ElementType::q4_k, {4096, 1024, 1}, many_rows(ElementType::q4_k, 4096, 1024));
    op.out = b.output(4096);
    for (size_t i = 0; i < b.batch().size(); ++i) {
      b.batch().tokens[i] = static_cast<int32_t>(i * 7 % 1024);
    }
    return op;
  });
}

std::vector<Lazy> bench_rms_norm() {
  return for_token_counts([](CaseBuilder& b, uint32_t n) {
    RmsNorm op;
    op.group = 4096;
    op.eps = 1e-5f;
    op.in = b.input(4096, numbers(n * 4096));
    op.weight = b.weight_f32(numbers(4096));
    op.out = b.output(4096);
    return op;
  });
}

std::vector<Lazy> bench_rope_table() {
  return for_token_counts([](CaseBuilder& b, uint32_t) {
    RopeTable op;
    op.inverse_frequencies = std::make_shared<std::vector<double>>(64, 0.01);
    op.out = b.output(128);
    return op;
  });
}

std::vector<Lazy> bench_rope() {
  return for_token_counts([](CaseBuilder& b, uint32_t n) {
    Rope op;
    op.n_heads = 32;
    op.head_dim = op.n_rot = 128;
    op.x = b.input(4096, numbers(n * 4096));
    op.table = b.input(128, numbers(n * 128));
    op.style = RopeStyle::neox;
    return op;
  });
}

std::vector<Lazy> bench_store_kv() {
  return for_token_counts([](CaseBuilder& b, uint32_t n) {
    Random random(1);
    KvLayer layer;
    layer.n_kv_heads = 8;
    layer.head_dim_k = layer.head_dim_v = 128;
    StoreKv op;
    op.layer = b.kv_layer(layer, 17, random);
    b.batch().block_tables[0] = random.permutation(17);
    op.k = b.input(1024, numbers(n * 1024));
    op.v = b.input(1024, numbers(n * 1024));
    return op;
  });
}

std::vector<Lazy> bench_gate() {
  return for_token_counts([](CaseBuilder& b, uint32_t n) {
    Gate op;
    op.gate = b.input(14336, numbers(uint64_t{n} * 14336));
    op.up = b.input(14336, numbers(uint64_t{n} * 14336));
    op.out = b.output(14336);
    return op;
  });
}

std::vector<Lazy> bench_route() {
  return for_token_counts([](CaseBuilder& b, uint32_t n) {
    Route op;
    op.n_experts = 128;
    op.n_used = 8;
    op.renormalise = true;
    op.logits = b.input(128, numbers(n * 128));
    op.ids = b.output(8);
    op.weights = b.output(8);
    return op;
  });
}

std::vector<Lazy> bench_add() {
  return for_token_counts([](CaseBuilder& b, uint32_t n) {
    Add op;
    op.a = b.input(4096, numbers(n * 4096));
    op.b = b.input(4096, numbers(n * 4096));
    op.out = b.output(4096);
    return op;
  });
}

std::vector<Lazy> bench_all_reduce() {
  return for_token_counts([](CaseBuilder& b, uint32_t n) {
    AllReduce op;
    op.partial = b.input(4096, numbers(n * 4096));
    op.residual = b.input(4096, numbers(n * 4096));
    op.out = b.output(4096);
    return op;
  });
}

std::vector<Lazy> bench_gather() {
  return for_token_counts([](CaseBuilder& b, uint32_t n) {
    b.batch().output_rows = {n - 1};
    Gather op;
    op.in = b.input(4096, numbers(n * 4096));
    op.out = b.output(4096, Rows::outputs);
    return op;
  });
}

void measure(benchmark::State& state, const Lazy& lazy, cpu::Isa isa, uint32_t threads) {
  Measured m = lazy.make();
  RepeatedRun run(std::move(m.c), isa, threads);
  run.run();
  for (auto _ : state) run.run();
  const auto rate = [](double x) {
    return benchmark::Counter(x * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
  };
  state.counters["GB/s"] = rate(m.bytes);
  if (m.flops > 0) state.counters["GFLOP/s"] = rate(m.flops);
}

void register_all() {
  struct OpBench {
    std::string name;
    std::vector<Lazy> cases;
  };
  const OpBench benches[] = {
#define STRATA_OP(name, Type, text) {#name, bench_##name()},
#include "device/ops.def"
#undef STRATA_OP
  };
  const uint32_t processors = std::max(1u, std::thread::hardware_concurrency());
  for (const OpBench& bench : benches) {
    for (const Lazy& lazy : bench.cases) {
      for (const cpu::Isa isa : available_isas()) {
        for (uint32_t threads = 1; threads <= processors; threads *= 2) {
          const auto name =
              fmt::format("{}/{}/{}/threads_{}", bench.name, lazy.name, cpu::name_of(isa), threads);
          auto* b = benchmark::RegisterBenchmark(name.c_str(), measure, lazy, isa, threads);
          // One thread is measured by its own time, which a busy machine disturbs less.
          if (threads > 1) b->UseRealTime();
        }
      }
    }
  }
}

}  // namespace
}  // namespace strata::test

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  strata::test::register_all();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
