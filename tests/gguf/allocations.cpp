#include "allocations.h"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace {

thread_local strata::gguf::test::Allocations g_allocations;

void* counted(size_t size) {
  g_allocations.largest = std::max(g_allocations.largest, size);
  g_allocations.total += size;
  return std::malloc(size > 0 ? size : 1);
}

void* counted_or_throw(size_t size) {
  void* out = counted(size);
  if (out == nullptr) throw std::bad_alloc();
  return out;
}

}  // namespace

void* operator new(size_t size) { return counted_or_throw(size); }
void* operator new[](size_t size) { return counted_or_throw(size); }
void* operator new(size_t size, const std::nothrow_t&) noexcept { return counted(size); }
void* operator new[](size_t size, const std::nothrow_t&) noexcept { return counted(size); }
void operator delete(void* at) noexcept { std::free(at); }
void operator delete[](void* at) noexcept { std::free(at); }
void operator delete(void* at, size_t) noexcept { std::free(at); }
void operator delete[](void* at, size_t) noexcept { std::free(at); }
void operator delete(void* at, const std::nothrow_t&) noexcept { std::free(at); }
void operator delete[](void* at, const std::nothrow_t&) noexcept { std::free(at); }

namespace strata::gguf::test {

void reset_allocations() { g_allocations = {}; }
Allocations allocations() { return g_allocations; }

}  // namespace strata::gguf::test
