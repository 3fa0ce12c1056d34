// Embeddings: one vector for a text, made of the hidden states of its tokens.
//
// Purpose: which positions count (the pooling) and how the vector is scaled, in the words and
// numbers that llama.cpp's options have.
// Not for: running the model (Engine::embed, engine/scheduler.h).
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace strata {

enum class Pooling : uint8_t {
  none,  // every position by itself
  mean,  // the mean of all positions
  cls,   // the first position
  last,  // the last position
};

// "none", "mean", ...
std::string_view name_of(Pooling pooling);
std::optional<Pooling> parse_pooling(std::string_view name);

// The norms that normalise() knows: -1 leaves the vector as it is, 0 makes its largest magnitude
// 32760, 1 the sum of magnitudes 1, 2 the Euclidean length 1, p > 2 the p-norm 1.
inline constexpr int32_t k_min_norm = -1;
inline constexpr int32_t k_max_norm = 1000000;
inline constexpr int32_t k_euclidean = 2;

// In place, computed in double. A vector of zeros stays one. ErrorCode::internal when a value is
// not finite.
void normalise(std::span<float> vector, int32_t norm);

}  // namespace strata
