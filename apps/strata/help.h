// Help texts and the option reference, all made from the tables.
//
// Threads: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "strata/verb.h"

namespace strata::app {

// For `strata` alone: the few commands that people need first.
std::string short_help();
// `strata help`: every verb.
std::string general_help(int width);
// `strata help VERB`: usage and options, wrapped to `width` columns.
std::string verb_help(const Verb& verb, int width);
// docs/options.md.
std::string options_document();

// `text` cut at spaces into lines of at most `width` columns (longer words stay whole), each after
// the first indented by `indent`.
std::string wrap(std::string_view text, size_t width, size_t indent);

}  // namespace strata::app
