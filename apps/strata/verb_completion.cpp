#include "base/error.h"
#include "strata/completion.h"
#include "strata/output.h"
#include "strata/verb.h"

namespace strata::app {

int completion_verb(const Options& options) {
  const std::string shell = options.arguments.empty() ? "" : options.arguments[0];
  if (shell == "bash") {
    print(bash_completion());
  } else if (shell == "zsh") {
    print(zsh_completion());
  } else if (shell == "fish") {
    print(fish_completion());
  } else if (shell.empty()) {
    fail(ErrorCode::usage, "name a shell: strata completion bash, zsh or fish");
  } else {
    fail(ErrorCode::usage, "no completion for '{}'; shells are bash, zsh and fish",
         printable(shell));
  }
  return 0;
}

}  // namespace strata::app
