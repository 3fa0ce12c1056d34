// Random values written straight in a block format, without quantising floats.
//
// Purpose: weights of synthetic models. The quants are random bits, the scales are chosen so that
// the values have mean 0 and the standard deviation asked for; scales (and minima) differ from
// block to block and use the whole range that encoders use, so that every path of a kernel is
// taken. Fast: a few cycles per byte.
// Not for: anything that must look like a trained weight beyond its first two moments.
// Threads: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/types.h"

namespace strata {

// A sequence of random numbers (SplitMix64, Steele et al. 2014): any seed is as good as another.
class RandomBits {
 public:
  explicit RandomBits(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }

 private:
  uint64_t state_;
};

// Writes `elems` values (a multiple of the type's block) with mean 0 and standard deviation
// `sigma` at `dst`; the same seed gives the same bytes on every machine. Every value is finite.
void random_values(ElementType type, uint64_t seed, double sigma, void* dst, size_t elems);

}  // namespace strata
