// Streaming attention.
//
// The cache is read in ranges of k_range absolute positions. A range gives, for each query, the
// greatest score, the sum of exponentials and the weighted sum of values; these partial results are
// merged in ascending order. Both steps look at one query only, so a query's result does not
// depend on the queries that share its unit, on the micro-batch or on the number of ranks.
//
// Units go to ranks whole where that is even; where not, ranges are shared out as well: every rank
// computes a few partial results into its own scratch, then the unit's owner merges them in
// ascending order.
//
// This file has the F32 arithmetic; attention_tiles.cpp has the integers.
#include <algorithm>

#include "device/cpu/cpu_ops.h"
#include "device/cpu/ops/attention_units.h"
#include "device/cpu/ops/support.h"

namespace strata::device::cpu {
namespace {

// Queries of a unit: many where that leaves the ranks evenly busy, since they share every read of
// the cache; fewer where not.
constexpr uint32_t k_wide = 64;
constexpr uint32_t k_narrow = 16;
// Distance of two queries' scores: a little more than a range, so that they do not all fall into
// the same few sets of the cache.
constexpr uint32_t k_score_stride = k_range + 16;

// For each query of a unit: weights relative to the greatest score.
struct Partial {
  float* top;
  float* sum;
  float* acc;  // [query][head_dim_v]
};

Partial take_partial(ScratchCutter& cutter, const KvLayer& layer, uint32_t n_queries) {
  return {cutter.take<float>(n_queries), cutter.take<float>(n_queries),
          cutter.take<float>(uint64_t{n_queries} * layer.head_dim_v)};
}

struct AttentionScratch {
  AttentionScratch(std::byte* base, const KvLayer& layer) : cutter(base) {
    for (auto& round : slots) {
      for (Partial& slot : round) slot = take_partial(cutter, layer, k_narrow);
    }
    part = take_partial(cutter, layer, k_wide);
    merged = take_partial(cutter, layer, k_wide);
    query = cutter.take<float>(uint64_t{k_wide} * layer.head_dim_k);
    scores = cutter.take<float>(uint64_t{k_wide} * k_score_stride);
    keys = cutter.take<const std::byte*>(k_range);
    values = cutter.take<const std::byte*>(k_range);
  }

  ScratchCutter cutter;
  Partial slots[2][k_range_slots];  // of narrow units, by parity of the round
  Partial part;                     // of the range at hand
  Partial merged;
  float* query;   // scaled
  float* scores;  // [query][position in range]
  const std::byte** keys;
  const std::byte** values;
};

class Worker {
 public:
  Worker(const Attention& op, const HostContext& context)
      : op_(op),
        context_(context),
        layer_(context.program->kv_layers[op.layer]),
        table_(kernels_of(context)),
        keys_(cache_kernels(table_, layer_.type_k)),
        values_(cache_kernels(table_, layer_.type_v)),
        scratch_(context.scratch.data(), layer_),
        units_(op, context) {}

  void run();

 private:
  void load_queries(const Unit& unit);
  void attend_range(const Unit& unit, uint32_t range, const Partial& out);
  void merge(const Unit& unit, uint32_t range, const Partial& part);
  void finish(const Unit& unit);

