// How attention is shared out: units of queries that are computed together, and who computes them.
//
// Purpose: a unit is some consecutive tokens of one sequence with some query heads of one kv head;
// its queries share every read of the cache. Every rank walks over the units in one order and takes
// those that it claims. Without claims a unit belongs to the rank in whose share of the whole cost
// its middle lies, so that ranks end at about the same time whatever the lengths of the sequences.
// Threads: plain values over the op's context.
#pragma once

#include <algorithm>

#include "device/cpu/kernels.h"
#include "device/cpu/ops/kv_layout.h"
#include "device/host_context.h"

namespace strata::device::cpu {

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

class AttentionUnits {
 public:
  AttentionUnits(const Attention& op, const HostContext& context)
      : op_(op),
        batch_(*context.batch),
        layer_(context.program->kv_layers[op.layer]),
        layout_(layer_),
        region_(context.kv[op.layer]),
        group_(group_of(op, layer_.n_kv_heads)),
        n_ranks_(context.n_ranks) {}

  struct Cursor {
    Unit unit;
    uint64_t index = 0;
    uint64_t cost_before = 0;
    bool done = false;
  };

  // Units of at most so many queries from now on.
  void divide(uint32_t most_queries);
  // The widest units of which no rank gets much more than its part; the narrowest, and false, where
  // even those are too uneven. `widths` descend.
  template <size_t N>
  bool divide_evenly(const uint32_t (&widths)[N]) {
    for (const uint32_t width : widths) {
      divide(width);
      if (even()) return true;
    }
    return false;
  }

  Cursor first() const;
  void next(Cursor& cursor) const;
  uint32_t owner(const Cursor& at) const {
    const uint64_t middle = at.cost_before + cost(at.unit) / 2;
    return static_cast<uint32_t>(std::min<uint64_t>(middle * n_ranks_ / total_, n_ranks_ - 1));
  }

  Positions visible(uint32_t token) const {
    const auto end = static_cast<uint32_t>(batch_.positions[token]) + 1;
    return {op_.window > 0 && end > op_.window ? end - op_.window : 0, end};
  }
  // What a token sees of a range.
  Positions within(uint32_t token, uint32_t range) const {
    const Positions p = visible(token);
    const auto begin = static_cast<uint32_t>(range * k_range);
    return {std::max(p.begin, begin), std::min<uint32_t>(p.end, begin + k_range)};
  }
  // What some token of the unit sees of a range; between its tokens' parts there is no gap.
  Positions within(const Unit& unit, uint32_t range) const {
    return {within(unit.token, range).begin, within(unit.token + unit.n_tokens - 1, range).end};
  }
  // Ranges that a unit's queries see, in units of k_range.
  Positions ranges(const Unit& unit) const {
    const uint32_t begin = visible(unit.token).begin;
    const uint32_t end = visible(unit.token + unit.n_tokens - 1).end;
    constexpr auto range = static_cast<uint32_t>(k_range);
    return {begin / range, (end + range - 1) / range};
  }
  // Addresses of the keys and values at positions `all` of the unit's sequence and head; of every
  // `step`-th of them where blocks are made of such groups.
  void locate(const Unit& unit, Positions all, const std::byte** keys, const std::byte** values,
              uint32_t step = 1) const;

 private:
  // One past the last query head that reads the kv head.
  uint32_t head_end(uint32_t kv_head) const {
    return std::min((kv_head + 1) * group_ - op_.first_head, op_.n_heads);
  }
  void open_tile(Cursor& cursor, uint32_t token) const;
  // In positions of one query; bringing a position's key and value in costs k_bring of them.
  uint64_t cost(const Unit& unit) const {
    constexpr uint32_t k_bring = 16;
    const uint64_t positions =
        visible(unit.token + unit.n_tokens - 1).end - visible(unit.token).begin;
    return positions * (unit.queries() + k_bring);
  }
  bool even() const;

