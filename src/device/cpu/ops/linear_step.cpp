#include "device/cpu/cpu_ops.h"
#include "device/cpu/ops/tiled_input.h"

namespace strata::device::cpu {
namespace {

constexpr uint64_t k_most_panels = 8;
static_assert(k_most_panels % k_square_panels == 0);

struct StepScratch {
  StepScratch(std::byte* base, uint64_t row_floats)
      : cutter(base), packed(cutter), row(cutter.take<float>(row_floats)) {}
  ScratchCutter cutter;
  PackedScratch packed;
  float* row;  // what a norm or a gate makes of one token
};

// Bias and residual of panels [first, end).
void finish(const LinearStep::Output& output, const HostContext& context, uint64_t n_out,
            uint64_t n_tokens, uint64_t first, uint64_t end) {
  if (output.bias == k_none && output.residual == k_none) return;
  const KernelTable& table = kernels_of(context);
  const uint64_t begin = first * k_panel_rows;
  const uint64_t n = std::min(end * k_panel_rows, n_out) - begin;
  for (uint64_t t = 0; t < n_tokens; ++t) {
    float* out = context.f32(output.out) + t * n_out + begin;
    if (output.bias != k_none) table.add(out, context.weight_f32(output.bias) + begin, out, n);
    if (output.residual != k_none) {
      table.add(out, context.f32(output.residual) + t * n_out + begin, out, n);
    }
  }
}

}  // namespace

uint64_t linear_step_scratch_bytes(const LinearStep& step, const Program& program) {
  return StepScratch(nullptr, tiled_input_row(step.input, program)).cutter.used();
}

void run_linear_step(const LinearStep& step, const HostContext& context) {
  const uint64_t n_tokens = context.rows(step.input.in);
  if (n_tokens == 0) return;
  const StepScratch scratch(context.scratch.data(), tiled_input_row(step.input, *context.program));
  if (!step.input.ready) {
    make_tiles(step.input, context, scratch.row);
    context.barrier();
  }
  const XBlock* tiles = tiles_at(context, step.input.tiles);

  // The panels of all outputs are numbered in one row.
  uint64_t panels = 0;
  for (const auto& output : step.outputs)
    panels += packed_matrix(context, output.weight).n_panels();
  for_each_part(context, panels, k_most_panels, k_square_panels, n_tokens,
                [&](uint64_t begin, uint64_t end) {
                  uint64_t base = 0;
                  for (const auto& output : step.outputs) {
                    const PackedMatrix m = packed_matrix(context, output.weight);
                    const uint64_t first = std::max(begin, base) - base;
                    const uint64_t last = std::min(std::max(end, base) - base, m.n_panels());
                    if (first < last) {
                      multiply_panels(m, first, last, tiles, n_tokens, scratch.packed,
                                      context.f32(output.out) + first * k_panel_rows, m.n_out);
                      finish(output, context, m.n_out, n_tokens, first, last);
                    }
                    base += m.n_panels();
                  }
                });
}

}  // namespace strata::device::cpu
