#include "strata/config_file.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/suggest.h"
#include "strata/verb.h"

namespace strata::app {
namespace {

std::string_view trim(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

struct Key {
  const OptionInfo* option = nullptr;
  bool negative = false;
};

// The option whose long flag is `--key`, preferring one that the verb has.
Key find_key(std::string_view key, uint32_t verbs) {
  std::string flag = "--" + std::string(key);
  std::replace(flag.begin(), flag.end(), '_', '-');
  Key found;
  for (const OptionInfo& info : option_table()) {
    const bool positive = std::count(info.flags.begin(), info.flags.end(), flag) > 0;
    const bool negative = std::count(info.negatives.begin(), info.negatives.end(), flag) > 0;
    if (!positive && !negative) continue;
    if (info.field == "help" || info.field == "config") continue;
    if (found.option == nullptr || (info.verbs & verbs) != 0) found = {&info, negative};
    if ((info.verbs & verbs) != 0) break;
  }
  return found;
}

std::string hint(std::string_view word, const std::vector<std::string>& known) {
  const std::string near = nearest_name(word, known);
  return near.empty() ? "" : "; did you mean '" + near + "'?";
}

}  // namespace

std::vector<ConfigEntry> parse_config(std::string_view text, const std::string& path,
                                      uint32_t verb) {
  std::vector<ConfigEntry> entries;
  uint32_t section = k_all;
  bool in_section = false;
  size_t number = 0;
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    const std::string where = fmt::format("{}:{}", path, number);
    if (line.empty() || line.front() == '#' || line.front() == ';') continue;
    if (line.front() == '[') {
      const std::string_view name = line.back() == ']' ? trim(line.substr(1, line.size() - 2)) : "";
      const Verb* found = find_verb(name);
      if (found == nullptr) {
        fail(ErrorCode::usage, "{}: '{}' is not a section; sections are verbs, as in [run]{}",
             where, printable(line), hint(name, verb_names()));
      }
      section = found->bit;
      in_section = true;
      continue;
    }
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos) {
      fail(ErrorCode::usage, "{}: '{}' is not 'key = value'", where, printable(line));
    }
    const std::string_view key = trim(line.substr(0, equals));
    std::string_view value = trim(line.substr(equals + 1));
    if (value.size() >= 2 && value.front() == '"' && value.back() == '"') {
      value = value.substr(1, value.size() - 2);
    }
    const Key found = find_key(key, in_section ? section : verb);
    if (found.option == nullptr) {
      std::vector<std::string> known;
      for (const OptionInfo& info : option_table()) known.emplace_back(info.name());
      fail(ErrorCode::usage, "{}: unknown key '{}'{}", where, printable(key), hint(key, known));
    }
    if (in_section && (found.option->verbs & section) == 0) {
      fail(ErrorCode::usage, "{}: '{}' does not apply here; it is for {}", where, printable(key),
           join_names(verb_names(found.option->verbs)));
    }
    if ((section & verb) == 0 || (found.option->verbs & verb) == 0) continue;
    ConfigEntry entry;
    entry.option = found.option;
    entry.value = value;
    entry.origin = fmt::format("{}: {} = {}", where, key, value);
    entry.in_section = in_section;
    if (found.negative) {
      // `no-x = yes` is `x = no`.
      entry.value = switch_value(*found.option, value, entry.origin) ? "off" : "on";
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

std::string default_config_path(const Environment& environment) {
  std::string folder;
  const char* xdg = environment("XDG_CONFIG_HOME");
  const char* home = environment("HOME");
  if (xdg != nullptr && *xdg == '/') {
    folder = xdg;
  } else if (home != nullptr && *home != 0) {
    folder = std::string(home) + "/.config";
  } else {
    return "";
  }
  const std::string path = folder + "/strata/config.ini";
  std::error_code ignored;
  return std::filesystem::exists(path, ignored) ? path : "";
}

}  // namespace strata::app
