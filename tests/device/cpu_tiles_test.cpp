// The kernels for matrix units, on a unit in plain code, against the vector kernels: the same bits.
#include <gtest/gtest.h>

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

TEST(CpuTiles, GiveTheSameBitsAsVectors) {
  if (!cpu::available(cpu::Isa::avx512vnni)) GTEST_SKIP() << "skipped: no AVX-512 VNNI here";
  Random random(9);
  const cpu::KernelTable& table = cpu::kernels(cpu::Isa::avx512vnni);
  for (const ElementType type : supported_types()) {
    const uint32_t block = info(type).block_elems;
    if (block == 1) continue;
    const auto& packed = table.packed[cpu::format_index(type)];
    const auto& tiles = cpu::k_plain_tiles.formats[cpu::format_index(type)];
    ASSERT_NE(tiles.unpack, nullptr);
    for (const uint64_t n_in : {uint64_t{block}, uint64_t{3} * block}) {
      const WeightSpec spec{"w", type, {n_in, 16, 1}};
      const auto bytes = random_weight(random, type, n_in * 16);
      std::vector<std::byte> panel(cpu::stored_bytes(spec) + 64);
      cpu::store_all(spec, bytes.data(), panel.data());
      std::vector<cpu::XBlock> x(n_in / 32 * cpu::k_slots);
      for (size_t t = 0; t < cpu::k_slots; ++t) {
        const auto row = random.normals(n_in);
        table.quantize(row.data(), n_in, x.data() + t, cpu::k_slots);
      }
      const auto product = [&](auto unpack, auto multiply, bool first) {
        std::vector<std::byte> unpacked(n_in / 32 * packed.unpacked_bytes + 64);
        std::byte* aligned =
            unpacked.data() + (64 - reinterpret_cast<uintptr_t>(unpacked.data()) % 64) % 64;
        std::vector<float> out(16 * 20, 0.25f);
        unpack(panel.data(), n_in, aligned);
        multiply(aligned, size_t{1}, n_in, x.data(), out.data(), size_t{20}, first);
        return out;
      };
      for (const bool first : {true, false}) {
        EXPECT_EQ(product(packed.unpack, packed.multiply_unpacked, first),
                  product(tiles.unpack, tiles.multiply_unpacked, first))
            << info(type).name << " " << n_in;
      }
    }
  }
}

}  // namespace
}  // namespace strata::test
#endif
