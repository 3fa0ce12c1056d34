#include "device/reference/formulas.h"
#include "device/reference/reference.h"

namespace strata::device::reference {

void run_store_kv(const StoreKv& op, const HostContext& context) {
  const Batch& batch = *context.batch;
  const KvLayer& layer = context.program->kv_layers[op.layer];
  std::byte* region = context.kv[op.layer];
  for (uint64_t t = 0; t < batch.size(); ++t) {
    const auto position = static_cast<uint32_t>(batch.positions[t]);
    const uint64_t block = batch.block_tables[batch.sequences[t]][position / layer.block_tokens];
    const uint64_t row = position % layer.block_tokens;
    for (uint32_t h = 0; h < layer.n_kv_heads; ++h) {
      const float* k = context.f32(op.k) + t * context.width(op.k) + h * layer.head_dim_k;
      const float* v = context.f32(op.v) + t * context.width(op.v) + h * layer.head_dim_v;
      quantize(layer.type_k, k, k_rows(layer, region, block, h) + row * layer.k_row_bytes(),
               layer.head_dim_k);
      quantize(layer.type_v, v, v_rows(layer, region, block, h) + row * layer.v_row_bytes(),
               layer.head_dim_v);
    }
  }
}

}  // namespace strata::device::reference
