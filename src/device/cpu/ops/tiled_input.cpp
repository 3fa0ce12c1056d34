#include "device/cpu/ops/tiled_input.h"

#include <cstring>

namespace strata::device::cpu {
namespace {

constexpr uint64_t k_own_numerator = 7, k_own_denominator = 8;

// Blocks [begin, end) of a token's row.
struct Part {
  uint64_t token, begin, end;
};

class Quantizer {
 public:
  Quantizer(const TiledInput& input, const HostContext& context, float* row)
      : input_(input),
        context_(context),
        table_(kernels_of(context)),
        n_in_(context.width(input.in)),
        tiles_(tiles_at(context, input.tiles)),
        row_(row) {}

  void run() const {
    const uint64_t n_tokens = context_.rows(input_.in);
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
    if (input_.keep) {
      std::memcpy(context_.f32(input_.in) + part.token * n_in_ + at, from, n * sizeof(float));
    }
    XBlock* to = token_blocks(tiles_, n_in_, part.token) + part.begin * k_slots;
    table_.quantize(from, n, to, k_slots);
  }

  // Columns [at, at + n) of what is to be quantised.
  const float* values(uint64_t token, uint64_t at, uint64_t n) const {
    if (input_.norm) {
      const RmsNorm& norm = *input_.norm;
      table_.rms_norm(context_.f32(norm.in) + token * n_in_, context_.weight_f32(norm.weight), row_,
                      n_in_, norm.eps);
      return row_ + at;
    }
    if (input_.gate) {
      const Gate& gate = *input_.gate;
      const auto activation =
          gate.activation == Activation::silu ? table_.gate_silu : table_.gate_gelu_tanh;
      const uint64_t place = token * n_in_ + at;
      activation(context_.f32(gate.gate) + place, context_.f32(gate.up) + place, row_ + at, n);
      return row_ + at;
    }
    return context_.f32(input_.in) + token * n_in_ + at;
  }

  const TiledInput& input_;
  const HostContext& context_;
  const KernelTable& table_;
  uint64_t n_in_;
  XBlock* tiles_;
  float* row_;
};

}  // namespace

Division divide(uint64_t count, uint64_t most, uint64_t side, uint64_t n_tokens, uint64_t n_ranks) {
  Division d;
  if (n_tokens <= k_few_tokens) d.own = count / n_ranks * k_own_numerator / k_own_denominator;
  d.unit = std::clamp<uint64_t>(count / (k_units_per_rank * n_ranks), 1, most);
  if (n_tokens > k_few_tokens) d.unit = (d.unit + side - 1) / side * side;
  d.n_units = (count - d.own * n_ranks + d.unit - 1) / d.unit;
  return d;
}

void make_tiles(const TiledInput& input, const HostContext& context, float* row) {
  Quantizer(input, context, row).run();
}

}  // namespace strata::device::cpu
