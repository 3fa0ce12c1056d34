// Empty for other processors: probe.cpp never asks for it there.
#if defined(__x86_64__)
#include <immintrin.h>

#include "device/cpu/probe.h"

namespace strata::device::cpu {
namespace {

uint64_t sum_of(__m256i value) {
  uint64_t words[4];
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(words), value);
  return words[0] + words[1] + words[2] + words[3];
}

uint64_t read(const std::byte* data, size_t bytes) {
  __m256i sums[8];
  for (__m256i& sum : sums) sum = _mm256_setzero_si256();
  for (size_t i = 0; i < bytes; i += 256) {
    const auto* at = reinterpret_cast<const __m256i*>(data + i);
    for (size_t j = 0; j < 8; ++j) sums[j] = _mm256_add_epi64(sums[j], _mm256_load_si256(at + j));
  }
  for (size_t j = 1; j < 8; ++j) sums[0] = _mm256_add_epi64(sums[0], sums[j]);
  return sum_of(sums[0]);
}

constexpr size_t k_chains = 8;

// Pairs of 8-bit products in 16 bits, pairs of those in 32 bits, added up: what there is without
// VNNI.
uint64_t multiply(uint64_t rounds) {
  __m256i sums[k_chains];
  for (__m256i& sum : sums) sum = _mm256_setzero_si256();
  __m256i a = _mm256_set1_epi8(3);
  __m256i b = _mm256_set1_epi8(5);
  const __m256i ones = _mm256_set1_epi16(1);
  for (uint64_t round = 0; round < rounds; ++round) {
    for (__m256i& sum : sums) {
      asm volatile("" : "+x"(a), "+x"(b));  // new operands, for all the compiler knows
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), ones));
    }
  }
  for (size_t j = 1; j < k_chains; ++j) sums[0] = _mm256_add_epi32(sums[0], sums[j]);
  return sum_of(sums[0]);
}

}  // namespace

const ProbeKernels k_avx2_probe{read, multiply, k_chains * 32 * 2};

}  // namespace strata::device::cpu

#endif
