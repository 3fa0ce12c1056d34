// What comes before every product with packed weights: the input, normed or gated on the way,
// quantised into tiles; and how panels are shared out over a team.
//
// Threads: each caller has its own row.
#pragma once

#include "device/cpu/ops/packed.h"
#include "device/cpu/steps.h"

namespace strata::device::cpu {

// With so few tokens the panels' bytes are what takes time, and memory is fastest in long runs:
// each rank has one, of this share of its part; what is left goes to whoever is free.
inline constexpr uint64_t k_few_tokens = 8;

// Units of a step's work for each rank, so that all end together.
inline constexpr uint64_t k_units_per_rank = 16;

// Of `count` pieces of work (panels, or some together): what each rank has of its own, and how the
// rest is cut.
struct Division {
  uint64_t own = 0;   // of each rank: [own * rank, own * (rank + 1))
  uint64_t unit = 1;  // of the rest
  uint64_t n_units = 0;
};
// `most`: pieces that a rank takes at a time while many tokens are multiplied; enough for unpacking
// to pay, few enough that ranks end together. `side`: pieces that make up the side of a square
// (packed_multiply.h): a unit has whole squares.
Division divide(uint64_t count, uint64_t most, uint64_t side, uint64_t n_tokens, uint64_t n_ranks);

// Calls work(begin, end) for pieces, each by one rank.
template <class Work>
void for_each_part(const HostContext& context, uint64_t count, uint64_t most, uint64_t side,
                   uint64_t n_tokens, Work work) {
  const Division d = divide(count, most, side, n_tokens, context.n_ranks);
  if (d.own > 0) work(d.own * context.rank, d.own * (context.rank + 1));
  const uint64_t begin = d.own * context.n_ranks;
  for_each_unit(context, d.n_units, [&](uint64_t i) {
    work(begin + i * d.unit, std::min(begin + (i + 1) * d.unit, count));
  });
}

// Floats of the row that make_tiles needs; 0: none.
inline uint64_t tiled_input_row(const TiledInput& input, const Program& program) {
  return input.norm || input.gate ? program.values[input.in].width : 0;
}

// This rank's share of the tiles; a barrier follows before anybody reads them.
void make_tiles(const TiledInput& input, const HostContext& context, float* row);

inline XBlock* tiles_at(const HostContext& context, ValueId id) {
  return reinterpret_cast<XBlock*>(context.values[id]);
}

}  // namespace strata::device::cpu
