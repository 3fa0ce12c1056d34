// Searching byte strings in linear time, whatever they hold.
#pragma once

#include <string_view>

namespace strata::text::jinja {

// First occurrence at or after `from`; npos when there is none.
size_t find_bytes(std::string_view text, std::string_view wanted, size_t from);
// Last occurrence that ends at or before `end`.
size_t rfind_bytes(std::string_view text, std::string_view wanted, size_t end);

}  // namespace strata::text::jinja
