#include "device/cpu/ops/packed.h"

#include <cstring>

namespace strata::device::cpu {
namespace {

// Panels that are unpacked at a time, and columns: so many that a chunk of their levels stays in
// the first-level cache while the tiles pass by, and the activations' chunk and the sums of a
// micro-batch in the second.
constexpr uint64_t k_panels = 4;
constexpr uint64_t k_columns = 512;
static_assert(k_columns <= k_chunk);
constexpr uint64_t k_most_unpacked_bytes = 768;  // of 32 columns

void direct(const PackedMatrix& m, uint64_t panel, const XBlock* x, uint64_t n_tokens,
            const PackedScratch& scratch, float* out, uint64_t stride) {
  const uint64_t n_rows = std::min<uint64_t>(k_panel_rows, m.n_out - panel * k_panel_rows);
  const bool whole = n_rows == k_panel_rows && (n_tokens & (n_tokens - 1)) == 0;
  if (whole) {
    m.kernels->multiply(m.panel(panel), m.n_in, x, n_tokens, out, stride);
    return;
  }
  m.kernels->multiply(m.panel(panel), m.n_in, x, n_tokens, scratch.sums, k_panel_rows);
  for (uint64_t t = 0; t < n_tokens; ++t) {
    std::memcpy(out + t * stride, scratch.sums + t * k_panel_rows, n_rows * sizeof(float));
  }
}

// Whole panels, unpacked a chunk of columns at a time: work(column, n_columns).
template <class Work>
void by_unpacking(const PackedMatrix& m, uint64_t first, uint64_t n_panels,
                  const PackedScratch& scratch, Work work) {
  for (uint64_t column = 0; column < m.n_in; column += k_columns) {
    const uint64_t n = std::min(k_columns, m.n_in - column);
    const uint64_t unpacked = n / k_x_columns * m.kernels->unpacked_bytes;
    for (uint64_t p = 0; p < n_panels; ++p) {
      // Blocks have one size in bytes, so columns are a share of the panel.
      const std::byte* from =
          m.panel(first + p) + m.panel_bytes / k_x_columns * column / (m.n_in / k_x_columns);
      m.kernels->unpack(from, n, scratch.unpacked + p * unpacked);
    }
    work(column, n);
  }
}

}  // namespace

PackedMatrix packed_matrix(const HostContext& context, WeightId id, uint64_t index) {
  const WeightSpec& spec = context.spec(id);
  PackedMatrix m;
  m.kernels = &kernels_of(context).packed[format_index(spec.type)];
  m.n_in = spec.dims[0];
  m.n_out = spec.dims[1];
  m.panel_bytes = k_panel_rows * row_bytes(spec.type, m.n_in);
  m.data = context.weight(id) + index * m.n_panels() * m.panel_bytes;
  return m;
}

PackedScratch::PackedScratch(ScratchCutter& cutter)
    : unpacked(cutter.take<std::byte>(k_panels * k_columns / k_x_columns * k_most_unpacked_bytes)),
      sums(cutter.take<float>(k_slots * k_panel_rows)) {}

void multiply_panels(const PackedMatrix& matrix, uint64_t first, uint64_t end, const XBlock* tiles,
                     uint64_t n_tokens, const PackedScratch& scratch, float* out, uint64_t stride) {
  const uint64_t whole_tiles = n_tokens >= k_worth_unpacking ? n_tokens / k_slots : 0;
  const uint64_t whole_end = std::min(end, matrix.n_out / k_panel_rows);
  for (uint64_t p = first; p < whole_end && whole_tiles > 0; p += k_panels) {
    const uint64_t n_panels = std::min(k_panels, whole_end - p);
    by_unpacking(matrix, p, n_panels, scratch, [&](uint64_t column, uint64_t n) {
      for (uint64_t tile = 0; tile < whole_tiles; ++tile) {
        const XBlock* x = tiles + tile * tile_blocks(matrix.n_in) + tile_blocks(column);
        float* to = out + tile * k_slots * stride + (p - first) * k_panel_rows;
        matrix.kernels->multiply_unpacked(scratch.unpacked, n_panels, n, x, to, stride,
                                          column == 0);
      }
    });
  }
  for (uint64_t p = first; p < end; ++p) {
    const uint64_t done = p < whole_end ? whole_tiles : 0;
    for (uint64_t t = done * k_slots; t < n_tokens; t += k_slots) {
      direct(matrix, p, tiles + t / k_slots * tile_blocks(matrix.n_in),
             std::min<uint64_t>(k_slots, n_tokens - t), scratch,
             out + t * stride + (p - first) * k_panel_rows, stride);
    }
  }
}

void multiply_panels_of_rows(const PackedMatrix& matrix, uint64_t first, uint64_t end,
                             const XBlock* const* x, uint64_t n_tokens,
                             const PackedScratch& scratch, float* out, uint64_t stride) {
  for (uint64_t p = first; p < end; p += k_panels) {
    const uint64_t n_panels = std::min(k_panels, end - p);
    by_unpacking(matrix, p, n_panels, scratch, [&](uint64_t column, uint64_t n) {
      matrix.kernels->multiply_rows(scratch.unpacked, n_panels, n, x, column / k_x_columns,
                                    n_tokens, out + (p - first) * k_panel_rows, stride,
                                    column == 0);
    });
  }
}

}  // namespace strata::device::cpu
