// Two JSON schemas as one that both accept: for allOf, and for keywords beside $ref or anyOf.
//
// Errors: ErrorCode::bad_request naming `path` and a keyword that cannot be merged.
// Threads: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"

namespace strata::text::grammar {

// Keywords that say nothing about what is valid.
bool is_annotation(std::string_view keyword);

// Makes `base` (an object) accept only what `extra` (an object) accepts too.
void merge_schema(Json& base, const Json& extra, const std::string& path);

// Whether the value is of the type ("integer" takes 1.0 too).
bool is_of_type(const Json& value, std::string_view type);

}  // namespace strata::text::grammar
