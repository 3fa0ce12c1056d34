#include "strata/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <map>
#include <system_error>

#include "base/error.h"
#include "base/file.h"
#include "base/suggest.h"
#include "strata/config_file.h"
#include "strata/verb.h"

namespace strata::app {
namespace {

enum class Source { none, config, config_section, environment, flag };

// What was written for one option, by the strongest source that wrote it.
struct Given {
  Source source = Source::none;
  std::vector<std::pair<std::string, std::string>> values;  // value, origin

  void add(Source from, std::string value, std::string origin) {
    if (from < source) return;
    if (from > source) values.clear();
    source = from;
    values.emplace_back(std::move(value), std::move(origin));
  }
};
using GivenOptions = std::map<const OptionInfo*, Given>;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

bool is_number(std::string_view word) {
  double value = 0;
  const auto result = std::from_chars(word.data(), word.data() + word.size(), value);
  return result.ptr == word.data() + word.size() && !word.empty();
}

// "-c", "--ctx-size", "--": what cannot be meant as a value.
bool looks_like_flag(std::string_view word) {
  if (word == "--") return true;
  if (word.size() < 2 || word[0] != '-' || is_number(word)) return false;
  return is_letter(word[1]) || (word[1] == '-' && word.size() > 2 && is_letter(word[2]));
}

struct FlagMatch {
  const OptionInfo* option = nullptr;
  bool negative = false;
};

FlagMatch find_flag(std::string flag, uint32_t verbs) {
  if (flag.starts_with("--")) std::replace(flag.begin(), flag.end(), '_', '-');
  for (const OptionInfo& info : option_table()) {
    if ((info.verbs & verbs) == 0) continue;
    if (std::count(info.flags.begin(), info.flags.end(), flag) > 0) return {&info, false};
    if (std::count(info.negatives.begin(), info.negatives.end(), flag) > 0) return {&info, true};
  }
  return {};
}

// The nearest flag: one slip away, else whatever nearest_name finds (which prefers beginnings:
// --tempreature is nearer to --temperature than to --temp).
std::string nearest_flag(const std::string& flag, const std::vector<std::string>& known) {
  for (const std::string& candidate : known) {
    if (flag.size() < 200 && edit_distance(flag, candidate) == 1) return candidate;
  }
  return nearest_name(flag, known);
}

[[noreturn]] void fail_unknown_flag(const std::string& flag, const Verb& verb) {
  uint32_t elsewhere = 0;
  for (const OptionInfo& info : option_table()) {
    if (std::count(info.flags.begin(), info.flags.end(), flag) > 0 ||
        std::count(info.negatives.begin(), info.negatives.end(), flag) > 0) {
      elsewhere |= info.verbs;
    }
  }
  if (elsewhere != 0) {
    fail(ErrorCode::usage, "{} is not an option of '{}'; it is for {}", flag, verb.name,
         join_names(verb_names(elsewhere)));
  }
  std::vector<std::string> known;
  for (const OptionInfo& info : option_table()) {
    if ((info.verbs & verb.bit) == 0) continue;
    known.insert(known.end(), info.flags.begin(), info.flags.end());
    known.insert(known.end(), info.negatives.begin(), info.negatives.end());
  }
  const std::string near = nearest_flag(flag, known);
  const std::string hint = near.empty() ? "" : fmt::format("; did you mean {}?", near);
  fail(ErrorCode::usage, "unknown option {}{} ('strata {} --help' lists the options)",
       printable(flag), hint, verb.name);
}

[[noreturn]] void fail_argument(const std::string& word, const Verb& verb) {
  const char* hint = "";
  if (word.ends_with(".gguf")) hint = "; a model is given with -m";
  if (verb.n_arguments > 0) {
    fail(ErrorCode::usage, "'{}' is one word too many; usage: strata {} {}", printable(word),
         verb.name, verb.arguments);
  }
  fail(ErrorCode::usage, "'{}' follows no option{} ('strata {} --help' lists the options)",
       printable(word), hint, verb.name);
}

// Reads the command line into `given`; words that are no flags go to `arguments`.
void read_words(const Verb& verb, std::span<const std::string> words, GivenOptions& given,
                std::vector<std::string>& arguments) {
  bool only_arguments = false;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (!only_arguments && word == "--") {
      only_arguments = true;
      continue;
    }
    if (only_arguments || word.size() < 2 || word[0] != '-') {
      if (arguments.size() == verb.n_arguments) fail_argument(word, verb);
      arguments.push_back(word);
      continue;
    }
    std::string flag = word;
    std::optional<std::string> attached;
    FlagMatch match = find_flag(flag, verb.bit);
    const size_t equals = word.find('=');
    if (match.option == nullptr && equals != std::string::npos) {
      flag = word.substr(0, equals);
      attached = word.substr(equals + 1);
      match = find_flag(flag, verb.bit);
    }
    if (match.option == nullptr) fail_unknown_flag(flag, verb);
    Given& target = given[match.option];
    if (match.option->is_switch()) {
      // The word after a switch is never its value: only `--switch=off` turns one off.
      std::string value = attached ? std::move(*attached) : std::string("on");
      std::string origin = attached ? word : flag;
      if (match.negative) value = switch_value(*match.option, value, origin) ? "off" : "on";
      target.add(Source::flag, std::move(value), std::move(origin));
      continue;
    }
    if (!attached) {
      const bool at_end = i + 1 == words.size();
      if (at_end || looks_like_flag(words[i + 1])) {
        std::string hint;
        if (!at_end) {
          const std::string& next = words[i + 1];
          hint = fmt::format("; if '{}' is meant as the value, write --{}={}", printable(next),
                             match.option->name(), printable(next));
        }
        fail(ErrorCode::usage, "{} needs a value ({}){}", flag, match.option->value_name, hint);
      }
      attached = words[++i];
    }
    const std::string origin = fmt::format("{} {}", flag, *attached);
    target.add(Source::flag, std::move(*attached), origin);
  }
}

void read_environment(uint32_t verb, const Environment& environment, GivenOptions& given) {
  for (const OptionInfo& info : option_table()) {
    if ((info.verbs & verb) == 0) continue;
    const std::string name = info.environment();
    const char* value = name.empty() ? nullptr : environment(name);
    if (value == nullptr || *value == 0) continue;
    given[&info].add(Source::environment, value, fmt::format("{}={}", name, value));
  }
}

void read_config(uint32_t verb, const std::string& text, const std::string& path,
                 GivenOptions& given) {
  for (ConfigEntry& entry : parse_config(text, path, verb)) {
    given[entry.option].add(entry.in_section ? Source::config_section : Source::config,
                            std::move(entry.value), std::move(entry.origin));
  }
}

// Of two options that exclude each other the one from the stronger source stays.
void exclude(GivenOptions& given, std::string_view field_a, std::string_view field_b) {
  Given* a = nullptr;
  Given* b = nullptr;
  for (auto& [info, entry] : given) {
    if (info->field == field_a) a = &entry;
    if (info->field == field_b) b = &entry;
  }
  if (a == nullptr || b == nullptr || a->values.empty() || b->values.empty()) return;
  if (a->source == b->source) {
    fail(ErrorCode::usage, "'{}' and '{}' exclude each other; give one of them",
         printable(a->values.back().second), printable(b->values.back().second));
  }
  (a->source < b->source ? a : b)->values.clear();
}

// Where -sm and -tp say different things, the one from the weaker source is as if it were not
// there; from one source the contradiction is explained later, in the words of whoever wrote it.
void settle_split(GivenOptions& given) {
  Given* mode = nullptr;
  Given* group = nullptr;
  for (auto& [info, entry] : given) {
    if (info->field == "split_mode") mode = &entry;
    if (info->field == "tensor_parallel") group = &entry;
  }
  if (mode == nullptr || group == nullptr || mode->values.empty() || group->values.empty()) return;
  const std::string& word = mode->values.back().first;
  const bool together = word == "tensor" || word == "row" || group->values.back().first == "1";
  if (together || mode->source == group->source) return;
  (mode->source < group->source ? mode : group)->values.clear();
}

}  // namespace

