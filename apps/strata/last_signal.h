// What a signal that ends the program leaves behind: nothing.
//
// Purpose: before such a signal (Ctrl-C, a terminal that closes, a polite kill, ...) ends the
// program as it would have, temporary files are removed.
// Not for: stopping with a result (interrupt.h), SIGKILL.
// Threads: once, before there are others.
#pragma once

namespace strata::app {

// Signals that the caller has told this program to ignore stay ignored.
void clean_up_at_last_signal();

}  // namespace strata::app
