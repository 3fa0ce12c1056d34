// An error to be thrown by another thread.
//
// Not for: errors that the thread that made them throws.
// Threads: pure.
#pragma once

#include <exception>
#include <utility>

namespace strata {

// std::make_exception_ptr copies, and copies of an exception share their text, which is then let go
// by whichever thread is last: correct, but nothing that a race detector can see to be so.
template <class E, class... Args>
std::exception_ptr held_error(Args&&... args) {
  try {
    throw E(std::forward<Args>(args)...);
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace strata
