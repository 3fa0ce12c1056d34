#include <cstring>
#include <limits>

#include "base/error.h"
#include "device/cpu/cpu_ops.h"
#include "device/cpu/ops/multiply.h"
#include "device/cpu/ops/packed.h"
#include "device/cpu/ops/tiled_input.h"
#include "device/cpu/pack.h"
#include "device/cpu/steps.h"

namespace strata::device::cpu {
namespace {

// Rows of a weight that a rank works on at a time, a whole number of activation blocks.
constexpr uint64_t k_rows = 128;
static_assert(k_rows <= k_row_block && k_rows % k_x_columns == 0);
// Activations of one expert's tokens that a rank works on at a time.
constexpr uint64_t k_tile_bytes = uint64_t{512} << 10;

// Tokens that are worked on at a time: fewer when their activations are wide.
uint64_t tile_tokens(uint64_t widest) {
  const uint64_t fit = k_tile_bytes / (2 * widest) / k_slots * k_slots;
  return std::clamp<uint64_t>(fit, k_slots, k_token_tile);
}

// A row of activations for each pair of token and expert that may share rows of `per_row` pairs:
// in F32, or as blocks for a packed weight.
struct Rows {
  const float* f32 = nullptr;
  const XBlock* blocks = nullptr;  // row by row, not in tiles
  uint64_t width = 0;
  uint64_t pairs_per_row = 1;
};

struct ExpertsScratch {
  ExpertsScratch(std::byte* base, const Experts& op, const Program& program, uint64_t max_rows)
      : widest(std::max(program.weights[op.gate].dims[0], program.weights[op.down].dims[0])),
        n_tile(tile_tokens(widest)),
        cutter(base),
        multiply(cutter),
        packed(cutter),
        gate(cutter.take<float>(k_token_tile * k_row_block)),
        up(cutter.take<float>(k_token_tile * k_row_block)),
        tokens(cutter.take<const float*>(k_token_tile)),
        rows(cutter.take<const XBlock*>(k_token_tile)),
        starts(cutter.take<uint32_t>(program.weights[op.gate].dims[2] + 1)),
        pairs(cutter.take<uint32_t>(max_rows * op.n_used)),
        tiles(cutter.take<XBlock>(tiles_of(std::min(n_tile, k_worth_unpacking)) *
                                  tile_blocks(widest))) {}

  uint64_t widest;
  uint64_t n_tile;
  ScratchCutter cutter;
  MultiplyScratch multiply;
  PackedScratch packed;
  float* gate;
  float* up;
  const float** tokens;
  const XBlock** rows;  // of the pairs, where they are multiplied without being gathered
  uint32_t* starts;     // of each expert's pairs
  uint32_t* pairs;      // token * n_used + slot, by expert
  XBlock* tiles;        // the activations of few pairs, gathered
};

// The pairs of the micro-batch by expert: experts ascending, the pairs of each in order.
class Grouping {
 public:
  // Of the experts [first, first + n_experts). `starts` has n_experts + 1 places, `pairs` n_pairs.
  Grouping(const int32_t* ids, uint64_t n_pairs, uint64_t first, uint64_t n_experts,
           uint32_t* starts, uint32_t* pairs)
      : n_experts_(n_experts), starts_(starts), pairs_(pairs) {
    const auto expert_of = [&](uint64_t i) { return static_cast<uint64_t>(ids[i]) - first; };
    std::fill_n(starts, n_experts + 1, 0u);
    for (uint64_t i = 0; i < n_pairs; ++i) {
      const uint64_t e = expert_of(i);
      if (e < n_experts) ++starts[e];
    }
    uint32_t end = 0;
    for (uint64_t e = 0; e <= n_experts; ++e) starts[e] = end += starts[e];
    // From the last on, so that each start ends where its expert begins.
    for (uint64_t i = n_pairs; i-- > 0;) {
      const uint64_t e = expert_of(i);
      if (e < n_experts) pairs[--starts[e]] = static_cast<uint32_t>(i);
    }
  }

  uint64_t n_experts() const { return n_experts_; }

  // Calls work(pairs, n) for every tile of up to `tile` pairs of the expert.
  template <class Work>
  void for_each_tile(uint64_t expert, uint64_t tile, Work work) const {
    for (uint64_t at = starts_[expert]; at < starts_[expert + 1]; at += tile) {
      work(pairs_ + at, std::min<uint64_t>(tile, starts_[expert + 1] - at));
    }
  }

