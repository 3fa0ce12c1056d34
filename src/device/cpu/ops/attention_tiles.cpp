// Streaming attention in 16-bit integers: see attention_tiles.h for the arithmetic and
// attention.cpp for the order of things.
//
// A unit's queries are brought into integers once, a range's keys and values once per unit, unless
// the cache holds integers; then k_tile_queries queries at a time are scored, weighted and merged
// into the op's result.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "device/cpu/attention_tiles.h"
#include "device/cpu/cpu_ops.h"
#include "device/cpu/ops/attention_units.h"
#include "device/cpu/ops/kv_integers.h"
#include "device/cpu/ops/support.h"
#include "device/cpu/steps.h"

namespace strata::device::cpu {
namespace {

static_assert(k_tile_stride >= k_range);
constexpr auto k_group = static_cast<uint32_t>(k_tile_positions);
constexpr size_t k_range_groups = k_range / k_tile_positions;

// Queries of a unit. The more, the less the bringing in of keys and values costs.
constexpr uint32_t k_most_queries = 1024;
constexpr float k_log2_e = 1.44269504f;
// Query heads that must share a KV head: bringing a key and a value into integers costs a decode
// step more than the products of fewer save (measured: with one head, twice the time of F32; with
// eight, a tenth less). Prefill would gain with any number, but both must give the same bits.
constexpr uint32_t k_sharing_heads = 4;

uint32_t padded(uint32_t dim) { return static_cast<uint32_t>(align_up(dim, k_tile_dims)); }

TilePartial take_partial(ScratchCutter& cutter, const KvLayer& layer) {
  return {cutter.take<float>(k_tile_queries), cutter.take<float>(k_tile_queries),
          cutter.take<float>(k_tile_queries),
          cutter.take<float>(k_tile_queries * padded(layer.head_dim_v))};
}

struct TileScratch {
  TileScratch(std::byte* base, const KvLayer& layer) : cutter(base) {
    for (auto& set : slots) {
      for (TilePartial& slot : set) slot = take_partial(cutter, layer);
    }
    part = take_partial(cutter, layer);
    keys = cutter.take<int16_t>(k_range * padded(layer.head_dim_k));
    values = cutter.take<int16_t>(k_range * padded(layer.head_dim_v));
    key_scales = cutter.take<float>(k_range);
    value_scales = cutter.take<float>(k_range);
    scores = cutter.take<float>(k_tile_queries * k_tile_stride);
    weights = cutter.take<int16_t>(k_tile_queries * k_tile_stride);
    queries = cutter.take<int16_t>(uint64_t{k_most_queries} * padded(layer.head_dim_k));
    factors = cutter.take<float>(k_most_queries);
    top = cutter.take<float>(k_most_queries);
    sum = cutter.take<float>(k_most_queries);
    begin = cutter.take<uint32_t>(k_tile_queries);
    end = cutter.take<uint32_t>(k_tile_queries);
    key_rows = cutter.take<const std::byte*>(k_range);
    value_rows = cutter.take<const std::byte*>(k_range);
  }

  ScratchCutter cutter;
  TilePartial slots[2][k_range_slots];
  TilePartial part;
  int16_t* keys;
  int16_t* values;
  float* key_scales;
  float* value_scales;
  float* scores;
  int16_t* weights;
  int16_t* queries;  // of the unit, and by query:
  float* factors;
  float* top;
  float* sum;
  uint32_t* begin;  // by query of a tile
  uint32_t* end;
  const std::byte** key_rows;  // by position within the range
  const std::byte** value_rows;
};

// A range's groups of 16 positions in the cache.
struct Groups {
  Positions whole;                        // within the range: the groups that hold what is seen
  const std::byte* keys[k_range_groups];  // from whole.begin on
  const std::byte* values[k_range_groups];
};

// A unit's range; none when `unit` is empty.
struct Task {
  Unit unit;
  uint32_t range = 0;

  bool operator==(const Task& other) const {
    return unit.token == other.unit.token && unit.head == other.unit.head && range == other.range &&
           unit.n_tokens == other.unit.n_tokens;
  }
};

const TileKernels::Packers& packers(const TileKernels& tiles, ElementType type) {
  if (type == ElementType::f16) return tiles.f16;
  if (type == ElementType::bf16) return tiles.bf16;
  return type == ElementType::q8_0 ? tiles.q8_0 : tiles.q4_0;
}

class TileWorker {
 public:
  TileWorker(const Attention& op, const HostContext& context, bool integers)
      : op_(op),
        context_(context),
        layer_(context.program->kv_layers[op.layer]),
        tiles_(*kernels_of(context).tiles),
        keys_(packers(tiles_, layer_.type_k)),
        values_(packers(tiles_, layer_.type_v)),
        scratch_(context.scratch.data(), layer_),
        units_(op, context),
        integers_(integers) {}

