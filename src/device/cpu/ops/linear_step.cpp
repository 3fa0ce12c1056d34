#include <cstring>

#include "device/cpu/cpu_ops.h"
#include "device/cpu/ops/packed.h"
#include "device/cpu/pack.h"
#include "device/cpu/steps.h"

namespace strata::device::cpu {
namespace {

// Panels that a rank takes at a time while many tokens are multiplied: enough for unpacking to pay,
// few enough that ranks end together.
constexpr uint64_t k_most_panels = 8;
constexpr uint64_t k_units_per_rank = 16;
// With few tokens the panels' bytes are what takes time, and memory is fastest in long runs: each
// rank has one, of this share of its part; what is left goes to whoever is free.
constexpr uint64_t k_few_tokens = 8;
constexpr uint64_t k_own_numerator = 7, k_own_denominator = 8;

uint64_t unit_panels(uint64_t panels, uint64_t n_ranks) {
  return std::clamp<uint64_t>(panels / (k_units_per_rank * n_ranks), 1, k_most_panels);
}

struct StepScratch {
  StepScratch(std::byte* base, uint64_t n_in)
      : cutter(base), packed(cutter), row(cutter.take<float>(n_in)) {}
  ScratchCutter cutter;
  PackedScratch packed;
  float* row;  // what a norm or a gate makes of one token
};

// Blocks [begin, end) of a token's row.
struct Part {
  uint64_t token, begin, end;
};

class Quantizer {
 public:
  Quantizer(const LinearStep& step, const HostContext& context, XBlock* tiles, float* row)
      : step_(step),
        context_(context),
        table_(kernels_of(context)),
        n_in_(context.width(step.in)),
        tiles_(tiles),
        row_(row) {}

  void run() const {
    const uint64_t n_tokens = context_.rows(step_.in);
    const uint64_t n_blocks = n_in_ / k_x_columns;
    // Ranks share the tokens, or the blocks of each when there are too few.
    const uint64_t parts =
        n_tokens >= context_.n_ranks ? 1 : (context_.n_ranks + n_tokens - 1) / n_tokens;
    const Share share = share_of(n_tokens * parts, context_.rank, context_.n_ranks);
    for (uint64_t i = share.begin; i < share.end; ++i) {
      const uint64_t part = i % parts;
      quantize({i / parts, n_blocks * part / parts, n_blocks * (part + 1) / parts});
    }
  }

 private:
  void quantize(const Part& part) const {
    const uint64_t at = part.begin * k_x_columns;
    const uint64_t n = part.end * k_x_columns - at;
    const float* from = values(part.token, at, n);
    if (step_.keep && from == row_ + at) {
      std::memcpy(context_.f32(step_.in) + part.token * n_in_ + at, from, n * sizeof(float));
    }
    XBlock* to = token_blocks(tiles_, n_in_, part.token) + part.begin * k_slots;
    table_.quantize(from, n, to, k_slots);
  }

  // Columns [at, at + n) of what is to be quantised.
  const float* values(uint64_t token, uint64_t at, uint64_t n) const {
    if (step_.norm) {
      const RmsNorm& norm = *step_.norm;
      table_.rms_norm(context_.f32(norm.in) + token * n_in_, context_.weight_f32(norm.weight), row_,
                      n_in_, norm.eps);
      return row_ + at;
    }
    if (step_.gate) {
      const Gate& gate = *step_.gate;
      const auto activation =
          gate.activation == Activation::silu ? table_.gate_silu : table_.gate_gelu_tanh;
      const uint64_t place = token * n_in_ + at;
      activation(context_.f32(gate.gate) + place, context_.f32(gate.up) + place, row_ + at, n);
      return row_ + at;
    }
    return context_.f32(step_.in) + token * n_in_ + at;
  }

  const LinearStep& step_;
  const HostContext& context_;
  const KernelTable& table_;
  uint64_t n_in_;
  XBlock* tiles_;
  float* row_;
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

uint64_t linear_step_shared_bytes(uint64_t n_in, uint64_t rows) {
  return tiles_of(rows) * tile_blocks(n_in) * sizeof(XBlock);
}

uint64_t linear_step_scratch_bytes(uint64_t n_in) {
  return StepScratch(nullptr, n_in).cutter.used();
}

void run_linear_step(const LinearStep& step, const HostContext& context) {
  const uint64_t n_tokens = context.rows(step.in);
  if (n_tokens == 0) return;
  const uint64_t n_in = context.width(step.in);
  const StepScratch scratch(context.scratch.data(), n_in);
  auto* tiles = reinterpret_cast<XBlock*>(context.shared.data());
  Quantizer(step, context, tiles, scratch.row).run();
  context.barrier();

  // The panels of all outputs are numbered in one row.
  uint64_t panels = 0;
  for (const auto& output : step.outputs)
    panels += packed_matrix(context, output.weight).n_panels();
  const auto work = [&](uint64_t begin, uint64_t end) {
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
  };
  uint64_t own = 0;
  if (n_tokens <= k_few_tokens) {
    own = panels / context.n_ranks * k_own_numerator / k_own_denominator;
    work(own * context.rank, own * (context.rank + 1));
  }
  const uint64_t begin = own * context.n_ranks;
  const uint64_t unit = unit_panels(panels, context.n_ranks);
  for_each_unit(context, (panels - begin + unit - 1) / unit, [&](uint64_t i) {
    work(begin + i * unit, std::min(begin + (i + 1) * unit, panels));
  });
}

}  // namespace strata::device::cpu
