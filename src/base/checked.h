// Arithmetic on sizes that come from outside: it says no instead of wrapping.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <optional>

namespace strata {

inline std::optional<uint64_t> checked_add(uint64_t a, uint64_t b) {
  uint64_t out = 0;
  if (__builtin_add_overflow(a, b, &out)) return std::nullopt;
  return out;
}

inline std::optional<uint64_t> checked_mul(uint64_t a, uint64_t b) {
  uint64_t out = 0;
  if (__builtin_mul_overflow(a, b, &out)) return std::nullopt;
  return out;
}

// `value` rounded up to a multiple of `alignment` (a power of two).
inline std::optional<uint64_t> checked_align(uint64_t value, uint64_t alignment) {
  const auto sum = checked_add(value, alignment - 1);
  if (!sum) return std::nullopt;
  return *sum & ~(alignment - 1);
}

inline bool is_power_of_two(uint64_t value) { return value != 0 && (value & (value - 1)) == 0; }

// For values already known to be small.
constexpr uint64_t align_up(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

}  // namespace strata
