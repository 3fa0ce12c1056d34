#include "base/error.h"
#include "strata/verb.h"

namespace strata::app {

int perplexity_verb(const Options&) {
  fail(ErrorCode::unsupported, "'perplexity' is not there yet");
}

}  // namespace strata::app
