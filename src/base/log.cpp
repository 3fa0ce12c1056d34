#include "base/log.h"

#include <atomic>
#include <cstdio>
#include <mutex>
#include <string>

namespace strata::log {
namespace {

std::atomic<Level> g_level{Level::warning};
std::mutex g_mutex;
Sink g_sink;
std::function<bool()> g_line_open;

const char* prefix(Level level) {
  switch (level) {
    case Level::error:
      return "error: ";
    case Level::warning:
      return "warning: ";
    default:
      return "";
  }
}

}  // namespace

void set_level(Level level) { g_level = level; }
Level level() { return g_level; }

void set_sink(Sink sink) {
  const std::lock_guard lock(g_mutex);
  g_sink = std::move(sink);
}

void set_line_open(std::function<bool()> open) {
  const std::lock_guard lock(g_mutex);
  g_line_open = std::move(open);
}

void write(Level line_level, std::string_view text) {
  if (line_level > g_level.load()) return;
  const std::lock_guard lock(g_mutex);
  if (g_sink) {
    g_sink(line_level, text);
    return;
  }
  std::string line = g_line_open && g_line_open() ? "\n" : "";
  line += prefix(line_level);
  line.append(text);
  line.push_back('\n');
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace strata::log
