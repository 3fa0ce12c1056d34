#include "device/cpu/ops/attention_units.h"

namespace strata::device::cpu {

void AttentionUnits::open_tile(Cursor& cursor, uint32_t token) const {
  cursor.done = token >= batch_.size();
  if (cursor.done) return;
  uint32_t end = token + 1;
  while (end < batch_.size() && end - token < tile_tokens_ &&
         batch_.sequences[end] == batch_.sequences[token] &&
         batch_.positions[end] == batch_.positions[end - 1] + 1) {
    ++end;
  }
  cursor.unit = {token, end - token, 0, 0, std::min(unit_heads_, head_end(0))};
}

AttentionUnits::Cursor AttentionUnits::first() const {
  Cursor cursor;
  open_tile(cursor, 0);
  return cursor;
}

void AttentionUnits::next(Cursor& cursor) const {
  ++cursor.index;
  cursor.cost_before += cost(cursor.unit);
  Unit& unit = cursor.unit;
  unit.head += unit.n_heads;
  if (unit.head == head_end(unit.kv_head)) ++unit.kv_head;
  if (unit.kv_head == layer_.n_kv_heads) {
    open_tile(cursor, unit.token + unit.n_tokens);
  } else {
    unit.n_heads = std::min(unit_heads_, head_end(unit.kv_head) - unit.head);
  }
}

void AttentionUnits::divide(uint32_t most_queries) {
  unit_heads_ = std::min(group_, most_queries);
  tile_tokens_ = most_queries / unit_heads_;
  Cursor cursor = first();
  while (!cursor.done) next(cursor);
  total_ = std::max<uint64_t>(cursor.cost_before, 1);
}

bool AttentionUnits::even() const {
  if (n_ranks_ == 1) return true;
  uint64_t most = 0, load = 0;
  uint32_t rank = 0;
  for (Cursor cursor = first(); !cursor.done; next(cursor)) {
    if (const uint32_t of = owner(cursor); of != rank) {
      rank = of;
      load = 0;
    }
    load += cost(cursor.unit);
    most = std::max(most, load);
  }
  constexpr uint64_t parts = 16;  // of a rank's share may be too much
  return most * n_ranks_ * parts <= total_ * (parts + 1);
}

void AttentionUnits::locate(const Unit& unit, Positions all, const std::byte** keys,
                            const std::byte** values, uint32_t step) const {
  const std::vector<uint32_t>& blocks = batch_.block_tables[batch_.sequences[unit.token]];
  for (uint32_t p = all.begin; p < all.end;) {
    const uint64_t block = blocks[p / layer_.block_tokens];
    const uint32_t row = p % layer_.block_tokens;
    const std::byte* key = layout_.keys(region_, block, unit.kv_head);
    const std::byte* value = layout_.values(region_, block, unit.kv_head);
    const uint32_t end = std::min(all.end, p + (layer_.block_tokens - row));
    for (uint32_t r = row; p < end; p += step, r += step) {
      *keys++ = key + r * layout_.k_row;
      *values++ = value + r * layout_.v_row;
    }
  }
}

}  // namespace strata::device::cpu
