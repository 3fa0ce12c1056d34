// Python's two ways of formatting: "%s" % x and "{}".format(x).
//
// The text of the format string and of string arguments keeps its origin.
#pragma once

#include "text/jinja/runtime.h"

namespace strata::text::jinja {

// format % argument. A tuple gives the arguments in order, a dict by name.
Value format_percent(Runtime& runtime, const Value& format, const Value& argument);
// format.format(*args, **named).
Value format_braces(Runtime& runtime, const Value& format, const CallArgs& args);

}  // namespace strata::text::jinja
