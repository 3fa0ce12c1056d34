// Empty for other processors: isa.cpp never asks for it there.
#if defined(__x86_64__)
#define STRATA_VECTORS "device/cpu/simd/vec_avx2.h"
#define STRATA_LANES "device/cpu/simd/lanes_avx2.h"
#include "device/cpu/simd/table.h"

namespace strata::device::cpu {

constinit const KernelTable k_avx2_kernels = make_table("avx2");

}  // namespace strata::device::cpu

#endif
