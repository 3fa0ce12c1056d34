#define STRATA_AS_WRITTEN
#define STRATA_VECTORS "device/cpu/simd/vec_generic.h"
#define STRATA_LANES "device/cpu/simd/lanes_generic.h"
#include "device/cpu/simd/table.h"

namespace strata::device::cpu {

constinit const KernelTable k_generic_kernels = make_table("generic");

}  // namespace strata::device::cpu