  void run();

 private:
  void load_queries(const Unit& unit);
  void locate(const Task& task, Groups& groups) const;
  // Brings a range in; what `next` will need is asked for while it is attended to.
  void load_range(const Task& task, const Task& next);
  void pack_range(const Task& task);
  // Queries [first, first + n) over the loaded range.
  void attend(const Unit& unit, uint32_t range, uint32_t first, uint32_t n, const TilePartial& out);
  void clear(const Unit& unit);
  void merge(const Unit& unit, uint32_t first, uint32_t n, const TilePartial& part);
  void finish(const Unit& unit);
  // Calls f(i, token of the unit, head of the unit) for its queries [first, first + n).
  template <class Function>
  static void for_queries(const Unit& unit, uint32_t first, uint32_t n, Function f) {
    uint32_t t = first / unit.n_heads;
    uint32_t h = first % unit.n_heads;
    for (uint32_t i = 0; i < n; ++i) {
      f(i, t, h);
      if (++h == unit.n_heads) {
        h = 0;
        ++t;
      }
    }
  }
  float* result(const Unit& unit, uint32_t t, uint32_t h) const {
    return context_.f32(op_.out) + (uint64_t{unit.token} + t) * context_.width(op_.out) +
           (uint64_t{unit.head} + h) * layer_.head_dim_v;
  }

