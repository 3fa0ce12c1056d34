// Fills in the kernel table of the instruction set that the including file is compiled for.
//
// Included by kernels.<isa>.cpp only, with STRATA_VECTORS and STRATA_LANES defined.
#pragma once

#include "device/cpu/kernels.h"
#include "device/cpu/simd/attention.h"
#include "device/cpu/simd/elementwise.h"
#include "device/cpu/simd/packed_multiply.h"

namespace strata::device::cpu {
namespace {

template <class F>
constexpr FormatKernels k_plain{dequantize_plain<F>, dot_rows_plain<F>};
template <class F>
constexpr CacheKernels k_cache{scores<F>, weigh<F>, F::store_row};

constexpr KernelTable make_table(const char* name, const TileKernels* tiles = nullptr) {
  KernelTable t{};
  t.name = name;
  t.tiles = tiles;
  t.formats[0] = k_plain<F32>;
  t.formats[1] = k_plain<F16>;
  t.formats[14] = k_plain<Bf16>;
  t.packed[2] = k_packed<PackedQ4_0>;
  t.packed[3] = k_packed<PackedQ4_1>;
  t.packed[4] = k_packed<PackedQ5_0>;
  t.packed[5] = k_packed<PackedQ5_1>;
  t.packed[6] = k_packed<PackedQ8_0>;
  t.packed[7] = k_packed<PackedQ2K>;
  t.packed[8] = k_packed<PackedQ3K>;
  t.packed[9] = k_packed<PackedQ4K>;
  t.packed[10] = k_packed<PackedQ5K>;
  t.packed[11] = k_packed<PackedQ6K>;
  t.packed[12] = k_packed<PackedIq4Nl>;
  t.packed[13] = k_packed<PackedIq4Xs>;
  t.packed[15] = k_packed<PackedMxfp4>;
  t.quantize = quantize_row;
  t.cache_f32 = k_cache<PlainCache<F32>>;
  t.cache_f16 = k_cache<PlainCache<F16>>;
  t.cache_bf16 = k_cache<PlainCache<Bf16>>;
  t.cache_q8_0 = k_cache<Q8Cache>;
  t.cache_q4_0 = k_cache<Q4Cache>;
  t.strip = strip;
  t.rms_norm = rms_norm;
  t.rope_norm = rope_norm;
  t.rope_neox = rope_neox;
  t.gate_silu = gate_silu;
  t.gate_gelu_tanh = gate_gelu_tanh;
  t.add = add_rows;
  t.exp_sum = exp_sum;
  t.sigmoid = sigmoid_row;
  t.max = max_of;
  t.soft_cap = soft_cap;
  t.scale = scale_row;
  t.blend = blend;
  return t;
}

}  // namespace

}  // namespace strata::device::cpu
