// The matrix unit in plain code: products of tiles as the processor's manual defines TDPBSSD.
#if defined(__x86_64__)
#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 takes the deliberately undefined operands inside its own intrinsics for a mistake.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#define STRATA_VECTORS "device/cpu/simd/vec_avx512.h"
#define STRATA_LANES "device/cpu/simd/lanes_avx512.h"
#include "device/cpu/kernels.h"
#include "device/cpu/simd/matrix_unit.h"

namespace strata::device::cpu {
namespace {

struct PlainUnit {
  static void configure() {}

  // C[m][n] += sum over k, i of A[m][4 k + i] * B[k][4 n + i]; A has 4 n_lines bytes a row.
  static void multiply(const int8_t* a, size_t a_stride, const uint8_t* b, size_t n_lines,
                       TileSums& out) {
    for (size_t m = 0; m < k_slots; ++m) {
      for (size_t n = 0; n < k_panel_rows; ++n) {
        int32_t sum = 0;
        for (size_t k = 0; k < n_lines; ++k) {
          for (size_t i = 0; i < 4; ++i) {
            sum += a[m * a_stride + 4 * k + i] * static_cast<int8_t>(b[64 * k + 4 * n + i]);
          }
        }
        out.at[m][n] = sum;
      }
    }
  }
  template <int set>
  static void product(const XBlock* x, const uint8_t* lines, TileSums& out) {
    multiply(x->q, sizeof(XBlock), lines, 8, out);
  }
  template <int set>
  static void half_product(const XBlock* x, const uint8_t* lines, int half, TileSums& out) {
    multiply(x->q + 16 * half, sizeof(XBlock), lines + 256 * half, 4, out);
  }
};

}  // namespace

extern const MatrixTable k_plain_tiles;
constinit const MatrixTable k_plain_tiles = make_tile_table<PlainUnit>();

}  // namespace strata::device::cpu

#endif
