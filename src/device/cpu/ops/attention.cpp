// Streaming attention.
//
// The cache is read in ranges of k_range absolute positions. A range gives, for each query, the
// greatest score, the sum of exponentials and the weighted sum of values; these partial results are
// merged in ascending order. Both steps look at one query only, so a query's result does not
// depend on the queries that share its tile, on the micro-batch or on the number of ranks.
//
// Work is shared out by (tile of tokens, kv head, some of its query heads). When there are too few
// of these for the ranks, ranges are shared out as well, in rounds: every rank computes a few
// partial results into its own scratch, then the unit's owner merges them in ascending order.
#include <algorithm>

#include "device/cpu/cpu_ops.h"
#include "device/cpu/ops/kv_layout.h"
#include "device/cpu/ops/support.h"

namespace strata::device::cpu {
namespace {

// Queries of a unit: many where there are units enough for all ranks, since they share every read
// of the cache; fewer where not.
constexpr uint32_t k_wide = 64;
constexpr uint32_t k_narrow = 16;
constexpr uint32_t k_units_per_rank = 4;  // enough for the ranks to end at about the same time
// Distance of two queries' scores: a little more than a range, so that they do not all fall into
// the same few sets of the cache.
constexpr uint32_t k_score_stride = k_range + 16;
constexpr uint32_t k_slots = 4;  // partial results per rank and round

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
  Partial slots[2][k_slots];  // of narrow units, by parity of the round
  Partial part;               // of the range at hand
  Partial merged;
  float* query;   // scaled
  float* scores;  // [query][position in range]
  const std::byte** keys;
  const std::byte** values;
};

// Queries that are computed together: consecutive tokens of one sequence, some heads of one group.
struct Unit {
  uint32_t token = 0;  // row of the first token
  uint32_t n_tokens = 0;
  uint32_t kv_head = 0;
  uint32_t head = 0;  // first query head
  uint32_t n_heads = 0;

  uint32_t queries() const { return n_tokens * n_heads; }
};

struct Positions {
  uint32_t begin = 0;
  uint32_t end = 0;
  bool empty() const { return begin >= end; }
};

class Worker {
 public:
  Worker(const Attention& op, const HostContext& context)
      : op_(op),
        context_(context),
        batch_(*context.batch),
        layer_(context.program->kv_layers[op.layer]),
        table_(kernels_of(context)),
        keys_(cache_kernels(table_, layer_.type_k)),
        values_(cache_kernels(table_, layer_.type_v)),
        scratch_(context.scratch.data(), layer_),
        group_(op.n_heads / layer_.n_kv_heads),
        layout_(layer_) {}

  void run();

 private:
  // Sets the size of units; returns how many there are.
  uint64_t divide(uint32_t most_queries);

  // Walks over the units in one fixed order.
  struct Cursor {
    Unit unit;
    uint64_t index = 0;
    bool done = false;
  };
  Cursor first_unit() const;
  void next_unit(Cursor& cursor) const;
  void open_tile(Cursor& cursor, uint32_t token) const;

  Positions visible(uint32_t token) const;
  // Ranges that a unit's queries see: [begin, end) in units of k_range.
  Positions ranges(const Unit& unit) const;

  void load_queries(const Unit& unit);
  void locate(const Unit& unit, Positions all, uint32_t begin);
  void attend_range(const Unit& unit, uint32_t range, const Partial& out);
  void merge(const Unit& unit, uint32_t range, const Partial& part);
  void finish(const Unit& unit);
  void run_whole(Cursor cursor);
  void run_rounds(Cursor cursor);

