// Refusals: why nothing fits, and what would.
//
// Threads: pure functions.
#pragma once

#include "plan/attempt.h"

namespace strata::plan {

// Throws a Refusal with the smallest changes of the request that fit.
[[noreturn]] void refuse(const model::ModelSpec& spec, const Devices& devices,
                         const Request& request, Missing missing);

}  // namespace strata::plan
