// The hidden activations of a gated feed-forward, never stored in F32: a rank computes some columns
// of both matrices for some tokens, gates them and quantises them where the next step reads them.
#include "device/cpu/cpu_ops.h"
#include "device/cpu/ops/tiled_input.h"

namespace strata::device::cpu {
namespace {

// Work is cut in pairs of panels of either matrix: one block of hidden activations.
constexpr uint64_t k_block_panels = k_x_columns / k_panel_rows;
static_assert(k_x_columns % k_panel_rows == 0);
// Blocks, and tokens of each, whose sums a rank holds at a time while many tokens are multiplied;
// with few, blocks are many instead, so that the panels of either matrix are read in long runs.
constexpr uint64_t k_most_blocks = 4;
constexpr uint64_t k_most_tokens = 512;
constexpr uint64_t k_run_blocks = 32;
static_assert(k_most_tokens % k_slots == 0);

struct GatedScratch {
  // For `max_rows` at most.
  GatedScratch(std::byte* base, uint64_t row_floats, uint64_t max_rows)
      : cutter(base),
        packed(cutter),
        row(cutter.take<float>(row_floats)),
        gate(cutter.take<float>(sums(max_rows))),
        up(cutter.take<float>(sums(max_rows))) {}

  static uint64_t sums(uint64_t max_rows) {
    return k_x_columns * std::max(std::min(max_rows, k_most_tokens) * k_most_blocks,
                                  std::min(max_rows, k_few_tokens) * k_run_blocks);
  }

  ScratchCutter cutter;
  PackedScratch packed;
  float* row;  // what a norm makes of one token
  float* gate;
  float* up;  // [token][column], as many columns as are at hand
};

class GatedWorker {
 public:
  GatedWorker(const GatedStep& step, const HostContext& context, const GatedScratch& scratch)
      : step_(step),
        context_(context),
        table_(kernels_of(context)),
        scratch_(scratch),
        gate_(packed_matrix(context, step.gate.weight)),
        up_(packed_matrix(context, step.up.weight)),
        activation_(step.activation == Activation::silu ? table_.gate_silu : table_.gate_gelu_tanh),
        tiles_(tiles_at(context, step.input.tiles)),
        hidden_(tiles_at(context, step.hidden)) {}

  uint64_t n_blocks() const { return gate_.n_out / k_x_columns; }

  // Blocks [begin, end) of tokens [first, first + n); `first` begins a tile.
  void run(uint64_t begin, uint64_t end, uint64_t first, uint64_t n) const {
    const uint64_t column = begin * k_x_columns;
    const uint64_t width = (end - begin) * k_x_columns;
    multiply(gate_, step_.gate.bias, begin, end, first, n, scratch_.gate);
    multiply(up_, step_.up.bias, begin, end, first, n, scratch_.up);
    for (uint64_t t = 0; t < n; ++t) {
      float* row = scratch_.gate + t * width;
      activation_(row, scratch_.up + t * width, row, width);
      XBlock* to = token_blocks(hidden_, gate_.n_out, first + t) + column / k_x_columns * k_slots;
      table_.quantize(row, width, to, k_slots);
    }
  }

 private:
  void multiply(const PackedMatrix& m, WeightId bias, uint64_t begin, uint64_t end, uint64_t first,
                uint64_t n, float* sums) const {
    const uint64_t width = (end - begin) * k_x_columns;
    multiply_panels(m, begin * k_block_panels, end * k_block_panels,
                    tiles_ + first / k_slots * tile_blocks(m.n_in), n, scratch_.packed, sums,
                    width);
    if (bias == k_none) return;
    const float* add = context_.weight_f32(bias) + begin * k_x_columns;
    for (uint64_t t = 0; t < n; ++t) table_.add(sums + t * width, add, sums + t * width, width);
  }

  const GatedStep& step_;
  const HostContext& context_;
  const KernelTable& table_;
  const GatedScratch& scratch_;
  PackedMatrix gate_, up_;
  void (*activation_)(const float* gate, const float* up, float* out, size_t n);
  const XBlock* tiles_;
  XBlock* hidden_;
};

}  // namespace

uint64_t gated_step_scratch_bytes(const GatedStep& step, const Program& program,
                                  uint64_t max_rows) {
  return GatedScratch(nullptr, tiled_input_row(step.input, program), max_rows).cutter.used();
}

void run_gated_step(const GatedStep& step, const HostContext& context) {
  const uint64_t n_tokens = context.rows(step.input.in);
  if (n_tokens == 0) return;
  const GatedScratch scratch(context.scratch.data(), tiled_input_row(step.input, *context.program),
                             n_tokens);
  make_tiles(step.input, context, scratch.row);
  context.barrier();
  const GatedWorker worker(step, context, scratch);
  const uint64_t at_once = n_tokens <= k_few_tokens ? k_run_blocks : k_most_blocks;
  for_each_part(context, worker.n_blocks(), k_most_blocks, k_square_panels / k_block_panels,
                n_tokens, [&](uint64_t begin, uint64_t end) {
                  for (uint64_t b = begin; b < end; b += at_once) {
                    for (uint64_t t = 0; t < n_tokens; t += k_most_tokens) {
                      worker.run(b, std::min(b + at_once, end), t,
                                 std::min(k_most_tokens, n_tokens - t));
                    }
                  }
                });
}

}  // namespace strata::device::cpu
