// The two halves of str's methods.
#pragma once

#include <string_view>

#include "text/jinja/runtime.h"

namespace strata::text::jinja {

// Looks a name up in a table sorted by name.
const MethodDef* find_in(const MethodDef* begin, const MethodDef* end, std::string_view name);

// Case, classes and padding.
const MethodDef* find_case_method(std::string_view name);

}  // namespace strata::text::jinja
