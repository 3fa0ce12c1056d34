// Each of the hottest kernels, called once on fixed data: for counting instructions.
//
//   kernel_counts KERNEL      (without one: their names)
//
// See instruction_counts.sh. The counts do not depend on the machine's speed or load.
#include <fmt/core.h>

#include <cstring>
#include <string_view>
#include <vector>

#include "device/cpu/isa.h"
#include "device/cpu/ops/support.h"
#include "device/cpu/pack.h"
#include "device/op_case.h"
#include "tensor/types.h"

namespace strata::test {
namespace {

using namespace device;

constexpr uint64_t k_columns = 4096;
constexpr uint64_t k_chunk_columns = 512;

struct Panel {
  explicit Panel(ElementType type)
      : kernels(cpu::kernels(cpu::chosen_isa()).packed[cpu::format_index(type)]) {
    Random random(1);
    const WeightSpec spec{"w", type, {k_columns, cpu::k_panel_rows, 1}};
    const auto bytes = random_weight(random, type, k_columns * cpu::k_panel_rows);
    data.resize(cpu::stored_bytes(spec) + 8192);
    cpu::store_all(spec, bytes.data(), data.data());
    x.resize(k_columns / cpu::k_x_columns * cpu::k_slots);
    for (size_t t = 0; t < cpu::k_slots; ++t) {
      const auto row = random.normals(k_columns);
      cpu::kernels(cpu::chosen_isa()).quantize(row.data(), k_columns, x.data() + t, cpu::k_slots);
    }
  }
  const cpu::PackedKernels& kernels;
  std::vector<std::byte> data;
  std::vector<cpu::XBlock> x;
  std::vector<float> out = std::vector<float>(cpu::k_slots * cpu::k_panel_rows);
};

constexpr size_t k_queries = 8, k_positions = 256, k_dim = 64;

struct Cache {
  Cache() : kernels(cpu::kernels(cpu::chosen_isa()).cache_f16) {
    Random random(1);
    q = random.normals(k_queries * k_dim);
    weights = random.normals(k_queries * k_positions);
    const auto values = random.normals(k_positions * k_dim);
    data.resize(2 * values.size());
    quantize(ElementType::f16, values.data(), data.data(), values.size());
    for (size_t i = 0; i < k_positions; ++i) rows.push_back(data.data() + 2 * k_dim * i);
  }
  const cpu::CacheKernels& kernels;
  std::vector<float> q, weights;
  std::vector<std::byte> data;
  std::vector<const std::byte*> rows;
};

struct Count {
  const char* name;
  const char* what;
  void (*run)();
};

constexpr Count k_counts[] = {
    {"multiply_q4_k", "16 rows x 4096 columns of Q4_K, 1 token",
     [] {
       Panel p(ElementType::q4_k);
       p.kernels.multiply(p.data.data(), k_columns, p.x.data(), 1, p.out.data(), 16);
     }},
    {"multiply_unpacked_q4_k", "16 rows x 512 columns of unpacked Q4_K, 16 tokens",
     [] {
       Panel p(ElementType::q4_k);
       std::vector<std::byte> unpacked(k_chunk_columns / cpu::k_x_columns *
                                       p.kernels.unpacked_bytes);
       p.kernels.unpack(p.data.data(), k_chunk_columns, unpacked.data());
       p.kernels.multiply_unpacked(unpacked.data(), 1, k_chunk_columns, p.x.data(), p.out.data(),
                                   16, true);
     }},
    {"scores_f16", "8 queries with 256 keys of 64",
     [] {
       Cache c;
       c.kernels.scores(c.q.data(), k_dim, k_queries, c.rows.data(), k_positions, k_dim,
                        c.weights.data(), k_positions);
     }},
    {"weigh_f16", "256 values of 64 for 8 queries",
     [] {
       Cache c;
       c.kernels.weigh(c.weights.data(), k_positions, k_queries, c.rows.data(), k_positions, k_dim,
                       c.q.data(), k_dim);
     }},
};

int run(int argc, char** argv) {
  for (const Count& count : k_counts) {
    if (argc < 2) {
      fmt::print("{}\t{}\n", count.name, count.what);
    } else if (std::string_view(argv[1]) == count.name) {
      count.run();
      return 0;
    }
  }
  return argc < 2 ? 0 : 2;
}

}  // namespace
}  // namespace strata::test

int main(int argc, char** argv) { return strata::test::run(argc, argv); }
