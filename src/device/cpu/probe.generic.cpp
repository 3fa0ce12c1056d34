#include "device/cpu/probe.h"

#include <cstring>

namespace strata::device::cpu {
namespace {

uint64_t read(const std::byte* data, size_t bytes) {
  uint64_t sums[16] = {};
  for (size_t i = 0; i < bytes; i += 128) {
    uint64_t words[16];
    std::memcpy(words, data + i, sizeof words);
    for (size_t j = 0; j < 16; ++j) sums[j] += words[j];
  }
  uint64_t out = 0;
  for (const uint64_t sum : sums) out += sum;
  return out;
}

constexpr size_t k_products = 1024;

uint64_t multiply(uint64_t rounds) {
  int8_t a[k_products];
  int8_t b[k_products];
  for (size_t i = 0; i < k_products; ++i) {
    a[i] = static_cast<int8_t>(i * 7);
    b[i] = static_cast<int8_t>(i * 13);
  }
  uint64_t out = 0;
  for (uint64_t round = 0; round < rounds; ++round) {
    int32_t sum = 0;
    for (size_t i = 0; i < k_products; ++i) sum += a[i] * b[i];
    out += static_cast<uint32_t>(sum);
    // The compiler must take the operands for new ones.
    asm volatile("" : : "r"(a), "r"(b) : "memory");
  }
  return out;
}

}  // namespace

const ProbeKernels k_generic_probe{read, multiply, 2 * k_products};

}  // namespace strata::device::cpu
