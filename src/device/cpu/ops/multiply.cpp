#include "device/cpu/ops/multiply.h"

#include <cstring>

namespace strata::device::cpu {
namespace {

constexpr size_t k_widest_vector = 16;

// Copies a chunk of the tile's activations, filled up with zeros to whole vectors.
void pack(const float* const* x, size_t n_tokens, size_t begin, size_t n, float* packed) {
  const size_t padded = align_up(n, k_widest_vector);
  for (size_t t = 0; t < n_tokens; ++t) {
    float* to = packed + t * k_chunk;
    std::memcpy(to, x[t] + begin, n * sizeof(float));
    std::memset(to + n, 0, (padded - n) * sizeof(float));
  }
}

}  // namespace

Matrix matrix_of(const HostContext& context, WeightId id, uint64_t index) {
  const WeightSpec& spec = context.spec(id);
  const uint64_t stride = row_bytes(spec.type, spec.dims[0]);
  return {context.weight(id) + index * spec.dims[1] * stride, spec.type, spec.dims[0], stride};
}

MultiplyScratch::MultiplyScratch(ScratchCutter& cutter)
    : strip(cutter.take<float>(k_strip_rows * k_chunk)),
      packed(cutter.take<float>(k_token_tile * k_chunk)) {}

void multiply(const KernelTable& table, const Matrix& matrix, uint64_t first_row, size_t n_rows,
              const float* const* x, size_t n_tokens, const MultiplyScratch& scratch, float* sums) {
  const FormatKernels& format = format_of(table, matrix.type);
  if (n_tokens == 1) {
    format.dot_rows(matrix.row(first_row), matrix.stride, n_rows, x[0], matrix.n_in, sums);
    return;
  }
  const TypeInfo& type = info(matrix.type);
  for (size_t begin = 0; begin < matrix.n_in; begin += k_chunk) {
    const size_t n = std::min<size_t>(k_chunk, matrix.n_in - begin);
    const size_t padded = align_up(n, k_widest_vector);
    const uint64_t offset = begin / type.block_elems * type.block_bytes;
    pack(x, n_tokens, begin, n, scratch.packed);
    for (size_t r = 0; r < n_rows; r += k_strip_rows) {
      const size_t strip_rows = std::min(k_strip_rows, n_rows - r);
      const std::byte* rows = matrix.row(first_row + r) + offset;
      const float* strip = scratch.strip;
      size_t strip_stride = k_chunk;
      if (matrix.type == ElementType::f32 && n == padded && strip_rows == k_strip_rows) {
        strip = reinterpret_cast<const float*>(rows);
        strip_stride = matrix.n_in;
      } else {
        for (size_t i = 0; i < k_strip_rows; ++i) {
          float* to = scratch.strip + i * k_chunk;
          if (i < strip_rows) {
            format.dequantize(rows + i * matrix.stride, to, n);
            std::memset(to + n, 0, (padded - n) * sizeof(float));
          } else {
            std::memset(to, 0, padded * sizeof(float));
          }
        }
      }
      table.strip(strip, strip_stride, scratch.packed, k_chunk, n_tokens, padded, sums + r,
                  begin == 0);
    }
  }
}

}  // namespace strata::device::cpu
