#include <fmt/format.h>

#include <algorithm>

#include "strata/engine.h"
#include "strata/options.h"

namespace strata::app {
namespace {

// The words of options.def for constraints.
Constraint any() { return {}; }
Constraint path() {
  Constraint c;
  c.kind = Constraint::Kind::path;
  return c;
}
Constraint ints(int64_t min, int64_t max) {
  Constraint c;
  c.kind = Constraint::Kind::integer;
  c.int_min = min;
  c.int_max = max;
  return c;
}
Constraint reals(double min, double max) {
  Constraint c;
  c.kind = Constraint::Kind::real;
  c.real_min = min;
  c.real_max = max;
  return c;
}
Constraint above(double min, double max) {
  Constraint c = reals(min, max);
  c.above_min = true;
  return c;
}
Constraint one_of(std::string_view words) {
  Constraint c;
  c.kind = Constraint::Kind::choice;
  c.words = words;
  return c;
}
Constraint word(std::string_view unset, Constraint c) {
  c.unset = unset;
  return c;
}

Constraint up_to(std::string_view most, Constraint c) {
  c.most = most;
  return c;
}

std::vector<OptionInfo> make_table() {
  std::vector<OptionInfo> table;
#define OPTION(type, field_name, default_value, flag_list, negative_list, value, constraint, \
               verbs, group, help)                                                           \
  table.push_back({#field_name, &Options::field_name, split_words(flag_list, ','),           \
                   split_words(negative_list, ','), value, constraint, verbs, group, help});
#include "strata/options.def"
#undef OPTION
  return table;
}

// How a default reads: one overload per type of the table.
std::string show(bool value) { return value ? "on" : ""; }
std::string show(const std::optional<bool>&) { return ""; }
std::string show(int64_t value) { return fmt::format("{}", value); }
std::string show(double value) { return fmt::format("{}", value); }
std::string show(const std::string& value) { return value; }
template <class T>
std::string show(const std::optional<T>& value) {
  return value ? show(*value) : "";
}
std::string show(const std::optional<uint64_t>&) { return ""; }
std::string show(const std::vector<std::string>&) { return ""; }
std::string show(const BiasList&) { return ""; }

}  // namespace

std::span<const OptionInfo> option_table() {
  static const std::vector<OptionInfo> table = make_table();
  return table;
}

std::vector<std::string> split_words(std::string_view text, char separator) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    out.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

bool OptionInfo::is_list() const {
  return std::holds_alternative<std::vector<std::string> Options::*>(member) ||
         std::holds_alternative<BiasList Options::*>(member);
}

std::string_view OptionInfo::name() const {
  for (const std::string& flag : flags) {
    if (flag.starts_with("--")) return std::string_view(flag).substr(2);
  }
  return field;
}

std::string OptionInfo::environment() const {
  if (field == "help") return "";
  std::string out = "STRATA_";
  for (const char c : name()) {
    out += c == '-' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  }
  return out;
}

std::string OptionInfo::default_text() const {
  static const Options defaults;
  const std::string text = std::visit([](auto pointer) { return show(defaults.*pointer); }, member);
  if (text.empty() && !constraint.unset.empty()) return split_words(constraint.unset, '|').front();
  return text;
}

}  // namespace strata::app
