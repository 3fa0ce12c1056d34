// Fills in the kernel table of the instruction set that the including file is compiled for.
//
// Included by kernels.<isa>.cpp only, with STRATA_VECTORS defined.
#pragma once

#include "device/cpu/kernels.h"
#include "device/cpu/simd/attention.h"
#include "device/cpu/simd/elementwise.h"

namespace strata::device::cpu {
namespace {

template <class F>
constexpr FormatKernels k_blocks{dequantize_blocks<F>, dot_rows_blocks<F>};
template <class F>
constexpr FormatKernels k_plain{dequantize_plain<F>, dot_rows_plain<F>};
template <class F>
constexpr CacheKernels k_cache{scores<F>, weigh<F>, store_row<F>};

constexpr KernelTable make_table(const char* name) {
  KernelTable t{};
  t.name = name;
  t.formats[0] = k_plain<F32>;
  t.formats[1] = k_plain<F16>;
  t.formats[2] = k_blocks<Q4_0>;
  t.formats[3] = k_blocks<Q4_1>;
  t.formats[4] = k_blocks<Q5_0>;
  t.formats[5] = k_blocks<Q5_1>;
  t.formats[6] = k_blocks<Q8_0>;
  t.formats[7] = k_blocks<Q2K>;
  t.formats[8] = k_blocks<Q3K>;
  t.formats[9] = k_blocks<Q4K>;
  t.formats[10] = k_blocks<Q5K>;
  t.formats[11] = k_blocks<Q6K>;
  t.formats[12] = k_blocks<Iq4Nl>;
  t.formats[13] = k_blocks<Iq4Xs>;
  t.formats[14] = k_plain<Bf16>;
  t.formats[15] = k_blocks<Mxfp4>;
  t.cache_f32 = k_cache<F32>;
  t.cache_f16 = k_cache<F16>;
  t.cache_bf16 = k_cache<Bf16>;
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
