#include "base/error.h"
#include "base/suggest.h"
#include "base/terminal.h"
#include "strata/help.h"
#include "strata/output.h"
#include "strata/verb.h"

namespace strata::app {

int help_verb(const Options& options) {
  const int width = terminal::width(terminal::Stream::output, 80);
  if (options.arguments.empty()) {
    print(general_help(width));
    return 0;
  }
  const Verb* verb = find_verb(options.arguments[0]);
  if (verb == nullptr) fail_unknown_verb(options.arguments[0]);
  print(verb_help(*verb, width));
  return 0;
}

int options_doc_verb(const Options&) {
  print(options_document());
  return 0;
}

}  // namespace strata::app
