#include "device/cpu/cpu_ops.h"
#include "device/cpu/ops/kv_layout.h"
#include "device/cpu/ops/support.h"

namespace strata::device::cpu {

void run_store_kv(const StoreKv& op, const HostContext& context) {
  const Batch& batch = *context.batch;
  const KvLayer& layer = context.program->kv_layers[op.layer];
  const KernelTable& table = kernels_of(context);
  const auto store_k = cache_kernels(table, layer.type_k).store;
  const auto store_v = cache_kernels(table, layer.type_v).store;
  const KvLayout layout(layer);
  std::byte* region = context.kv[op.layer];
  const Share share =
      share_of(uint64_t{batch.size()} * layer.n_kv_heads, context.rank, context.n_ranks);
  for (uint64_t i = share.begin; i < share.end; ++i) {
    const uint64_t t = i / layer.n_kv_heads;
    const auto h = static_cast<uint32_t>(i % layer.n_kv_heads);
    const auto position = static_cast<uint32_t>(batch.positions[t]);
    const uint64_t block = batch.block_tables[batch.sequences[t]][position / layer.block_tokens];
    const uint64_t row = position % layer.block_tokens;
    store_k(context.f32(op.k) + t * context.width(op.k) + uint64_t{h} * layer.head_dim_k,
            layout.keys(region, block, h) + row * layout.k_row, layer.head_dim_k);
    store_v(context.f32(op.v) + t * context.width(op.v) + uint64_t{h} * layer.head_dim_v,
            layout.values(region, block, h) + row * layout.v_row, layer.head_dim_v);
  }
}

}  // namespace strata::device::cpu