  const Attention& op_;
  const HostContext& context_;
  const Batch& batch_;
  const KvLayer& layer_;
  const KernelTable& table_;
  const CacheKernels& keys_;
  const CacheKernels& values_;
  AttentionScratch scratch_;
  uint32_t group_;
  uint32_t unit_heads_ = 1;
  uint32_t tile_tokens_ = 1;
  KvLayout layout_;
};

void Worker::open_tile(Cursor& cursor, uint32_t token) const {
  cursor.done = token >= batch_.size();
  if (cursor.done) return;
  uint32_t end = token + 1;
  while (end < batch_.size() && end - token < tile_tokens_ &&
         batch_.sequences[end] == batch_.sequences[token] &&
         batch_.positions[end] == batch_.positions[end - 1] + 1) {
    ++end;
  }
  cursor.unit = {token, end - token, 0, 0, unit_heads_};
}

Worker::Cursor Worker::first_unit() const {
  Cursor cursor;
  open_tile(cursor, 0);
  return cursor;
}

void Worker::next_unit(Cursor& cursor) const {
  ++cursor.index;
  Unit& unit = cursor.unit;
  unit.head += unit.n_heads;
  if (unit.head == (unit.kv_head + 1) * group_) ++unit.kv_head;
  if (unit.kv_head == layer_.n_kv_heads) {
    open_tile(cursor, unit.token + unit.n_tokens);
  } else {
    unit.n_heads = std::min(unit_heads_, (unit.kv_head + 1) * group_ - unit.head);
  }
}

Positions Worker::visible(uint32_t token) const {
  const auto end = static_cast<uint32_t>(batch_.positions[token]) + 1;
  return {op_.window > 0 && end > op_.window ? end - op_.window : 0, end};
}

Positions Worker::ranges(const Unit& unit) const {
  const uint32_t begin = visible(unit.token).begin;
  const uint32_t end = visible(unit.token + unit.n_tokens - 1).end;
  constexpr auto range = static_cast<uint32_t>(k_range);
  return {begin / range, (end + range - 1) / range};
}

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

// Addresses of the rows at the positions `all`, by position within the range.
void Worker::locate(const Unit& unit, Positions all, uint32_t begin) {
  const std::vector<uint32_t>& blocks = batch_.block_tables[batch_.sequences[unit.token]];
  std::byte* region = context_.kv[op_.layer];
  for (uint32_t p = all.begin; p < all.end;) {
    const uint64_t block = blocks[p / layer_.block_tokens];
    const uint32_t row = p % layer_.block_tokens;
    const std::byte* key = layout_.keys(region, block, unit.kv_head);
    const std::byte* value = layout_.values(region, block, unit.kv_head);
    const uint32_t end = std::min(all.end, p + (layer_.block_tokens - row));
    for (uint32_t r = row; p < end; ++p, ++r) {
      scratch_.keys[p - begin] = key + r * layout_.k_row;
      scratch_.values[p - begin] = value + r * layout_.v_row;
    }
  }
}

void Worker::attend_range(const Unit& unit, uint32_t range, const Partial& out) {
  const auto begin = static_cast<uint32_t>(range * k_range);
  const auto within = [&](uint32_t token) {
    const Positions p = visible(token);
    return Positions{std::max(p.begin, begin), std::min<uint32_t>(p.end, begin + k_range)};
  };
  const uint32_t last = unit.token + unit.n_tokens - 1;
  const Positions all{within(unit.token).begin, within(last).end};
  locate(unit, all, begin);
  const uint32_t dim_k = layer_.head_dim_k;
  const uint32_t dim_v = layer_.head_dim_v;
  keys_.scores(scratch_.query, dim_k, unit.queries(), scratch_.keys + (all.begin - begin),
               all.end - all.begin, dim_k, scratch_.scores + (all.begin - begin), k_score_stride);

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
                  scratch_.values + (from - begin), to - from, dim_v, out.acc + uint64_t{q} * dim_v,
                  dim_v);
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
    const Positions seen = visible(unit.token + q / unit.n_heads);
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

// Every unit by one rank.
void Worker::run_whole(Cursor cursor) {
  for (; !cursor.done; next_unit(cursor)) {
    if (cursor.index % context_.n_ranks != context_.rank) continue;
    load_queries(cursor.unit);
    const Positions all = ranges(cursor.unit);
    for (uint32_t r = all.begin; r < all.end; ++r) {
      attend_range(cursor.unit, r, scratch_.part);
      merge(cursor.unit, r, scratch_.part);
    }
    finish(cursor.unit);
  }
}

// Ranges of a unit by many ranks. Tasks (unit, range) are numbered in one order; a round takes the
// next k_slots of them for every rank. Two sets of slots make one barrier a round enough: a set is
// written again only after the barrier that follows its merging.
void Worker::run_rounds(Cursor cursor) {
  const uint32_t tasks = k_slots * context_.n_ranks;
  uint32_t range = cursor.done ? 0 : ranges(cursor.unit).begin;
  for (uint32_t round = 0; !cursor.done; ++round) {
    const auto for_each_task = [&](Cursor& at, uint32_t& r, auto work) {
      for (uint32_t i = 0; i < tasks && !at.done; ++i) {
        const bool last = r + 1 == ranges(at.unit).end;
        work(i, at, r, last);
        ++r;
        if (!last) continue;
        next_unit(at);
        if (!at.done) r = ranges(at.unit).begin;
      }
    };
    Cursor at = cursor;
    uint32_t r = range;
    uint64_t loaded = UINT64_MAX;
    for_each_task(at, r, [&](uint32_t i, const Cursor& task, uint32_t task_range, bool) {
      if (i % context_.n_ranks != context_.rank) return;
      if (loaded != task.index) load_queries(task.unit);
      loaded = task.index;
      attend_range(task.unit, task_range, scratch_.slots[round % 2][i / context_.n_ranks]);
    });
    context_.barrier();
    for_each_task(cursor, range,
                  [&](uint32_t i, const Cursor& task, uint32_t task_range, bool last) {
                    if (task.index % context_.n_ranks != context_.rank) return;
                    const AttentionScratch other(context_.scratch_of(i % context_.n_ranks), layer_);
                    merge(task.unit, task_range, other.slots[round % 2][i / context_.n_ranks]);
                    if (last) finish(task.unit);
                  });
  }
}

uint64_t Worker::divide(uint32_t most_queries) {
  unit_heads_ = std::min(group_, most_queries);
  tile_tokens_ = most_queries / unit_heads_;
  uint64_t n_units = 0;
  for (Cursor cursor = first_unit(); !cursor.done; next_unit(cursor)) ++n_units;
  return n_units;
}

void Worker::run() {
  const uint64_t enough = context_.n_ranks == 1 ? 0 : uint64_t{k_units_per_rank} * context_.n_ranks;
  if (divide(k_wide) >= enough || divide(k_narrow) >= enough) {
    run_whole(first_unit());
  } else {
    run_rounds(first_unit());
  }
}

}  // namespace

uint64_t attention_scratch_bytes(const Attention& op, const Program& program) {
  return AttentionScratch(nullptr, program.kv_layers[op.layer]).cutter.used();
}

void run_attention(const Attention& op, const HostContext& context) { Worker(op, context).run(); }

}  // namespace strata::device::cpu
