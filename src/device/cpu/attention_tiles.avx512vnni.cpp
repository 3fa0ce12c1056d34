// Empty for other processors: isa.cpp never asks for it there.
#if defined(__x86_64__)
#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 takes the deliberately undefined operands inside its own intrinsics for a mistake.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#define STRATA_VECTORS "device/cpu/simd/vec_avx512.h"
#include "device/cpu/simd/stored_tiles_avx512.h"

namespace strata::device::cpu {

namespace {
template <class F>
constexpr TileKernels::Packers k_packers{pack_keys<F>, pack_values<F>};
}  // namespace

constinit const TileKernels k_avx512vnni_tiles{k_packers<PlainCache<F16>>,
                                               k_packers<PlainCache<Bf16>>,
                                               k_packers<Q8Cache>,
                                               k_packers<Q4Cache>,
                                               store_key,
                                               store_value,
                                               key_scales,
                                               value_scales,
                                               pack_query,
                                               attend_tile,
                                               merge_tile,
                                               finish_row};

}  // namespace strata::device::cpu

#endif
