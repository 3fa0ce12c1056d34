#include "strata/last_signal.h"

#include <signal.h>

#include "base/temporaries.h"

namespace strata::app {
namespace {

// Called once: the signal's standard action is back already, and is taken at once.
void on_last_signal(int signal) {
  remove_temporaries();
  ::raise(signal);
}

}  // namespace

void clean_up_at_last_signal() {
  // A file that may not grow any more is an error of the write, with its name.
  ::signal(SIGXFSZ, SIG_IGN);
  for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGPIPE, SIGTERM, SIGXCPU}) {
    struct sigaction action {};
    if (::sigaction(signal, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) continue;
    action.sa_handler = on_last_signal;
    action.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
    sigemptyset(&action.sa_mask);
    ::sigaction(signal, &action, nullptr);
  }
}

}  // namespace strata::app
