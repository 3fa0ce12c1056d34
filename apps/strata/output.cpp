#include "strata/output.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/error.h"

namespace strata::app {
namespace {

[[noreturn]] void fail_output(int error) {
  const char* hint = error == ENOSPC ? "; free some space or write elsewhere" : "";
  fail(ErrorCode::io, "cannot write standard output: {}{}", std::strerror(error), hint);
}

}  // namespace

void print(std::string_view text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) fail_output(errno);
}

void flush_output() {
  errno = 0;
  if (std::fflush(stdout) != 0) fail_output(errno);
  if (std::ferror(stdout) != 0) fail_output(EIO);
}

}  // namespace strata::app
