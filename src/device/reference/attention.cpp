#include <algorithm>
#include <cmath>
#include <limits>

#include "device/reference/formulas.h"
#include "device/reference/reference.h"

namespace strata::device::reference {
namespace {

struct Cache {
  const KvLayer& layer;
  std::byte* region;
  const std::vector<uint32_t>& table;

  std::vector<float> key(uint32_t position, uint32_t head) const {
    std::vector<float> out(layer.head_dim_k);
    dequantize(layer.type_k,
               k_rows(layer, region, table[position / layer.block_tokens], head) +
                   position % layer.block_tokens * layer.k_row_bytes(),
               out.data(), out.size());
    return out;
  }
  std::vector<float> value(uint32_t position, uint32_t head) const {
    std::vector<float> out(layer.head_dim_v);
    dequantize(layer.type_v,
               v_rows(layer, region, table[position / layer.block_tokens], head) +
                   position % layer.block_tokens * layer.v_row_bytes(),
               out.data(), out.size());
    return out;
  }
};

}  // namespace

void run_attention(const Attention& op, const HostContext& context) {
  const Batch& batch = *context.batch;
  const KvLayer& layer = context.program->kv_layers[op.layer];
  const uint32_t group = group_of(op, layer.n_kv_heads);
  const double scale = static_cast<double>(op.scale);
  const double cap = static_cast<double>(op.softcap);
  for (uint64_t t = 0; t < batch.size(); ++t) {
    const Cache cache{layer, context.kv[op.layer], batch.block_tables[batch.sequences[t]]};
    const auto last = static_cast<uint32_t>(batch.positions[t]);
    const uint32_t first = op.window > 0 && last + 1 > op.window ? last + 1 - op.window : 0;
    for (uint32_t h = 0; h < op.n_heads; ++h) {
      const float* q = context.f32(op.q) + t * context.width(op.q) + uint64_t{h} * layer.head_dim_k;
      std::vector<double> scores;
      double top = -std::numeric_limits<double>::infinity();
      for (uint32_t p = first; p <= last; ++p) {
        double score =
            scale * dot(q, cache.key(p, (h + op.first_head) / group).data(), layer.head_dim_k);
        if (cap > 0) score = cap * std::tanh(score / cap);
        scores.push_back(score);
        top = std::max(top, score);
      }
      double sum = 0;
      if (op.sinks != k_none) {
        const double sink = static_cast<double>(context.weight_f32(op.sinks)[h]);
        top = std::max(top, sink);
        sum += std::exp(sink - top);
      }
      std::vector<double> total(layer.head_dim_v);
      for (uint32_t p = first; p <= last; ++p) {
        const double weight = std::exp(scores[p - first] - top);
        const auto value = cache.value(p, (h + op.first_head) / group);
        sum += weight;
        for (uint32_t d = 0; d < layer.head_dim_v; ++d) {
          total[d] += weight * static_cast<double>(value[d]);
        }
      }
      float* out = context.f32(op.out) + t * context.width(op.out) + uint64_t{h} * layer.head_dim_v;
      for (uint32_t d = 0; d < layer.head_dim_v; ++d) out[d] = static_cast<float>(total[d] / sum);
    }
  }
}

}  // namespace strata::device::reference
