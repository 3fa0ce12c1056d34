#include "base/error.h"
#include "strata/verb.h"

namespace strata::app {

int chat_verb(const Options&) { fail(ErrorCode::unsupported, "'chat' is not there yet"); }

}  // namespace strata::app
