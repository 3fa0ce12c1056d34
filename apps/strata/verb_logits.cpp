#include "base/error.h"
#include "strata/verb.h"

namespace strata::app {

int logits_verb(const Options&) { fail(ErrorCode::unsupported, "'logits' is not there yet"); }

}  // namespace strata::app
