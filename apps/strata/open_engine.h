// From the command line's options to an open engine, and the lines that every generating verb
// prints about it.
//
// Threads: one at a time.
#pragma once

#include <memory>
#include <string>

#include "strata/engine.h"
#include "strata/options.h"

namespace strata::app {

// Opens the model of -m with a progress bar; `n_context` overrides -c.
std::unique_ptr<Engine> open_engine(const Options& options,
                                    std::optional<uint64_t> n_context = std::nullopt);

// "generated 120 tokens, 93.1 tokens/s (prompt 12 tokens, 310.0 tokens/s), seed 42"
std::string speed_line(const GenerateResult& result);

}  // namespace strata::app
