#include "base/error.h"
#include "strata/verb.h"

namespace strata::app {

int template_verb(const Options&) { fail(ErrorCode::unsupported, "'template' is not there yet"); }

}  // namespace strata::app
