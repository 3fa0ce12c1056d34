// Empty for other processors: isa.cpp never asks for it there.
#if defined(__x86_64__)
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#define STRATA_VECTORS "device/cpu/simd/vec_avx512.h"
#define STRATA_LANES "device/cpu/simd/lanes_avx512.h"
#include <initializer_list>

#include "device/cpu/kernels.h"
#include "device/cpu/simd/matrix_unit.h"

namespace strata::device::cpu {
namespace {

// What LDTILECFG reads.
struct alignas(64) TileShapes {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};
static_assert(sizeof(TileShapes) == 64);

// Tiles: 0, 3 sums; 1, 4 activations of 32 columns; 2, 5 lines of 32 columns; 6, 7 activations and
// lines of 16 columns.
constexpr TileShapes k_shapes = [] {
  TileShapes s;
  for (const int sums : {0, 3}) s.row_bytes[sums] = 64, s.rows[sums] = 16;
  for (const int x : {1, 4}) s.row_bytes[x] = 32, s.rows[x] = 16;
  for (const int lines : {2, 5}) s.row_bytes[lines] = 64, s.rows[lines] = 8;
  s.row_bytes[6] = 16, s.rows[6] = 16;
  s.row_bytes[7] = 64, s.rows[7] = 4;
  return s;
}();

struct Amx {
  // Not by the intrinsic: GCC 12's says that it reads 8 bytes, and the rest may never be stored.
  static void configure() { asm volatile("ldtilecfg %0" : : "m"(k_shapes)); }

  // Not by the intrinsic either: GCC 12's does not say that it reads memory.
  template <int tile>
  static STRATA_INLINE void load_tile(const void* from, long stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(tile) : "memory");
  }

  template <int set>
  static STRATA_INLINE void product(const XBlock* x, const uint8_t* lines, TileSums& out) {
    if constexpr (set == 0) {
      _tile_zero(0);
      load_tile<1>(x, sizeof(XBlock));
      load_tile<2>(lines, 64);
      _tile_dpbssd(0, 1, 2);
      _tile_stored(0, out.at, 64);
    } else {
      _tile_zero(3);
      load_tile<4>(x, sizeof(XBlock));
      load_tile<5>(lines, 64);
      _tile_dpbssd(3, 4, 5);
      _tile_stored(3, out.at, 64);
    }
  }

  template <int set>
  static STRATA_INLINE void half_product(const XBlock* x, const uint8_t* lines, int half,
                                         TileSums& out) {
    const int8_t* q = x->q + 16 * half;
    const uint8_t* l = lines + 256 * half;
    if constexpr (set == 0) {
      _tile_zero(0);
      load_tile<6>(q, sizeof(XBlock));
      load_tile<7>(l, 64);
      _tile_dpbssd(0, 6, 7);
      _tile_stored(0, out.at, 64);
    } else {
      _tile_zero(3);
      load_tile<6>(q, sizeof(XBlock));
      load_tile<7>(l, 64);
      _tile_dpbssd(3, 6, 7);
      _tile_stored(3, out.at, 64);
    }
  }
};

}  // namespace

constinit const MatrixTable k_amx_tiles = make_tile_table<Amx>();

}  // namespace strata::device::cpu

#endif
