// Keys of a JSON object that are none of those given.
//
// Threads: pure functions.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace strata::text::grammar {

// The GBNF of a quoted key that is spelled in one way only (no \u escapes), so that it cannot be
// one of `names` in another spelling. `add_rule` gives the name of a rule with the body.
std::string gbnf_of_other_keys(const std::vector<std::string>& names,
                               const std::function<std::string(const std::string&)>& add_rule);

}  // namespace strata::text::grammar
