// From --shape, --type and the dimensions on the command line to a synthetic model.
//
// Errors: ErrorCode::usage naming the option that is missing or does not fit.
// Threads: one at a time.
#pragma once

#include <memory>

#include "model/synth.h"
#include "strata/options.h"

namespace strata::app {

// Whether the command line asks for a shape (--shape, or dimensions) instead of a file. Both or
// neither are ErrorCode::usage; options of a shape that a file makes idle are warned about.
bool shape_instead_of_file(const Options& options);

std::shared_ptr<const model::SyntheticModel> make_synthetic(const Options& options);

}  // namespace strata::app
