// Log lines to stderr, or to a callback of the embedding program.
//
// Purpose: one place that decides what a user sees beside the result. Results go to stdout and
// never through here.
// Threads: every function may be called from any thread.
#pragma once

#include <fmt/core.h>

#include <functional>
#include <string_view>
#include <utility>

namespace strata::log {

enum class Level { error, warning, info, debug };

using Sink = std::function<void(Level, std::string_view line)>;

// Lines above `level` are dropped. The default is `warning`.
void set_level(Level level);
Level level();

// Replaces the sink (stderr); an empty function restores it.
void set_sink(Sink sink);

// Asked before each line to stderr: whether text without an end stands before it on the same
// terminal, so that the line must begin on a new one. An empty function: never.
void set_line_open(std::function<bool()> open);

// Writes one line (no trailing newline in `text`).
void write(Level level, std::string_view text);

template <class... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::error, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void warning(fmt::format_string<Args...> format, Args&&... args) {
  if (level() >= Level::warning) {
    write(Level::warning, fmt::format(format, std::forward<Args>(args)...));
  }
}
template <class... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  if (level() >= Level::info) write(Level::info, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) {
  if (level() >= Level::debug)
    write(Level::debug, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace strata::log
