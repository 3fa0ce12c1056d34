// The CPU device's layout of quantised weights, and of activations that are multiplied with them.
//
// A packed matrix is a row of panels, each of 16 rows of the weight (the last filled up with zero
// rows). A panel is a row of blocks as wide as the file's (32 or 256 columns), each exactly the
// size of the 16 blocks of the file that it holds:
//
//   d            16 F16
//   m            16 F16                                  Q4_1, Q5_1, Q2_K, Q4_K, Q5_K
//   scales       see pack.cpp                            formats with scales inside a block
//   groups of 32 columns, each
//     lines      64 bytes: for each row 4 bytes, for 4 consecutive columns
//
// A line of 8-bit quants holds columns 4i to 4i + 3, one of 4-bit quants columns 8i to 8i + 3 in
// the low nibbles and the next four in the high ones; planes of 2 (1) further bits hold the columns
// of 4 (8) lines. So one line is one operand of a 4-way dot product of 16 rows with 4 activations,
// without a sum over lanes, and the same lines serve one token (each byte read once, in order) and
// many (unpacked to 8 bits once, then used for every token).
//
// Threads: pure functions, plain data. No inline functions: kernels include this header.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strata::device::cpu {

inline constexpr size_t k_panel_rows = 16;
// Panels that are multiplied side by side where an instruction set does so.
inline constexpr uint64_t k_square_panels = 4;
// Tokens of a tile of activations.
inline constexpr size_t k_slots = 16;
// Tokens that are multiplied together where each has a row of its own.
inline constexpr size_t k_row_group = 4;
// Columns that share a scale of the activations.
inline constexpr size_t k_x_columns = 32;

// 32 activations of one token: x = d * q, |x - d q| <= d / 2, d = max |x| / 127. What does not
// belong to q is there so that offsets and minima of the weights cost one step each.
struct alignas(64) XBlock {
  int8_t q[k_x_columns];
  float d;
  float sum;              // d * (sum of q)
  float half_sum[2];      // the same for each 16
  int32_t minus;          // -(sum of q)
  int32_t minus_half[2];  // the same for each 16
  int32_t unused;
};
static_assert(sizeof(XBlock) == 64);

}  // namespace strata::device::cpu