 private:
  uint64_t n_experts_;
  const uint32_t* starts_;
  const uint32_t* pairs_;
};

// One rank's work on an op.
class Worker {
 public:
  Worker(const ExpertsStep& step, const HostContext& context)
      : op_(step.op),
        context_(context),
        table_(kernels_of(context)),
        n_embd_(context.width(op_.in)),
        n_tokens_(context.rows(op_.in)),
        scratch_(context.scratch.data(), op_, *context.program, n_tokens_),
        grouping_(context.i32(op_.ids), n_tokens_ * op_.n_used, op_.first_expert,
                  context.spec(op_.gate).dims[2], scratch_.starts, scratch_.pairs),
        packed_in_(step.in_blocks != k_none),
        packed_down_(step.hidden_blocks != k_none),
        in_blocks_(packed_in_ ? blocks(step.in_blocks) : nullptr),
        hidden_blocks_(packed_down_ ? blocks(step.hidden_blocks) : nullptr) {}

  void run() {
    if (packed_in_) {
      const Share share = share_of(n_tokens_, context_.rank, context_.n_ranks);
      for (uint64_t t = share.begin; t < share.end; ++t) {
        table_.quantize(context_.f32(op_.in) + t * n_embd_, n_embd_,
                        in_blocks_ + t * n_embd_ / k_x_columns, 1);
      }
      context_.barrier();
    }
    fill_hidden();
    context_.barrier();
    add_down();
  }

 private:
  bool packed(WeightId id) const { return is_packed(context_.spec(id)); }
  XBlock* blocks(ValueId id) const { return reinterpret_cast<XBlock*>(context_.values[id]); }

  // Makes the rows of the tile's pairs ready for both kinds of weight that may want them: blocks
  // stay where they are when they are many, else a tile holds them.
  void find_rows(const Rows& rows, const uint32_t* pairs, size_t n) {
    if (rows.blocks != nullptr && n >= k_worth_unpacking) {
      const uint64_t n_blocks = rows.width / k_x_columns;
      for (size_t i = 0; i < (n + k_row_group - 1) / k_row_group * k_row_group; ++i) {
        const uint64_t row = pairs[std::min(i, n - 1)] / rows.pairs_per_row;
        scratch_.rows[i] = rows.blocks + row * n_blocks;
      }
    }
    for (size_t i = 0; i < n; ++i) {
      const uint64_t row = pairs[i] / rows.pairs_per_row;
      if (rows.f32 != nullptr) scratch_.tokens[i] = rows.f32 + row * rows.width;
      if (rows.blocks == nullptr || n >= k_worth_unpacking) continue;
      const uint64_t n_blocks = rows.width / k_x_columns;
      const XBlock* from = rows.blocks + row * n_blocks;
      XBlock* to = token_blocks(scratch_.tiles, rows.width, i);
      for (uint64_t b = 0; b < n_blocks; ++b) to[b * k_slots] = from[b];
    }
  }

  // sums[i * k_row_block + j] = row (r + j) of the expert's matrix . the tile's row i.
  void multiply_rows(WeightId weight, uint64_t expert, uint64_t r, size_t n_rows, size_t n,
                     float* sums) {
    if (packed(weight)) {
      const PackedMatrix m = packed_matrix(context_, weight, expert);
      const uint64_t first = r / k_panel_rows;
      const uint64_t end = (r + n_rows + k_panel_rows - 1) / k_panel_rows;
      if (n >= k_worth_unpacking) {
        multiply_panels_of_rows(m, first, end, scratch_.rows, n, scratch_.packed, sums,
                                k_row_block);
      } else {
        multiply_panels(m, first, end, scratch_.tiles, n, scratch_.packed, sums, k_row_block);
      }
    } else {
      multiply(table_, matrix_of(context_, weight, expert), r, n_rows, scratch_.tokens, n,
               scratch_.multiply, sums);
    }
  }

  // Hidden rows, one for each pair. Of few tokens every rank has its range of columns, of many
  // each expert's are computed by whoever is free.
  void fill_hidden() {
    const uint64_t n_experts = grouping_.n_experts();
    if (n_tokens_ <= k_few_tokens) {
      const Share ff = share_in_units(context_, op_.n_ff, k_x_columns);
      for (uint64_t e = 0; e < n_experts; ++e) fill_hidden(e, ff);
      return;
    }
    // Parts of whole squares, where there are few experts for the ranks.
    constexpr uint64_t k_unit = k_square_panels * k_panel_rows;
    const uint64_t wanted = (k_units_per_rank * context_.n_ranks + n_experts - 1) / n_experts;
    const uint64_t units = (op_.n_ff + k_unit - 1) / k_unit;
    const uint64_t parts = std::min(wanted, units);
    for_each_unit(context_, n_experts * parts, [&](uint64_t i) {
      const Share part =
          share_of(units, static_cast<uint32_t>(i % parts), static_cast<uint32_t>(parts));
      fill_hidden(i / parts,
                  {part.begin * k_unit, std::min<uint64_t>(part.end * k_unit, op_.n_ff)});
    });
  }

