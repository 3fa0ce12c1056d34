// strata version: which build this is.
#include "strata/output.h"
#include "strata/verb.h"

namespace strata::app {

int version_verb(const Options&) {
  print("strata " + std::string(version()) + "\n");
  return 0;
}

}  // namespace strata::app
