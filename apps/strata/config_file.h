// The config file: INI with the long names of the options.
//
// Purpose: lines `key = value`, sections `[verb]` for one verb, comments that begin with # or ;.
// A value may stand in double quotes, which keeps its outer spaces.
// Errors: ErrorCode::usage with path and line for a line, key or section that means nothing;
// ErrorCode::io when the file cannot be read.
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "strata/options.h"

namespace strata::app {

struct ConfigEntry {
  const OptionInfo* option = nullptr;
  std::string value;
  std::string origin;       // "config.ini:3: ctx-size = 0"
  bool in_section = false;  // beats an entry outside
};

// The entries that concern `verb`, in file order.
std::vector<ConfigEntry> parse_config(std::string_view text, const std::string& path,
                                      uint32_t verb);

// strata/config.ini below XDG_CONFIG_HOME or ~/.config when it is there, else empty.
std::string default_config_path(const Environment& environment);

}  // namespace strata::app