  const Attention& op_;
  const HostContext& context_;
  const KvLayer& layer_;
  const TileKernels& tiles_;
  const TileKernels::Packers& keys_;
  const TileKernels::Packers& values_;
  TileScratch scratch_;
  AttentionUnits units_;
  const bool integers_;                       // in the cache
  Groups groups_[2];                          // of the range at hand and of the next
  Task next_;                                 // whose groups are in groups_[1]
  size_t key_lines_ = 0, value_lines_ = 0;    // of a group of the next
  const int16_t* key_tiles_[k_range_groups];  // by group of the range
  const int16_t* value_tiles_[k_range_groups];
};

void TileWorker::load_queries(const Unit& unit) {
  const uint32_t dim = layer_.head_dim_k;
  const float scale = op_.softcap > 0 ? op_.scale : op_.scale * k_log2_e;
  uint32_t q = 0;
  for (uint32_t t = 0; t < unit.n_tokens; ++t) {
    const float* row = context_.f32(op_.q) + (uint64_t{unit.token} + t) * context_.width(op_.q) +
                       uint64_t{unit.head} * dim;
    for (uint32_t h = 0; h < unit.n_heads; ++h, ++q, row += dim) {
      scratch_.factors[q] =
          tiles_.query(row, dim, scratch_.queries + uint64_t{q} * padded(dim)) * scale;
    }
  }
}

void TileWorker::locate(const Task& task, Groups& groups) const {
  const auto start = static_cast<uint32_t>(task.range * k_range);
  const Positions all = units_.within(task.unit, task.range);
  groups.whole = {(all.begin - start) / k_group * k_group,
                  (all.end - start + k_group - 1) / k_group * k_group};
  if (layer_.block_tokens % k_group != 0) return;  // no groups
  units_.locate(task.unit, {start + groups.whole.begin, start + groups.whole.end}, groups.keys,
                groups.values, k_group);
}

void TileWorker::load_range(const Task& task, const Task& next) {
  std::swap(groups_[0], groups_[1]);
  if (next_.unit.n_tokens == 0 || !(next_ == task)) locate(task, groups_[0]);
  next_ = next;
  key_lines_ = value_lines_ = 0;
  const Positions whole = groups_[0].whole;
  const uint32_t n = (whole.end - whole.begin) / k_group;
  if (next.unit.n_tokens > 0) {
    Groups& ahead = groups_[1];
    locate(next, ahead);
    if (layer_.block_tokens % k_group == 0) {
      key_lines_ = layer_.k_row_bytes() * k_group / 64;
      value_lines_ = layer_.v_row_bytes() * k_group / 64;
      // For every group at hand one that is asked for.
      const uint32_t n_ahead = (ahead.whole.end - ahead.whole.begin) / k_group;
      for (uint32_t g = n_ahead; g < n; ++g) {
        ahead.keys[g] = ahead.keys[n_ahead - 1];
        ahead.values[g] = ahead.values[n_ahead - 1];
      }
    }
  }

  const uint32_t first = whole.begin / k_group;
  if (!integers_) return pack_range(task);
  for (uint32_t g = 0; g < n; ++g) {
    key_tiles_[first + g] = reinterpret_cast<const int16_t*>(groups_[0].keys[g]);
    value_tiles_[first + g] = reinterpret_cast<const int16_t*>(groups_[0].values[g]);
  }
  tiles_.key_scales(key_tiles_ + first, n, scratch_.key_scales + whole.begin);
  tiles_.value_scales(value_tiles_ + first, n, layer_.head_dim_v,
                      scratch_.value_scales + whole.begin);
}

void TileWorker::pack_range(const Task& task) {
  const auto start = static_cast<uint32_t>(task.range * k_range);
  const Positions whole = groups_[0].whole;
  const Positions all = units_.within(task.unit, task.range);
  const Positions seen{all.begin - start, all.end - start};
  const std::byte** keys = scratch_.key_rows;
  const std::byte** values = scratch_.value_rows;
  units_.locate(task.unit, all, keys + seen.begin, values + seen.begin);
  // Groups are whole: what nobody sees repeats a row that is seen, and is left out of all sums.
  for (const std::byte** r : {keys, values}) {
    std::fill(r + whole.begin, r + seen.begin, r[seen.begin]);
    std::fill(r + seen.end, r + whole.end, r[seen.begin]);
  }
  const uint32_t n = whole.end - whole.begin;
  int16_t* key_tile = scratch_.keys + uint64_t{whole.begin} * padded(layer_.head_dim_k);
  int16_t* value_tile = scratch_.values + uint64_t{whole.begin} * padded(layer_.head_dim_v);
  keys_.keys(keys + whole.begin, n, layer_.head_dim_k, key_tile, scratch_.key_scales + whole.begin);
  values_.values(values + whole.begin, n, layer_.head_dim_v, value_tile,
                 scratch_.value_scales + whole.begin);
  for (uint32_t p = whole.begin; p < whole.end; p += k_group) {
    key_tiles_[p / k_group] = scratch_.keys + uint64_t{p} * padded(layer_.head_dim_k);
    value_tiles_[p / k_group] = scratch_.values + uint64_t{p} * padded(layer_.head_dim_v);
  }
}

void TileWorker::attend(const Unit& unit, uint32_t range, uint32_t first, uint32_t n,
                        const TilePartial& out) {
  const auto start = static_cast<uint32_t>(range * k_range);
  uint32_t begin = groups_[0].whole.end;
  uint32_t end = groups_[0].whole.begin;
  Positions seen;
  uint32_t of = UINT32_MAX;  // the token that `seen` is of
  for_queries(unit, first, n, [&](uint32_t i, uint32_t t, uint32_t) {
    if (of != t) {
      of = t;
      seen = units_.within(unit.token + t, range);
      seen = seen.empty() ? Positions{} : Positions{seen.begin - start, seen.end - start};
      if (!seen.empty()) {
        begin = std::min(begin, seen.begin / k_group * k_group);
        end = std::max(end, (seen.end + k_group - 1) / k_group * k_group);
      }
    }
    scratch_.begin[i] = seen.begin;
    scratch_.end[i] = seen.end;
  });
  const TileQueries queries{scratch_.queries + uint64_t{first} * padded(layer_.head_dim_k),
                            scratch_.factors + first,
                            scratch_.begin,
                            scratch_.end,
                            n,
                            op_.softcap,
                            scratch_.scores,
                            scratch_.weights};
  const RangeTile tile{key_tiles_,
                       scratch_.key_scales,
                       value_tiles_,
                       scratch_.value_scales,
                       padded(layer_.head_dim_k),
                       padded(layer_.head_dim_v)};
  const GroupsAhead ahead{groups_[1].keys, groups_[1].values, key_lines_, value_lines_};
  tiles_.attend(queries, tile, std::min(begin, end), end, out, ahead);
  key_lines_ = value_lines_ = 0;  // once
}

void TileWorker::clear(const Unit& unit) {
  for_queries(unit, 0, unit.queries(), [&](uint32_t i, uint32_t t, uint32_t h) {
    scratch_.top[i] = -std::numeric_limits<float>::infinity();
    scratch_.sum[i] = 0;
    std::fill_n(result(unit, t, h), layer_.head_dim_v, 0.0f);
  });
}

void TileWorker::merge(const Unit& unit, uint32_t first, uint32_t n, const TilePartial& part) {
  float* rows[k_tile_queries];
  for_queries(unit, first, n,
              [&](uint32_t i, uint32_t t, uint32_t h) { rows[i] = result(unit, t, h); });
  tiles_.merge(part, padded(layer_.head_dim_v), n, layer_.head_dim_v, scratch_.top + first,
               scratch_.sum + first, rows);
}

void TileWorker::finish(const Unit& unit) {
  for_queries(unit, 0, unit.queries(), [&](uint32_t i, uint32_t t, uint32_t h) {
    float sink = -std::numeric_limits<float>::infinity();
    if (op_.sinks != k_none) sink = context_.weight_f32(op_.sinks)[unit.head + h] * k_log2_e;
    tiles_.finish(result(unit, t, h), layer_.head_dim_v, scratch_.top[i], scratch_.sum[i], sink);
  });
}

void TileWorker::run() {
  constexpr auto together = static_cast<uint32_t>(k_tile_queries);
  if (units_.divide_evenly({k_most_queries, k_most_queries / 4, k_most_queries / 16, together})) {
    UnitTurns turns(units_, context_);
    Unit unit, after;
    for (bool more = turns.take(unit); more; unit = after) {
      load_queries(unit);
      clear(unit);
      const Positions all = units_.ranges(unit);
      for (uint32_t r = all.begin; r < all.end; ++r) {
        Task next{unit, r + 1};
        if (r + 1 == all.end) {
          // Taken only now, so that it may go to whoever is free, but in time to ask for its rows.
          more = turns.take(after);
          next = more ? Task{after, units_.ranges(after).begin} : Task{};
        }
        load_range({unit, r}, next);
        for (uint32_t q = 0; q < unit.queries(); q += together) {
          const uint32_t n = std::min(together, unit.queries() - q);
          attend(unit, r, q, n, scratch_.part);
          merge(unit, q, n, scratch_.part);
        }
      }
      finish(unit);
    }
    return;
  }
  run_in_rounds(
      units_, context_,
      [&](const Unit& unit, bool fresh, uint32_t range, uint32_t set, uint32_t slot) {
        if (fresh) load_queries(unit);
        const uint32_t after = range + context_.n_ranks;
        load_range({unit, range}, after < units_.ranges(unit).end ? Task{unit, after} : Task{});
        attend(unit, range, 0, unit.queries(), scratch_.slots[set][slot]);
      },
      [&](const Unit& unit, uint32_t, uint32_t set, uint32_t rank, uint32_t slot, bool first,
          bool last) {
        if (first) clear(unit);
        const TileScratch other(context_.scratch_of(rank), layer_);
        merge(unit, 0, unit.queries(), other.slots[set][slot]);
        if (last) finish(unit);
      });
}

// Whether attention over a layer is in integers where the instruction set has them.
bool takes_integers(const Attention& op, const KvLayer& layer) {
  return group_of(op, layer.n_kv_heads) >= k_sharing_heads && layer.type_k != ElementType::f32 &&
         layer.type_v != ElementType::f32 && op.scale > 0;
}

}  // namespace

bool has_attention_tiles(const Attention& op, const HostContext& context) {
  return kernels_of(context).tiles != nullptr &&
         takes_integers(op, context.program->kv_layers[op.layer]);
}

bool may_hold_integers(const Program& program, uint32_t index) {
  const KvLayer& layer = program.kv_layers[index];
  for (const ElementType type : {layer.type_k, layer.type_v}) {
    if (type != ElementType::f16 && type != ElementType::bf16) return false;
  }
  if (layer.head_dim_k % k_tile_dims != 0 || layer.head_dim_v % k_tile_dims != 0 ||
      layer.block_tokens % k_tile_positions != 0) {
    return false;
  }
  bool stored = false, read = false;
  for (const Op& op : program.ops) {
    const auto* store = std::get_if<StoreKv>(&op);
    if (store != nullptr && store->layer == index) stored = true;
    const auto* attention = std::get_if<Attention>(&op);
    if (attention == nullptr || attention->layer != index) continue;
    if (!takes_integers(*attention, layer)) return false;
    read = true;
  }
  return stored && read;
}

void run_attention_tiles(const Attention& op, const HostContext& context, bool integers) {
  TileWorker(op, context, integers).run();
}

void run_kv_step(const KvStep& step, const HostContext& context) {
  if (kernels_of(context).tiles == nullptr) return run(step.op, context);
  if (const auto* store = std::get_if<StoreKv>(&step.op)) return store_integers(*store, context);
  run_attention_tiles(std::get<Attention>(step.op), context, true);
}

uint64_t attention_tiles_scratch_bytes(const KvLayer& layer) {
  return TileScratch(nullptr, layer).cutter.used();
}

}  // namespace strata::device::cpu
