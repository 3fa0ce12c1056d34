// Command-line options: one table, and everything that follows from it.
//
// Purpose: options.def declares each option once; here are the struct that verbs read, the table
// for those who print it (help, completion, docs) and the parser. A flag beats the environment,
// which beats the config file. Values are checked before anything else happens.
// Not for: whether a file exists or a cache type is known; the verb that uses the value says so.
// Errors: ErrorCode::usage naming the flag (or variable, or line of the config file), the value
// and what would be right.
// Threads: pure functions; an Options belongs to whoever holds it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace strata::app {

// Sets of verbs: one bit each, in the order of verbs.def.
enum VerbIndex : uint32_t {
#define VERB(name, ...) i_##name,
#include "strata/verbs.def"
#undef VERB
  i_count
};
enum VerbBit : uint32_t {
#define VERB(name, ...) k_##name = 1u << i_##name,
#include "strata/verbs.def"
#undef VERB
  k_all = (1u << i_count) - 1
};

using BiasList = std::vector<std::pair<int32_t, double>>;  // token id, bias

struct Options {
#define OPTION(type, field, default_value, ...) type field = default_value;
#include "strata/options.def"
#undef OPTION
  std::vector<std::string> arguments;  // the words that are not flags
  std::set<std::string_view> given;    // members that were set, wherever
};

// What values an option takes.
struct Constraint {
  enum class Kind { any, path, integer, real, choice };
  Kind kind = Kind::any;
  int64_t int_min = 0, int_max = 0;
  double real_min = 0, real_max = 0;
  bool above_min = false;       // real_min itself is not allowed
  std::string_view words;       // choice: "text|json"
  std::string_view unset = {};  // words that leave an optional value unset, as "auto|-1"
  std::string_view most = {};   // word for int_max, as "all"
};

using OptionMember =
    std::variant<bool Options::*, std::optional<bool> Options::*, int64_t Options::*,
                 std::optional<int64_t> Options::*, std::optional<uint64_t> Options::*,
                 double Options::*, std::string Options::*, std::optional<std::string> Options::*,
                 std::vector<std::string> Options::*, BiasList Options::*>;

struct OptionInfo {
  std::string_view field;  // name of the member of Options
  OptionMember member;
  std::vector<std::string> flags;      // as typed: "-c", "--ctx-size"
  std::vector<std::string> negatives;  // flags that set a switch to false
  std::string value_name;              // empty for a switch
  Constraint constraint;
  uint32_t verbs = 0;  // VerbBit set
  std::string group;
  std::string help;

  bool is_switch() const { return value_name.empty(); }
  bool is_list() const;
  // "ctx-size": key in the config file.
  std::string_view name() const;
  // "STRATA_CTX_SIZE", or empty (--help).
  std::string environment() const;
  // The default as shown to people; empty when there is nothing to show.
  std::string default_text() const;
};

std::span<const OptionInfo> option_table();

// "a", "b" from "a|b"; also for other separators.
std::vector<std::string> split_words(std::string_view text, char separator);

// Sets the option from text. `origin` is how the user wrote it ("-c 0", "STRATA_CTX_SIZE=0").
void set_option(Options& options, const OptionInfo& info, std::string_view text,
                const std::string& origin);

// The value of a switch: 1, true, on, yes or 0, false, off, no, in any case; else a usage error.
bool switch_value(const OptionInfo& info, std::string_view text, const std::string& origin);

using Environment = std::function<const char*(const std::string& name)>;
const char* process_environment(const std::string& name);

// Options for a verb from its words (all after the verb), the environment and the config file.
Options parse_options(uint32_t verb, std::span<const std::string> words,
                      const Environment& environment = process_environment);

// The escapes of -e: \n \r \t \\ \' \" \xHH; others stay as they are.
std::string unescape(std::string_view text);

}  // namespace strata::app
