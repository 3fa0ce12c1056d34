// What several verbs read from their options in the same way.
//
// Threads: pure functions, but for standard input.
#pragma once

#include <optional>
#include <string>

#include "strata/options.h"
#include "strata/sampling.h"

namespace strata::app {

// The text to work on: -p, else the file of -f, else standard input. When nothing was given and
// standard input is a terminal, ErrorCode::usage says how to give one.
std::string input_text(const Options& options);

// The sampling options of the table.
SamplingOptions sampling_options(const Options& options);

}  // namespace strata::app
