// Throwing typed errors (strata/error.h) with formatted messages.
//
// Not for: our own bugs; those are assertions.
// Threads: pure functions.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>
#include <utility>

#include "strata/error.h"

namespace strata {

// Throws Error with a formatted message. One line, naming the thing, its place and the way out.
template <class... Args>
[[noreturn]] void fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

// Makes a string fit to be shown in one line of a terminal: control and invalid bytes are escaped,
// and what is longer than `max_bytes` ends in "...". For names that come from a file.
std::string printable(std::string_view text, size_t max_bytes = 80);

}  // namespace strata
