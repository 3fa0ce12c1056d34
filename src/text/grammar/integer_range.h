// Whole numbers between two ends, as GBNF.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace strata::text::grammar {

// Every integer from min to max (min <= max) in plain decimal. Without an end, numbers have up to
// 16 digits, or as many as the other end.
std::string gbnf_of_integers(std::optional<int64_t> min, std::optional<int64_t> max);

}  // namespace strata::text::grammar
