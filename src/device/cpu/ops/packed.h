// Panels of a packed weight times tiles of quantised activations: the core of `linear` and
// `experts` for quantised weights.
//
// Threads: pure functions; each caller has its own PackedScratch.
#pragma once

#include "device/cpu/ops/support.h"
#include "device/cpu/packed.h"

namespace strata::device::cpu {

struct PackedMatrix {
  const std::byte* data = nullptr;  // panel 0
  const PackedKernels* kernels = nullptr;
  uint64_t n_in = 0;
  uint64_t n_out = 0;
  uint64_t panel_bytes = 0;

  uint64_t n_panels() const { return (n_out + k_panel_rows - 1) / k_panel_rows; }
  const std::byte* panel(uint64_t p) const { return data + p * panel_bytes; }
};

// Matrix `index` of a packed weight [n_in, n_out, n_matrices].
PackedMatrix packed_matrix(const HostContext& context, WeightId id, uint64_t index = 0);

// Activations of n_in columns: tiles of k_slots tokens, block by block, slot by slot.
constexpr uint64_t tile_blocks(uint64_t n_in) { return n_in / k_x_columns * k_slots; }
constexpr uint64_t tiles_of(uint64_t n_tokens) { return (n_tokens + k_slots - 1) / k_slots; }
// Where the first block of a token is; its blocks are k_slots apart.
inline XBlock* token_blocks(XBlock* tiles, uint64_t n_in, uint64_t token) {
  return tiles + token / k_slots * tile_blocks(n_in) + token % k_slots;
}

struct PackedScratch {
  explicit PackedScratch(ScratchCutter& cutter);
  std::byte* unpacked;
  float* sums;  // k_slots x k_panel_rows
};

// out[t * stride + r] = row (16 first + r) . token t, for panels [first, end) and all tokens.
// Nothing beyond the matrix's rows and the tokens is written.
void multiply_panels(const PackedMatrix& matrix, uint64_t first, uint64_t end, const XBlock* tiles,
                     uint64_t n_tokens, const PackedScratch& scratch, float* out, uint64_t stride);

// So many tokens are worth unpacking panels for; fewer are multiplied straight from the panels.
inline constexpr uint64_t k_worth_unpacking = 3 * k_slots;
// The same for tokens whose blocks follow one another from x[t] on. Of `x` and `out` there is a
// whole number of k_row_group tokens, and of `out` whole panels: what is beyond the tokens and the
// matrix's rows is written too.
void multiply_panels_of_rows(const PackedMatrix& matrix, uint64_t first, uint64_t end,
                             const XBlock* const* x, uint64_t n_tokens,
                             const PackedScratch& scratch, float* out, uint64_t stride);

}  // namespace strata::device::cpu
