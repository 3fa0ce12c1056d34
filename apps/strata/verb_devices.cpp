#include "base/error.h"
#include "strata/verb.h"

namespace strata::app {

int devices_verb(const Options&) { fail(ErrorCode::unsupported, "'devices' is not there yet"); }

}  // namespace strata::app
