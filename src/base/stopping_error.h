// The server takes no more requests and ends those that still run.
//
// Not for: clients who have left, and too many at once; those are plain errors.
// Threads: immutable after construction.
#pragma once

#include "strata/error.h"

namespace strata {

class StoppingError : public Error {
 public:
  StoppingError() : Error(ErrorCode::busy, "the server is shutting down") {}
};

}  // namespace strata
