// Empty for other processors: isa.cpp never asks for it there.
#if defined(__x86_64__)
#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 takes the deliberately undefined operands inside its own intrinsics for a mistake.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#define STRATA_VECTORS "device/cpu/simd/vec_avx512.h"
#define STRATA_LANES "device/cpu/simd/lanes_avx512.h"
#include "device/cpu/attention_tiles.h"
#include "device/cpu/simd/table.h"

namespace strata::device::cpu {

constinit const KernelTable k_avx512vnni_kernels = make_table("avx512vnni", &k_avx512vnni_tiles);

}  // namespace strata::device::cpu

#endif
