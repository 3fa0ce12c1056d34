// Completion scripts for shells, made from the tables.
//
// Threads: pure functions.
#pragma once

#include <string>

namespace strata::app {

std::string bash_completion();
std::string zsh_completion();
std::string fish_completion();

}  // namespace strata::app
