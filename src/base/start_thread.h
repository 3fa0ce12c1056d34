// Starts a thread, or says why the system does not and what helps.
//
// Not for: how many there should be.
// Errors: ErrorCode::io where a limit on threads (ulimit -u, a container's) or memory for a stack
// is in the way. Threads: pure.
#pragma once

#include <system_error>
#include <thread>
#include <utility>

#include "base/error.h"

namespace strata {

template <class Work>
std::thread start_thread(Work&& work) {
  try {
    return std::thread(std::forward<Work>(work));
  } catch (const std::system_error& error) {
    fail(ErrorCode::io,
         "the system starts no further thread ({}); use fewer (-t) or raise the limit (ulimit -u, "
         "or the container's)",
         error.code().message());
  }
}

}  // namespace strata
