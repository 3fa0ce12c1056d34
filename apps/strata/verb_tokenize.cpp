#include "base/error.h"
#include "strata/verb.h"

namespace strata::app {

int tokenize_verb(const Options&) { fail(ErrorCode::unsupported, "'tokenize' is not there yet"); }

}  // namespace strata::app
