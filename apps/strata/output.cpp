#include "strata/output.h"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/error.h"
#include "base/terminal.h"

namespace strata::app {
namespace {

[[noreturn]] void fail_output(int error) {
  const char* hint = error == ENOSPC ? "; free some space or write elsewhere" : "";
  fail(ErrorCode::io, "cannot write standard output: {}{}", std::strerror(error), hint);
}

std::atomic<bool> g_line_open{false};

}  // namespace

bool take_open_line() {
  static const bool both = terminal::is_terminal(terminal::Stream::output) &&
                           terminal::is_terminal(terminal::Stream::error);
  return both && g_line_open.exchange(false);
}

void print(std::string_view text) {
  if (!text.empty()) g_line_open = text.back() != '\n';
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) fail_output(errno);
}

void flush_output() {
  errno = 0;
  if (std::fflush(stdout) != 0) fail_output(errno);
  if (std::ferror(stdout) != 0) fail_output(EIO);
}

}  // namespace strata::app
