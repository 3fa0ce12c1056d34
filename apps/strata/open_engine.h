// From the command line's options to an open engine, and the lines that every generating verb
// prints about it.
//
// Threads: one at a time.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "strata/engine.h"
#include "strata/options.h"

namespace strata::app {

// What the options say about devices.
PlacementOptions placement_of(const Options& options);

// --audit-memory: ErrorCode::internal naming the first difference; where there is none that may be
// told. As JSON for -o json.
void check_audit(const std::vector<MemoryAudit>& rows, bool tell);
Json audit_json(const std::vector<MemoryAudit>& rows);

// Opens the model of -m with a progress bar; `n_context` overrides -c; so many sequences
// are to run together.
std::unique_ptr<Engine> open_engine(const Options& options,
                                    std::optional<uint64_t> n_context = std::nullopt,
                                    uint32_t n_sequences = 1);

// "generated 120 tokens, 93.1 tokens/s (prompt 12 tokens, 310.0 tokens/s), seed 42"
std::string speed_line(const GenerateResult& result);

}  // namespace strata::app
