// The little HTML that templates know: strings marked as safe, and escaping the others.
#pragma once

#include "text/jinja/runtime.h"

namespace strata::text::jinja {

// Safe HTML is itself, anything else is its str() with & < > " ' escaped; the result is safe.
Value escape_html(Runtime& runtime, const Value& value);
// The same without trusting a mark.
Value force_escape_html(Runtime& runtime, const Value& value);
// Without comments and tags, runs of white space made one space, common entities resolved.
Value strip_tags(Runtime& runtime, const Value& value);

}  // namespace strata::text::jinja