  const Attention& op_;
  const HostContext& context_;
  const KvLayer& layer_;
  const KernelTable& table_;
  const CacheKernels& keys_;
  const CacheKernels& values_;
  AttentionScratch scratch_;
  AttentionUnits units_;
};

void Worker::load_queries(const Unit& unit) {
  const uint32_t dim = layer_.head_dim_k;
  for (uint32_t t = 0; t < unit.n_tokens; ++t) {
    const float* from = context_.f32(op_.q) + (uint64_t{unit.token} + t) * context_.width(op_.q) +
                        uint64_t{unit.head} * dim;
    float* to = scratch_.query + uint64_t{t} * unit.n_heads * dim;
    std::copy(from, from + uint64_t{unit.n_heads} * dim, to);
  }
  table_.scale(scratch_.query, op_.scale, uint64_t{unit.queries()} * dim);
}

void Worker::attend_range(const Unit& unit, uint32_t range, const Partial& out) {
  const auto begin = static_cast<uint32_t>(range * k_range);
  const auto within = [&](uint32_t token) { return units_.within(token, range); };
  const Positions all = units_.within(unit, range);
  units_.locate(unit, all, scratch_.keys, scratch_.values);
  const uint32_t dim_k = layer_.head_dim_k;
  const uint32_t dim_v = layer_.head_dim_v;
  keys_.scores(scratch_.query, dim_k, unit.queries(), scratch_.keys, all.end - all.begin, dim_k,
               scratch_.scores + (all.begin - begin), k_score_stride);

  // Weights of each query over what it sees; `joint` is what all of them see.
  Positions joint = all;
  for (uint32_t t = 0; t < unit.n_tokens; ++t) {
    const Positions seen = within(unit.token + t);
    joint.begin = std::max(joint.begin, seen.begin);
    joint.end = std::min(joint.end, seen.end);
    for (uint32_t h = 0; h < unit.n_heads; ++h) {
      const uint32_t q = t * unit.n_heads + h;
      if (seen.empty()) continue;
      float* scores = scratch_.scores + q * k_score_stride + (seen.begin - begin);
      const size_t n = seen.end - seen.begin;
      if (op_.softcap > 0) table_.soft_cap(scores, op_.softcap, n);
      out.top[q] = table_.max(scores, n);
      out.sum[q] = table_.exp_sum(scores, out.top[q], scores, n);
    }
  }
  std::fill(out.acc, out.acc + uint64_t{unit.queries()} * dim_v, 0.0f);
  const auto weigh = [&](uint32_t q, uint32_t n_q, uint32_t from, uint32_t to) {
    if (from >= to) return;
    values_.weigh(scratch_.scores + q * k_score_stride + (from - begin), k_score_stride, n_q,
                  scratch_.values + (from - all.begin), to - from, dim_v,
                  out.acc + uint64_t{q} * dim_v, dim_v);
  };
  // Positions ascend for every query: what it alone sees below, what all see, what it sees above.
  if (joint.empty()) joint.end = joint.begin;
  for (uint32_t t = 0; t < unit.n_tokens; ++t) {
    const Positions seen = within(unit.token + t);
    weigh(t * unit.n_heads, unit.n_heads, seen.begin,
          joint.empty() ? seen.end : std::min(joint.begin, seen.end));
  }
  weigh(0, unit.queries(), joint.begin, joint.end);
  for (uint32_t t = 0; t < unit.n_tokens && !joint.empty(); ++t) {
    weigh(t * unit.n_heads, unit.n_heads, joint.end, within(unit.token + t).end);
  }
}

void Worker::merge(const Unit& unit, uint32_t range, const Partial& part) {
  const auto begin = static_cast<uint32_t>(range * k_range);
  const Partial& to = scratch_.merged;
  const uint32_t dim = layer_.head_dim_v;
  for (uint32_t q = 0; q < unit.queries(); ++q) {
    const Positions seen = units_.visible(unit.token + q / unit.n_heads);
    if (seen.end <= begin || seen.begin >= begin + k_range) continue;
    float* to_acc = to.acc + uint64_t{q} * dim;
    const float* part_acc = part.acc + uint64_t{q} * dim;
    if (seen.begin >= begin) {
      // The first range that the query sees.
      to.top[q] = part.top[q];
      to.sum[q] = part.sum[q];
      std::copy(part_acc, part_acc + dim, to_acc);
      continue;
    }
    const float top = std::max(to.top[q], part.top[q]);
    float factors[2] = {to.top[q], part.top[q]};
    table_.exp_sum(factors, top, factors, 2);
    to.top[q] = top;
    to.sum[q] = to.sum[q] * factors[0] + part.sum[q] * factors[1];
    table_.blend(to_acc, factors[0], part_acc, factors[1], dim);
  }
}

void Worker::finish(const Unit& unit) {
  const Partial& merged = scratch_.merged;
  const uint32_t dim = layer_.head_dim_v;
  for (uint32_t q = 0; q < unit.queries(); ++q) {
    const uint64_t token = uint64_t{unit.token} + q / unit.n_heads;
    const uint32_t head = unit.head + q % unit.n_heads;
    float sum = merged.sum[q];
    float factor = 1;
    if (op_.sinks != k_none) {
      const float sink = context_.weight_f32(op_.sinks)[head];
      const float top = std::max(merged.top[q], sink);
      float factors[2] = {merged.top[q], sink};
      table_.exp_sum(factors, top, factors, 2);
      factor = factors[0];
      sum = sum * factor + factors[1];
    }
    float* out = context_.f32(op_.out) + token * context_.width(op_.out) + uint64_t{head} * dim;
    const float* acc = merged.acc + uint64_t{q} * dim;
    std::copy(acc, acc + dim, out);
    table_.scale(out, factor / sum, dim);
  }
}

void Worker::run() {
  if (units_.divide_evenly({k_wide, k_narrow})) {
    UnitTurns turns(units_, context_);
    for (Unit unit; turns.take(unit);) {
      load_queries(unit);
      const Positions all = units_.ranges(unit);
      for (uint32_t r = all.begin; r < all.end; ++r) {
        attend_range(unit, r, scratch_.part);
        merge(unit, r, scratch_.part);
      }
      finish(unit);
    }
    return;
  }
  run_in_rounds(
      units_, context_,
      [&](const Unit& unit, bool fresh, uint32_t range, uint32_t set, uint32_t slot) {
        if (fresh) load_queries(unit);
        attend_range(unit, range, scratch_.slots[set][slot]);
      },
      [&](const Unit& unit, uint32_t range, uint32_t set, uint32_t rank, uint32_t slot, bool,
          bool last) {
        const AttentionScratch other(context_.scratch_of(rank), layer_);
        merge(unit, range, other.slots[set][slot]);
        if (last) finish(unit);
      });
}

}  // namespace

uint64_t attention_scratch_bytes(const Attention& op, const Program& program) {
  const KvLayer& layer = program.kv_layers[op.layer];
  return std::max(AttentionScratch(nullptr, layer).cutter.used(),
                  attention_tiles_scratch_bytes(layer));
}

void run_attention(const Attention& op, const HostContext& context) {
  if (has_attention_tiles(op, context)) {
    run_attention_tiles(op, context);
  } else {
    Worker(op, context).run();
  }
}

}  // namespace strata::device::cpu
