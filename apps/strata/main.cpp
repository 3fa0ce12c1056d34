// The binary: finds the verb, reads the options, runs it, and turns what goes wrong into one line
// and an exit status.
#include <fcntl.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/terminal.h"
#include "strata/help.h"
#include "strata/last_signal.h"
#include "strata/output.h"
#include "strata/verb.h"

namespace strata::app {
namespace {

void set_log_level(const Options& options) {
  log::Level level = log::Level::info;
  if (options.log_level == "error") level = log::Level::error;
  if (options.log_level == "warning") level = log::Level::warning;
  if (options.log_level == "debug" || options.verbose) level = log::Level::debug;
  if (options.verbosity) {
    level = *options.verbosity <= 0   ? log::Level::error
            : *options.verbosity == 1 ? log::Level::warning
            : *options.verbosity <= 3 ? log::Level::info
                                      : log::Level::debug;
  }
  log::set_level(level);
}

int dispatch(const std::vector<std::string>& words) {
  if (words.empty()) {
    print(short_help());
    return 0;
  }
  const std::string& first = words[0];
  if (first == "--version") {
    return version_verb({});
  }
  if (first == "-h" || first == "--help") {
    print(general_help(terminal::width(terminal::Stream::output, 80)));
    return 0;
  }
  if (first.starts_with('-')) {
    fail(ErrorCode::usage, "a verb comes first, as in 'strata run {} ...'; verbs are {}",
         printable(first), join_verbs());
  }
  const Verb* verb = find_verb(first);
  if (verb == nullptr) fail_unknown_verb(first);
  const Options options = parse_options(verb->bit, std::span(words).subspan(1));
  if (options.help) {
    print(verb_help(*verb, terminal::width(terminal::Stream::output, 80)));
    return 0;
  }
  set_log_level(options);
  return verb->run(options);
}

// stdout must be flushed before the verdict: a full disk shows only then.
int run(const std::vector<std::string>& words) {
  try {
    const int status = dispatch(words);
    flush_output();
    return status;
  } catch (const Error& error) {
    std::fflush(stdout);
    log::error("{}", error.what());
    return exit_status(error.code());
  } catch (const std::bad_alloc&) {
    std::fflush(stdout);
    log::error("not enough memory; a smaller context (-c) or model may fit");
    return exit_status(ErrorCode::does_not_fit);
  } catch (const std::exception& error) {
    std::fflush(stdout);
    log::error("{}", error.what());
    return exit_status(ErrorCode::internal);
  }
}

// A standard stream that the caller closed would be taken by the next file that is opened. What
// stands in for it refuses to be read or written, as the closed one did.
void guard_standard_streams() {
  for (const int fd : {0, 1, 2}) {
    if (::fcntl(fd, F_GETFD) != -1 || errno != EBADF) continue;
    const int opened = ::open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
    if (opened < 0) std::_Exit(1);
  }
}

}  // namespace
}  // namespace strata::app

int main(int argc, char** argv) {
  strata::app::guard_standard_streams();
  std::signal(SIGPIPE, SIG_DFL);
  strata::app::clean_up_at_last_signal();
  strata::log::set_line_open(&strata::app::take_open_line);
  return strata::app::run(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
}
