// Counts what is allocated in this test program, to prove that a file cannot make the parser
// allocate out of proportion.
#pragma once

#include <cstddef>

namespace strata::gguf::test {

struct Allocations {
  size_t largest = 0;  // one request, bytes
  size_t total = 0;    // all requests, bytes
};

// Starts counting anew for this thread.
void reset_allocations();
Allocations allocations();

}  // namespace strata::gguf::test
