// "Did you mean": the nearest of a list of known names.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace strata {

// Edit distance with insertions, deletions, substitutions and swaps of neighbours, each cost 1.
size_t edit_distance(std::string_view a, std::string_view b);

// The known name nearest to `word`, or empty when none is near enough to be a likely slip.
std::string nearest_name(std::string_view word, std::span<const std::string> known);

// "a, b and c"
std::string join_names(std::span<const std::string> names);

}  // namespace strata
