#include "device/cpu/ops/support.h"

#include "base/error.h"
#include "device/cpu/cpu_ops.h"

namespace strata::device::cpu {

size_t format_index(ElementType type) {
  switch (type) {
    case ElementType::f32:
      return 0;
    case ElementType::f16:
      return 1;
    case ElementType::q4_0:
      return 2;
    case ElementType::q4_1:
      return 3;
    case ElementType::q5_0:
      return 4;
    case ElementType::q5_1:
      return 5;
    case ElementType::q8_0:
      return 6;
    case ElementType::q2_k:
      return 7;
    case ElementType::q3_k:
      return 8;
    case ElementType::q4_k:
      return 9;
    case ElementType::q5_k:
      return 10;
    case ElementType::q6_k:
      return 11;
    case ElementType::iq4_nl:
      return 12;
    case ElementType::iq4_xs:
      return 13;
    case ElementType::bf16:
      return 14;
    case ElementType::mxfp4:
      return 15;
  }
  fail(ErrorCode::internal, "element type {} has no kernels", static_cast<uint32_t>(type));
}

bool is_cache_type(ElementType type) {
  switch (type) {
    case ElementType::f32:
    case ElementType::f16:
    case ElementType::bf16:
    case ElementType::q8_0:
    case ElementType::q4_0:
      return true;
    default:
      return false;
  }
}

const CacheKernels& cache_kernels(const KernelTable& table, ElementType type) {
  if (type == ElementType::f32) return table.cache_f32;
  if (type == ElementType::f16) return table.cache_f16;
  if (type == ElementType::bf16) return table.cache_bf16;
  if (type == ElementType::q8_0) return table.cache_q8_0;
  if (type == ElementType::q4_0) return table.cache_q4_0;
  fail(ErrorCode::internal, "the CPU device keeps no KV cache in type {}",
       static_cast<uint32_t>(type));
}

}  // namespace strata::device::cpu
