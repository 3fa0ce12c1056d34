// Waiting for another thread: awake at first, since most waits are shorter than a wake-up.
//
// Not for: waiting without end; past the budget the caller sleeps on something that is told.
// Threads: pure functions.
#pragma once

namespace strata::device {

// Tells the processor that the thread only waits.
inline void spin_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// About 20 to 50 us: less than it takes to put a thread to sleep and wake it twice.
inline constexpr int k_spins = 4000;

// Whether done() came to hold within the budget.
template <class Done>
bool spin_until(Done done) {
  for (int spins = 0; spins < k_spins; ++spins) {
    if (done()) return true;
    spin_pause();
  }
  return false;
}

}  // namespace strata::device
