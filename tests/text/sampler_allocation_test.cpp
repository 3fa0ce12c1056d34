// After its first call a sampler takes no memory from the heap.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "text/sampler.h"

namespace {

thread_local size_t t_allocations = 0;

}  // namespace

#if defined(__GNUC__) && !defined(__clang__)
// Inlined, these look to GCC like an allocation of one kind and a release of another.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
#endif

void* operator new(std::size_t size) {
  ++t_allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  ++t_allocations;
  return std::malloc(size == 0 ? 1 : size);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace strata::text {
namespace {

TEST(SamplerAllocation, NoneAfterTheFirstCall) {
  constexpr size_t vocabulary = 5000;
  for (const int64_t top_k : {0, 1, 40, 4999}) {
    for (const double temperature : {0.0, 0.8}) {
      SamplingOptions options;
      options.top_k = top_k;
      options.temperature = temperature;
      options.typical_p = 0.9;
      options.repeat_penalty = 1.1;
      options.seed = 3;
      Sampler sampler(options, vocabulary, {});
      std::mt19937_64 random(1);
      std::vector<float> logits(vocabulary);
      size_t first = 0, later = 0;
      for (int step = 0; step < 20; ++step) {
        for (float& logit : logits) logit = static_cast<float>(random() >> 60);
        const size_t before = t_allocations;
        const TokenId id = sampler.sample(logits).id;
        (step == 0 ? first : later) += t_allocations - before;
        sampler.accept(id, true);
      }
      EXPECT_GT(first, 0u);  // the counter works
      EXPECT_EQ(later, 0u) << "top_k " << top_k << ", temperature " << temperature;
    }
  }
}

}  // namespace
}  // namespace strata::text
