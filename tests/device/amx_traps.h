// Runs AMX instructions on a processor that lacks them.
//
// Purpose: so that the kernels of cpu/kernels.amx.cpp, as they were compiled, can be tested
// anywhere. Such a processor refuses each of their instructions (SIGILL); a handler does in plain
// code what the architecture manual says of it and goes on behind it. LDTILECFG, TILERELEASE,
// TILEZERO, TILELOADD, TILESTORED and the four 8-bit products are known; any other refused
// instruction ends the process as it always would. Not for: speed, or what the system must allow
// first. Threads: each has tiles of its own; the handler belongs to the process while an AmxTraps
// lives.
#pragma once

#if defined(__x86_64__)
#include <csignal>

namespace strata::test {

class AmxTraps {
 public:
  AmxTraps();
  ~AmxTraps();
  AmxTraps(const AmxTraps&) = delete;
  AmxTraps& operator=(const AmxTraps&) = delete;

 private:
  struct sigaction before_;
};

}  // namespace strata::test
#endif