  const Attention& op_;
  const Batch& batch_;
  const KvLayer& layer_;
  KvLayout layout_;
  std::byte* region_;
  uint32_t group_;
  uint32_t n_ranks_;
  uint32_t unit_heads_ = 1;
  uint32_t tile_tokens_ = 1;
  uint64_t total_ = 1;  // cost of all units
};

// The units that fall to a rank, in ascending order: what it claims, where there are claims, else
// its even share.
class UnitTurns {
 public:
  UnitTurns(const AttentionUnits& units, const HostContext& context)
      : units_(units), context_(context), cursor_(units.first()) {}

  // False when there are no more.
  bool take(Unit& unit) {
    if (context_.claims != nullptr && context_.n_ranks > 1) {
      const uint64_t index = context_.claims->next.fetch_add(1, std::memory_order_relaxed);
      while (!cursor_.done && cursor_.index < index) units_.next(cursor_);
    } else {
      if (taken_) units_.next(cursor_);
      while (!cursor_.done && units_.owner(cursor_) != context_.rank) units_.next(cursor_);
    }
    taken_ = true;
    unit = cursor_.unit;
    return !cursor_.done;
  }

 private:
  const AttentionUnits& units_;
  const HostContext& context_;
  AttentionUnits::Cursor cursor_;
  bool taken_ = false;
};

// Partial results of attention over one range are handed from rank to rank in slots,
// `k_range_slots` a rank and round.
inline constexpr uint32_t k_range_slots = 8;

// Ranges of the units by many ranks. Tasks (unit, range) are numbered in one order; a round takes
// the next k_range_slots of them for every rank. Two sets of slots make one barrier a round enough:
// a set is written again only after the barrier that follows its merging.
//   attend(unit, fresh, range, set, slot)                 computes a partial result of this rank
//   merge(unit, range, set, rank, slot, first, last)      takes one in, ranges ascending
template <class Attend, class Merge>
void run_in_rounds(const AttentionUnits& units, const HostContext& context, Attend attend,
                   Merge merge) {
  AttentionUnits::Cursor cursor = units.first();
  const uint32_t tasks = k_range_slots * context.n_ranks;
  uint32_t range = cursor.done ? 0 : units.ranges(cursor.unit).begin;
  for (uint32_t round = 0; !cursor.done; ++round) {
    const auto for_each_task = [&](AttentionUnits::Cursor& at, uint32_t& r, auto work) {
      for (uint32_t i = 0; i < tasks && !at.done; ++i) {
        const Positions all = units.ranges(at.unit);
        const bool last = r + 1 == all.end;
        work(i, at, r, r == all.begin, last);
        ++r;
        if (!last) continue;
        units.next(at);
        if (!at.done) r = units.ranges(at.unit).begin;
      }
    };
    AttentionUnits::Cursor at = cursor;
    uint32_t r = range;
    uint64_t loaded = UINT64_MAX;
    for_each_task(at, r, [&](uint32_t i, const auto& task, uint32_t task_range, bool, bool) {
      if (i % context.n_ranks != context.rank) return;
      attend(task.unit, loaded != task.index, task_range, round % 2, i / context.n_ranks);
      loaded = task.index;
    });
    context.barrier();
    for_each_task(cursor, range,
                  [&](uint32_t i, const auto& task, uint32_t task_range, bool first, bool last) {
                    if (task.index % context.n_ranks != context.rank) return;
                    merge(task.unit, task_range, round % 2, i % context.n_ranks,
                          i / context.n_ranks, first, last);
                  });
  }
}

// Attention in 16-bit integers (attention_tiles.h): for caches without F32 whose KV heads are
// shared by enough query heads, where the instruction set has it.
bool has_attention_tiles(const Attention& op, const HostContext& context);
// `integers`: the cache holds them.
void run_attention_tiles(const Attention& op, const HostContext& context, bool integers = false);
uint64_t attention_tiles_scratch_bytes(const KvLayer& layer);

}  // namespace strata::device::cpu
