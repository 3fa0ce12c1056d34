#include "device/cpu/attention_tiles.h"
#include "device/cpu/cpu_ops.h"
#include "device/cpu/ops/kv_integers.h"
#include "device/cpu/ops/kv_layout.h"
#include "device/cpu/ops/support.h"

namespace strata::device::cpu {

namespace {

// Calls f(key row, value row, block, head, row of the block) for the rows of this rank.
template <class Function>
void for_rows(const StoreKv& op, const HostContext& context, Function f) {
  const Batch& batch = *context.batch;
  const KvLayer& layer = context.program->kv_layers[op.layer];
  const Share share =
      share_of(uint64_t{batch.size()} * layer.n_kv_heads, context.rank, context.n_ranks);
  for (uint64_t i = share.begin; i < share.end; ++i) {
    const uint64_t t = i / layer.n_kv_heads;
    const auto h = static_cast<uint32_t>(i % layer.n_kv_heads);
    const auto position = static_cast<uint32_t>(batch.positions[t]);
    f(context.f32(op.k) + t * context.width(op.k) + uint64_t{h} * layer.head_dim_k,
      context.f32(op.v) + t * context.width(op.v) + uint64_t{h} * layer.head_dim_v,
      batch.block_tables[batch.sequences[t]][position / layer.block_tokens], h,
      position % layer.block_tokens);
  }
}

}  // namespace

void run_store_kv(const StoreKv& op, const HostContext& context) {
  const KvLayer& layer = context.program->kv_layers[op.layer];
  const KernelTable& table = kernels_of(context);
  const auto store_k = cache_kernels(table, layer.type_k).store;
  const auto store_v = cache_kernels(table, layer.type_v).store;
  const KvLayout layout(layer);
  std::byte* region = context.kv[op.layer];
  for_rows(op, context,
           [&](const float* k, const float* v, uint64_t block, uint32_t h, uint64_t row) {
             store_k(k, layout.keys(region, block, h) + row * layout.k_row, layer.head_dim_k);
             store_v(v, layout.values(region, block, h) + row * layout.v_row, layer.head_dim_v);
           });
}

void store_integers(const StoreKv& op, const HostContext& context) {
  const KvLayer& layer = context.program->kv_layers[op.layer];
  const TileKernels& tiles = *kernels_of(context).tiles;
  const KvLayout layout(layer);
  std::byte* region = context.kv[op.layer];
  for_rows(op, context,
           [&](const float* k, const float* v, uint64_t block, uint32_t h, uint64_t row) {
             // A group takes the place of its rows.
             const uint64_t within = row % k_tile_positions;
             std::byte* keys = layout.keys(region, block, h) + (row - within) * layout.k_row;
             std::byte* values = layout.values(region, block, h) + (row - within) * layout.v_row;
             tiles.store_key(k, layer.head_dim_k, reinterpret_cast<int16_t*>(keys), within);
             tiles.store_value(v, layer.head_dim_v, reinterpret_cast<int16_t*>(values), within);
           });
}

}  // namespace strata::device::cpu
