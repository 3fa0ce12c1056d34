// Shared by the tests of chat templates.
#pragma once

#include <fstream>
#include <sstream>
#include <string>

#include "base/json.h"
#include "text/chat_template.h"

namespace strata::text {

inline std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

inline Json read_json(const std::string& path) { return Json::parse(read_file(path)); }

// 2026-01-15 12:00, a Thursday: what golden data calls now.
inline RenderOptions at_fixed_time() {
  RenderOptions options;
  options.now = [] {
    std::tm time{};
    time.tm_year = 2026 - 1900;
    time.tm_mday = 15;
    time.tm_hour = 12;
    time.tm_wday = 4;
    time.tm_yday = 14;
    return time;
  };
  return options;
}

}  // namespace strata::text
