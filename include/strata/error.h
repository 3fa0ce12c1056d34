// Typed errors: what went wrong, where, and the way out.
//
// Purpose: one exception type for everything a user, a file, a request or a device can do wrong.
// It is thrown inside the library and caught at the edge (a verb, a request handler), which turns
// the code into an exit status or an HTTP status.
// Not for: our own bugs; those are assertions.
// Threads: immutable after construction.
#pragma once

#include <stdexcept>
#include <string>

namespace strata {

enum class ErrorCode {
  usage,         // a flag or a value on the command line            exit 2
  io,            // the system refused to read or write              exit 1
  bad_file,      // a file's content is not what it claims to be     exit 1
  unsupported,   // understood, but not something we can do          exit 1
  does_not_fit,  // more memory or context than there is             exit 3
  bad_request,   // a request (prompt, sampling, JSON) is wrong      exit 1
  busy,          // more is asked for at once than is allowed    exit 1
  cancelled,     // stopped by the user                              exit 1
  internal,      // a device or a library failed                     exit 1
};

// "usage", "io", ...
const char* name_of(ErrorCode code);

// Process exit status for an error: 1 run time, 2 usage, 3 does not fit.
int exit_status(ErrorCode code);

class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace strata
