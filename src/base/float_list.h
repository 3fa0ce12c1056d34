// Long lists of numbers as JSON text.
//
// Purpose: vectors of thousands of floats, for which a Json value each would be too much.
// Threads: a pure function.
#pragma once

#include <span>
#include <string>

namespace strata {

// Appends a JSON list of finite floats, with as few digits as tell one float from the next.
void append_floats(std::string& out, std::span<const float> values);

}  // namespace strata
