// Shared by all tests: where golden data lies.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace strata::test {

// Path below the folder of golden data (environment STRATA_SHARED, else the build's setting).
inline std::string shared_path(const std::string& relative) {
  const char* folder = std::getenv("STRATA_SHARED");
  return std::string(folder != nullptr && *folder != 0 ? folder : STRATA_SHARED_DIR) + "/" +
         relative;
}

inline bool have_shared() { return std::filesystem::is_directory(shared_path("models")); }

// Path below the source tree.
inline std::string source_path(const std::string& relative) {
  return std::string(STRATA_SOURCE_DIR) + "/" + relative;
}

}  // namespace strata::test

// Ends the test as skipped when the folder of golden data is absent.
#define STRATA_NEED_SHARED() \
  if (!::strata::test::have_shared()) GTEST_SKIP() << "skipped: no golden data"
