#include "base/error.h"
#include "strata/verb.h"

namespace strata::app {

int run_verb(const Options&) { fail(ErrorCode::unsupported, "'run' is not there yet"); }

}  // namespace strata::app
