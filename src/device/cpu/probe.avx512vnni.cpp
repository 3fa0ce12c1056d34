// Empty for other processors: probe.cpp never asks for it there.
#if defined(__x86_64__)
#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 takes the deliberately undefined operands inside its own intrinsics for a mistake.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#include "device/cpu/probe.h"

namespace strata::device::cpu {
namespace {

// Lanes as unsigned numbers, which may run over.
uint64_t total(__m512i sums) {
  alignas(64) uint64_t lanes[8];
  _mm512_store_si512(lanes, sums);
  uint64_t all = 0;
  for (const uint64_t lane : lanes) all += lane;
  return all;
}

uint64_t read(const std::byte* data, size_t bytes) {
  __m512i sums[8];
  for (__m512i& sum : sums) sum = _mm512_setzero_si512();
  for (size_t i = 0; i < bytes; i += 512) {
    for (size_t j = 0; j < 8; ++j) {
      sums[j] = _mm512_add_epi64(sums[j], _mm512_load_si512(data + i + 64 * j));
    }
  }
  for (size_t j = 1; j < 8; ++j) sums[0] = _mm512_add_epi64(sums[0], sums[j]);
  return total(sums[0]);
}

constexpr size_t k_chains = 16;

uint64_t multiply(uint64_t rounds) {
  __m512i sums[k_chains];
  for (__m512i& sum : sums) sum = _mm512_setzero_si512();
  __m512i a = _mm512_set1_epi8(3);
  __m512i b = _mm512_set1_epi8(5);
  for (uint64_t round = 0; round < rounds; ++round) {
    asm volatile("" : "+v"(a), "+v"(b));
    for (__m512i& sum : sums) sum = _mm512_dpbusd_epi32(sum, a, b);
  }
  for (size_t j = 1; j < k_chains; ++j) sums[0] = _mm512_add_epi32(sums[0], sums[j]);
  return total(sums[0]);
}

}  // namespace

const ProbeKernels k_avx512vnni_probe{read, multiply, k_chains * 64 * 2};

}  // namespace strata::device::cpu

#endif
