// JSON schemas as grammars: every text of the grammar is JSON that the schema accepts.
//
// Purpose: constrained answers and arguments of tools. Understood: type (also lists), properties,
// required, additionalProperties, items, prefixItems, minItems, maxItems, enum, const, anyOf,
// oneOf (as anyOf), allOf (by merging), $ref within the document (recursive too), minLength,
// maxLength, pattern (see schema_pattern.h), format date, time, date-time and uuid, minimum and
// maximum of integers (and a minimum of 0 or more of numbers as "no minus sign").
// The grammar writes less than the schema accepts where that is what one wants of a model:
// properties come in the schema's order; an object with `properties` has no others unless
// additionalProperties says so; at most one space, or a line break and an indentation, stands
// between the parts and nothing after the end; numbers have at most 16 digits before the point.
// Lengths count characters; a pair of \u escapes is one.
// Errors: ErrorCode::bad_request naming the place in the schema ("#/properties/a") and the keyword:
// what is wrong, what allows nothing, references that lead nowhere, and what is too large.
// Keywords that are not enforced are listed in `warnings`, never silently taken for done.
// Threads: pure functions.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"

namespace strata::text {

struct SchemaGrammar {
  std::string gbnf;  // for Grammar::parse
  std::vector<std::string> warnings;
};

SchemaGrammar schema_grammar(const Json& schema);

// Any JSON object: what {"type": "json_object"} asks for.
std::string json_object_grammar();

}  // namespace strata::text
