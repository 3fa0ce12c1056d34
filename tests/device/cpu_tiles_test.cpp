// The kernels for matrix units, on a unit in plain code, against the vector kernels: the same bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "device/amx_traps.h"
#include "device/cpu/kernels.h"
#include "device/cpu/ops/support.h"
#include "device/cpu/pack.h"
#include "device/op_case.h"
#include "tensor/types.h"

#if defined(__x86_64__)
namespace strata::device::cpu {
extern const MatrixTable k_plain_tiles;
}

namespace strata::test {
namespace {

using namespace device;

// Four panels and this many rows of activations for each type, multiplied by both.
void expect_same_bits(const cpu::MatrixTable& unit) {
  constexpr size_t k_panels = 4, k_stride = k_panels * cpu::k_panel_rows + 4, k_rows = 39;
  Random random(9);
  const cpu::KernelTable& table = cpu::kernels(cpu::Isa::avx512vnni);
  for (const ElementType type : supported_types()) {
    const uint32_t block = info(type).block_elems;
    if (block == 1) continue;
    const auto& packed = table.packed[cpu::format_index(type)];
    const auto& tiles = unit.formats[cpu::format_index(type)];
    ASSERT_NE(tiles.unpack, nullptr);
    for (const uint64_t n_in : {uint64_t{block}, 512 / block * uint64_t{block} - block % 256}) {
      const WeightSpec spec{"w", type, {n_in, k_panels * cpu::k_panel_rows, 1}};
      const auto bytes = random_weight(random, type, n_in * spec.dims[1]);
      std::vector<std::byte> panels(cpu::stored_bytes(spec) + 64);
      cpu::store_all(spec, bytes.data(), panels.data());
      const size_t n_blocks = n_in / cpu::k_x_columns;
      std::vector<cpu::XBlock> x(n_blocks * cpu::k_slots), rows(n_blocks * k_rows);
      for (size_t t = 0; t < k_rows; ++t) {
        const auto row = random.normals(n_in);
        table.quantize(row.data(), n_in, rows.data() + t * n_blocks, 1);
        if (t < cpu::k_slots) table.quantize(row.data(), n_in, x.data() + t, cpu::k_slots);
      }
      std::vector<const cpu::XBlock*> at(k_rows + 1, rows.data() + (k_rows - 1) * n_blocks);
      for (size_t t = 0; t < k_rows; ++t) at[t] = rows.data() + t * n_blocks;

      const auto product = [&](auto unpack, auto work) {
        const size_t unpacked_panel = n_blocks * packed.unpacked_bytes;
        std::vector<std::byte> unpacked(k_panels * unpacked_panel + 64);
        std::byte* aligned =
            unpacked.data() + (64 - reinterpret_cast<uintptr_t>(unpacked.data()) % 64) % 64;
        std::vector<float> out((k_rows + 1) * k_stride, 0.25f);
        for (size_t p = 0; p < k_panels; ++p) {
          unpack(panels.data() + p * (cpu::stored_bytes(spec) / k_panels), n_in,
                 aligned + p * unpacked_panel);
        }
        work(aligned, out.data());
        return out;
      };
      for (const bool first : {true, false}) {
        for (const size_t n_panels : {size_t{1}, k_panels}) {
          const auto of_tile = [&](auto multiply) {
            return [=, &x](const std::byte* from, float* out) {
              multiply(from, n_panels, n_in, x.data(), out, k_stride, first);
            };
          };
          const auto expected = product(packed.unpack, of_tile(packed.multiply_unpacked));
          EXPECT_EQ(expected, product(tiles.unpack, of_tile(tiles.multiply_unpacked)))
              << info(type).name << " " << n_in;
          for (const size_t n : {size_t{1}, size_t{15}, size_t{16}, size_t{17}, k_rows}) {
            const auto of_rows = [&](auto multiply) {
              return [=, &at](const std::byte* from, float* out) {
                multiply(from, n_panels, n_in, at.data(), size_t{0}, n, out, k_stride, first);
              };
            };
            auto a = product(packed.unpack, of_rows(packed.multiply_rows));
            auto b = product(tiles.unpack, of_rows(tiles.multiply_rows));
            // What lies beyond the rows up to a whole group is any.
            a.resize(n * k_stride), b.resize(n * k_stride);
            EXPECT_EQ(a, b) << info(type).name << " " << n_in << ", " << n << " rows";
            for (size_t t = 0; t < std::min(n, cpu::k_slots); ++t) {
              for (size_t r = 0; r < n_panels * cpu::k_panel_rows; ++r) {
                ASSERT_EQ(a[t * k_stride + r], expected[t * k_stride + r])
                    << info(type).name << " " << n_in << ", row " << t << " of " << n;
              }
            }
          }
        }
      }
    }
  }
}

TEST(CpuTiles, GiveTheSameBitsAsVectors) {
  if (!cpu::available(cpu::Isa::avx512vnni)) GTEST_SKIP() << "skipped: no AVX-512 VNNI here";
  expect_same_bits(cpu::k_plain_tiles);
}

// The AMX kernels as they were compiled: on the processor, or its instructions in plain code.
TEST(CpuTiles, AmxGivesTheSameBitsAsVectors) {
  if (!cpu::available(cpu::Isa::avx512vnni)) GTEST_SKIP() << "skipped: no AVX-512 VNNI here";
  if (cpu::available(cpu::Isa::amx)) {
    expect_same_bits(cpu::k_amx_tiles);
  } else {
    const AmxTraps traps;
    expect_same_bits(cpu::k_amx_tiles);
  }
}

}  // namespace
}  // namespace strata::test
#endif
