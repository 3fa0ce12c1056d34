// Ctrl-C: asked for politely the first time, obeyed at once the second.
//
// Purpose: while an Interrupt exists, the first Ctrl-C sets a flag that generation asks for
// between steps; a second one before the flag was taken ends the process with status 130.
// Threads: the flag may be read from any thread; one Interrupt at a time.
#pragma once

namespace strata::app {

class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  static bool requested();
  // Forgets an earlier Ctrl-C.
  static void reset();
};

}  // namespace strata::app
