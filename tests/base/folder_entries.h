// How many entries a folder has.
#pragma once

#include <cstddef>
#include <filesystem>
#include <iterator>
#include <string>

namespace strata::test {

inline size_t entries(const std::string& folder) {
  const std::filesystem::directory_iterator all(folder);
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

}  // namespace strata::test
