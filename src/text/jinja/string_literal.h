// Escapes in the string constants of a template: those of Python.
#pragma once

#include <string>
#include <string_view>

namespace strata::text::jinja {

// `body` is what stands between the quotes. False with a reason for an escape that is cut short.
bool resolve_string_literal(std::string_view body, std::string& out, std::string& error);

}  // namespace strata::text::jinja
