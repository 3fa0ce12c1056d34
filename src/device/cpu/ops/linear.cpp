#include "base/error.h"
#include "device/cpu/cpu_ops.h"
#include "device/cpu/ops/multiply.h"
#include "device/cpu/pack.h"

namespace strata::device::cpu {
namespace {

struct LinearScratch {
  explicit LinearScratch(std::byte* base)
      : cutter(base),
        multiply(cutter),
        sums(cutter.take<float>(k_token_tile * k_row_block)),
        tokens(cutter.take<const float*>(k_token_tile)) {}

  ScratchCutter cutter;
  MultiplyScratch multiply;
  float* sums;
  const float** tokens;
};

}  // namespace

uint64_t linear_scratch_bytes() { return LinearScratch(nullptr).cutter.used(); }

void run_linear(const Linear& op, const HostContext& context) {
  if (is_packed(context.spec(op.weight))) {
    fail(ErrorCode::internal, "weight '{}' is packed: its products are steps",
         context.spec(op.weight).name);
  }
  const Matrix matrix = matrix_of(context, op.weight);
  const uint64_t n_in = matrix.n_in;
  const uint64_t n_out = context.spec(op.weight).dims[1];
  const uint64_t n_tokens = context.rows(op.in);
  if (n_tokens == 0) return;
  // Rows are shared out first; ranks that would get none share the tokens.
  const uint64_t units = (n_out + k_strip_rows - 1) / k_strip_rows;
  const auto row_parts = static_cast<uint32_t>(std::min<uint64_t>(units, context.n_ranks));
  const uint32_t token_parts = context.n_ranks / row_parts;
  const uint32_t token_part = context.rank / row_parts;
  if (token_part >= token_parts) return;
  const Share rows = share_of(units, context.rank % row_parts, row_parts);
  const Share tokens = share_of(n_tokens, token_part, token_parts);

  const KernelTable& table = kernels_of(context);
  const LinearScratch scratch(context.scratch.data());
  const float* in = context.f32(op.in);
  float* out = context.f32(op.out);
  const float* bias = op.bias == k_none ? nullptr : context.weight_f32(op.bias);
  const uint64_t end_row = std::min(rows.end * k_strip_rows, n_out);
  for (uint64_t r = rows.begin * k_strip_rows; r < end_row; r += k_row_block) {
    const size_t n_rows = std::min<uint64_t>(k_row_block, end_row - r);
    for (uint64_t t = tokens.begin; t < tokens.end; t += k_token_tile) {
      const size_t n_tile = std::min<uint64_t>(k_token_tile, tokens.end - t);
      for (size_t i = 0; i < n_tile; ++i) scratch.tokens[i] = in + (t + i) * n_in;
      multiply(table, matrix, r, n_rows, scratch.tokens, n_tile, scratch.multiply, scratch.sums);
      for (size_t i = 0; i < n_tile; ++i) {
        float* to = out + (t + i) * n_out + r;
        const float* sums = scratch.sums + i * k_row_block;
        if (bias != nullptr) {
          for (size_t j = 0; j < n_rows; ++j) to[j] = sums[j] + bias[r + j];
        } else {
          std::copy(sums, sums + n_rows, to);
        }
      }
    }
  }
}

}  // namespace strata::device::cpu
