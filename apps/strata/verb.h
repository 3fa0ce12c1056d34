// Verbs: what the binary can do, one function and one file each.
//
// Purpose: the table from which main dispatches and help, completion and docs are made. To add a
// verb: a line in verbs.def, a file verb_<name>.cpp with `int <name>_verb(const Options&)`.
// A verb returns its exit status (0) and throws Error for everything that goes wrong; main turns
// that into one line on stderr. Results go to stdout, everything else to stderr through base/log.h.
// Threads: the table is constant.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "strata/options.h"

namespace strata::app {

#define VERB(name, ...) int name##_verb(const Options& options);
#include "strata/verbs.def"
#undef VERB

struct Verb {
  std::string_view name;       // as typed
  uint32_t bit = 0;            // VerbBit
  std::string_view arguments;  // "FILE", or empty
  size_t n_arguments = 0;
  std::string_view summary;  // empty: hidden
  std::string_view usage;    // example lines
  int (*run)(const Options&) = nullptr;
};

std::span<const Verb> verb_table();
const Verb* find_verb(std::string_view name);
// Names of the visible verbs in the set.
std::vector<std::string> verb_names(uint32_t verbs = k_all);

// "run, chat and help"
std::string join_verbs();
[[noreturn]] void fail_unknown_verb(const std::string& name);
std::string_view version();

// The model's path, or the usage error that says how to give one.
const std::string& require_model(const Options& options);

}  // namespace strata::app
