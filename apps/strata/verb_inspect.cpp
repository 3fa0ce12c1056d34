#include "base/error.h"
#include "strata/verb.h"

namespace strata::app {

int inspect_verb(const Options&) { fail(ErrorCode::unsupported, "'inspect' is not there yet"); }

}  // namespace strata::app
