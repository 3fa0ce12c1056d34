// Regular expressions of JSON schemas as GBNF, for the inside of a JSON string.
//
// Understood: ^ and $ around each alternative (what is not anchored is refused, since it would
// allow any text around it), literals, ., classes, \d \w \s and their opposites, groups,
// alternatives, * + ? {n} {n,} {n,m} and their lazy forms. Not: references, assertions, \b, \p.
// Errors: ErrorCode::bad_request naming `path`, the place in the pattern and the construct.
// Threads: pure functions.
#pragma once

#include <string>
#include <string_view>

namespace strata::text::grammar {

std::string gbnf_of_pattern(std::string_view pattern, const std::string& path);

// A GBNF literal of the text.
std::string gbnf_literal(std::string_view text);

}  // namespace strata::text::grammar
