#include "strata/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>

#include "base/temporaries.h"

namespace strata::app {
namespace {

// Lock-free, so that a signal handler may use it.
std::atomic<int> g_count{0};
struct sigaction g_before {};

void on_interrupt(int) {
  if (g_count.fetch_add(1) < 1) return;
  remove_temporaries();
  ::_exit(130);
}

}  // namespace

Interrupt::Interrupt() {
  reset();
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  // No SA_RESTART: a read that waits for the user returns.
  ::sigaction(SIGINT, &action, &g_before);
}

Interrupt::~Interrupt() { ::sigaction(SIGINT, &g_before, nullptr); }

bool Interrupt::requested() { return g_count.load() > 0; }
void Interrupt::reset() { g_count.store(0); }

}  // namespace strata::app