  // Columns `ff` of the expert's pairs.
  void fill_hidden(uint64_t expert, Share ff) {
    if (ff.begin >= ff.end) return;
    const Rows rows{context_.f32(op_.in), in_blocks_, n_embd_, op_.n_used};
    const auto activation =
        op_.activation == Activation::silu ? table_.gate_silu : table_.gate_gelu_tanh;
    float* hidden = packed_down_ ? nullptr : context_.f32(op_.hidden);
    grouping_.for_each_tile(expert, scratch_.n_tile, [&](const uint32_t* pairs, size_t n) {
      find_rows(rows, pairs, n);
      for (uint64_t r = ff.begin; r < ff.end; r += k_rows) {
        const size_t n_rows = std::min<uint64_t>(k_rows, ff.end - r);
        multiply_rows(op_.gate, expert, r, n_rows, n, scratch_.gate);
        multiply_rows(op_.up, expert, r, n_rows, n, scratch_.up);
        for (size_t i = 0; i < n; ++i) {
          float* gate = scratch_.gate + i * k_row_block;
          const uint64_t place = uint64_t{pairs[i]} * op_.n_ff + r;
          float* to = hidden == nullptr ? gate : hidden + place;
          activation(gate, scratch_.up + i * k_row_block, to, n_rows);
          if (packed_down_) {
            table_.quantize(gate, n_rows, hidden_blocks_ + place / k_x_columns, 1);
          }
        }
      }
    });
  }

  // Every rank adds its range of output columns for all tokens, experts ascending.
  void add_down() {
    const float* weights = context_.f32(op_.weights);
    float* out = context_.f32(op_.out);
    const Rows rows{packed_down_ ? nullptr : context_.f32(op_.hidden), hidden_blocks_, op_.n_ff, 1};
    const Share embd = share_in_units(context_, n_embd_, k_panel_rows);
    for (uint64_t t = 0; t < n_tokens_; ++t) {
      std::fill(out + t * n_embd_ + embd.begin, out + t * n_embd_ + embd.end, 0.0f);
    }
    for (uint64_t e = 0; e < grouping_.n_experts(); ++e) {
      grouping_.for_each_tile(e, scratch_.n_tile, [&](const uint32_t* pairs, size_t n) {
        find_rows(rows, pairs, n);
        for (uint64_t r = embd.begin; r < embd.end; r += k_rows) {
          const size_t n_rows = std::min<uint64_t>(k_rows, embd.end - r);
          multiply_rows(op_.down, e, r, n_rows, n, scratch_.gate);
          for (size_t i = 0; i < n; ++i) {
            float* to = out + pairs[i] / op_.n_used * n_embd_ + r;
            table_.blend(to, 1.0f, scratch_.gate + i * k_row_block, weights[pairs[i]], n_rows);
          }
        }
      });
    }
  }

  const Experts& op_;
  const HostContext& context_;
  const KernelTable& table_;
  uint64_t n_embd_;
  uint64_t n_tokens_;
  ExpertsScratch scratch_;
  Grouping grouping_;
  bool packed_in_, packed_down_;
  XBlock* in_blocks_;      // of each token, when gate or up is packed
  XBlock* hidden_blocks_;  // of each pair, when down is packed
};

}  // namespace

uint64_t experts_scratch_bytes(const Experts& op, const Program& program, uint64_t max_rows) {
  return ExpertsScratch(nullptr, op, program, max_rows).cutter.used();
}

void run_experts_step(const ExpertsStep& step, const HostContext& context) {
  Worker(step, context).run();
}

void run_experts(const Experts& op, const HostContext& context) {
  for (const WeightId id : {op.gate, op.up, op.down}) {
    if (is_packed(context.spec(id))) {
      fail(ErrorCode::internal, "weight '{}' is packed: its products are steps",
           context.spec(id).name);
    }
  }
  run_experts_step({op, k_none, k_none}, context);
}

}  // namespace strata::device::cpu
