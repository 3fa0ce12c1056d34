// Element types of GGUF tensors: names, block sizes, and exact dequantisation to F32.
//
// Purpose: the element types of the gguf room's table that can be computed. A block holds
// `block_elems` consecutive elements of a row (dimension 0) in `block_bytes` bytes; rows are whole
// numbers of blocks. Not for: speed. Devices have their own kernels; these functions are the
// reference they are tested against. Threads: pure functions and constant tables. Source of the
// formulas: the GGML block formats as fixed by the published GGUF files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace strata {

// The values are the ids used in GGUF files.
enum class ElementType : uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  q2_k = 10,
  q3_k = 11,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  iq4_nl = 20,
  iq4_xs = 23,
  bf16 = 30,
  mxfp4 = 39,
};

struct TypeInfo {
  uint32_t id = 0;
  std::string_view name;     // "q4_k": lower case, as on the command line
  uint32_t block_elems = 0;  // elements per block; 0 for a retired type
  uint32_t block_bytes = 0;
  bool supported = false;  // false: known by name (sizes too, unless retired), cannot be computed
};

// Info for an id of a file, or nullptr when the id is not known at all. Retired ids (4, 5, 31-33,
// 36-38) are known with block_elems 0.
const TypeInfo* find_type(uint32_t id);

// Info for a supported type.
const TypeInfo& info(ElementType type);

// Type by name, case-insensitive ("Q4_K", "f16"); nullopt when unknown or unsupported.
std::optional<ElementType> parse_type(std::string_view name);

// Every type that can be computed, in ascending id.
std::span<const ElementType> supported_types();

// Bytes of `elems` consecutive elements. Here and below `elems` must be a multiple of the block
// size; anything else is ErrorCode::internal.
uint64_t row_bytes(ElementType type, uint64_t elems);

// F32 values of `elems` consecutive elements stored at `src` (no alignment needed). Each is the
// format's real value, rounded once.
void dequantize(ElementType type, const void* src, float* dst, size_t elems);

// Reference quantisation of `elems` values (round to nearest, scales as the format's common
// encoder chooses them), for f32, f16, bf16, q8_0 and q4_0: KV caches, tests, synthetic models.
// Any finite input gives a finite block: what is too large becomes the largest value there is. A
// value that is not finite keeps its block from being finite, so that the fault stays visible.
// Other types: ErrorCode::unsupported.
void quantize(ElementType type, const float* src, void* dst, size_t elems);

// Whether the row holds only finite scales, and with them only finite values; checked when a model
// is loaded.
bool all_finite(ElementType type, const void* src, size_t elems);

// Scalar conversions, IEEE round-to-nearest-even, subnormals, infinities and NaN kept (a signalling
// NaN becomes quiet, as the hardware's conversions make it).
float f16_to_f32(uint16_t half);
uint16_t f32_to_f16(float value);
inline float bf16_to_f32(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float out;
  __builtin_memcpy(&out, &wide, sizeof out);
  return out;
}
uint16_t f32_to_bf16(float value);

}  // namespace strata