const char* process_environment(const std::string& name) { return std::getenv(name.c_str()); }

Options parse_options(uint32_t verb_bit, std::span<const std::string> words,
                      const Environment& environment) {
  const Verb* verb = nullptr;
  for (const Verb& candidate : verb_table()) {
    if (candidate.bit == verb_bit) verb = &candidate;
  }
  Options options;
  GivenOptions given;
  // Help is wanted even when the rest of the line is wrong: that is when it is wanted most.
  for (const std::string& word : words) {
    if (word == "--") break;
    if (word == "-h" || word == "--help") {
      options.help = true;
      return options;
    }
  }
  read_words(*verb, words, given, options.arguments);
  read_environment(verb_bit, environment, given);

  std::string config_path;
  for (const auto& [info, entry] : given) {
    if (info->field == "config") config_path = entry.values.back().first;
  }
  constexpr uint64_t k_most_config = uint64_t{1} << 20;
  if (!config_path.empty()) {
    read_config(verb_bit, read_file(config_path, k_most_config), config_path, given);
  } else if (config_path = default_config_path(environment); !config_path.empty()) {
    read_config(verb_bit, read_regular_file(config_path, k_most_config), config_path, given);
  }

  exclude(given, "prompt", "file");
  settle_split(given);
  for (const auto& [info, entry] : given) {
    for (const auto& [value, origin] : entry.values) set_option(options, *info, value, origin);
    if (!entry.values.empty()) options.given.insert(info->field);
  }
  if (options.escape) {
    if (options.prompt) options.prompt = unescape(*options.prompt);
    if (options.system_prompt) options.system_prompt = unescape(*options.system_prompt);
    for (std::string& text : options.reverse_prompt) text = unescape(text);
  }
  return options;
}

}  // namespace strata::app
