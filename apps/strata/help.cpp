#include "strata/help.h"

#include <fmt/format.h>

#include <algorithm>

namespace strata::app {
namespace {

std::string joined(const std::vector<std::string>& parts, const char* separator) {
  return fmt::format("{}", fmt::join(parts, separator));
}

// "-c, --ctx-size N"
std::string flags_column(const OptionInfo& info) {
  std::string out = joined(info.flags, ", ");
  if (!info.negatives.empty()) out += ", " + joined(info.negatives, ", ");
  if (!info.is_switch()) out += " " + info.value_name;
  return out;
}

// Values that the table spells out: "text|json", "1 to 512".
std::string values_text(const OptionInfo& info) {
  const Constraint& c = info.constraint;
  if (c.kind == Constraint::Kind::choice) return joined(split_words(c.words, '|'), ", ");
  if (c.kind == Constraint::Kind::real) {
    return fmt::format("{}{} to {}", c.above_min ? "above " : "", c.real_min, c.real_max);
  }
  return "";
}

std::string help_column(const OptionInfo& info) {
  std::vector<std::string> notes;
  if (const std::string values = values_text(info); !values.empty()) notes.push_back(values);
  if (const std::string text = info.default_text(); !text.empty()) {
    notes.push_back("default " + text);
  }
  if (const std::string name = info.environment(); !name.empty()) notes.push_back(name);
  return notes.empty() ? info.help : fmt::format("{} [{}]", info.help, joined(notes, "; "));
}

// Group names in the order of the table, of options that one of `verbs` has.
std::vector<std::string> groups_of(uint32_t verbs) {
  std::vector<std::string> groups;
  for (const OptionInfo& info : option_table()) {
    if ((info.verbs & verbs) == 0) continue;
    if (std::count(groups.begin(), groups.end(), info.group) == 0) groups.push_back(info.group);
  }
  return groups;
}

}  // namespace

std::string wrap(std::string_view text, size_t width, size_t indent) {
  std::string out;
  size_t column = 0;
  for (const std::string& word : split_words(text, ' ')) {
    if (column > 0 && column + 1 + word.size() > width) {
      out += "\n" + std::string(indent, ' ');
      column = 0;
    }
    if (column > 0) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
  }
  return out;
}

std::string short_help() {
  return "Strata runs GGUF language models.\n"
         "\n"
         "  strata run -m model.gguf -p \"Once upon a time\"   complete a prompt\n"
         "  strata chat -m model.gguf                        talk with a model\n"
         "  strata inspect model.gguf                        see what is in a file\n"
         "\n"
         "'strata help' lists everything, 'strata help VERB' the options of a verb.\n";
}

std::string general_help(int width) {
  std::string out = "usage: strata VERB [options]\n\nVerbs:\n";
  for (const Verb& verb : verb_table()) {
    if (verb.summary.empty()) continue;
    out += fmt::format("  {:<12}{}\n", verb.name, verb.summary);
  }
  const size_t columns = static_cast<size_t>(std::max(width, 40));
  out += "\n" +
         wrap(
             "'strata help VERB' shows the options of a verb, 'strata --version' the "
             "version. Every option can also be set in the environment (--ctx-size as "
             "STRATA_CTX_SIZE) or in a config file (ctx-size = 4096); a flag beats the "
             "environment, which beats the config file.",
             columns, 0) +
         "\n";
  out += "\nExit status: 0 done, 1 failed, 2 wrong usage, 3 does not fit in memory or context.\n";
  return out;
}

std::string verb_help(const Verb& verb, int width) {
  const size_t columns = static_cast<size_t>(std::clamp(width, 40, 120));
  std::string out = fmt::format("usage: strata {} [options]{}{}\n\n{}\n", verb.name,
                                verb.arguments.empty() ? "" : " ", verb.arguments,
                                wrap(std::string(verb.summary) + ".", columns, 0));
  out += "\nExamples:\n";
  for (const std::string& line : split_words(verb.usage, '\n')) out += "  " + line + "\n";

  // Flags that are wider than the column stand on a line of their own.
  const size_t left = columns >= 80 ? 32 : 6;
  for (const std::string& group : groups_of(verb.bit)) {
    out += "\n" + group + ":\n";
    for (const OptionInfo& info : option_table()) {
      if (info.group != group || (info.verbs & verb.bit) == 0) continue;
      std::string line = "  " + wrap(flags_column(info), columns - 2, 4);
      if (line.size() + 2 > left || line.find('\n') != std::string::npos) {
        line += "\n" + std::string(left, ' ');
      } else {
        line.resize(left, ' ');
      }
      out += line + wrap(help_column(info), columns - left, left) + "\n";
    }
  }
  return out;
}

std::string options_document() {
  std::string out =
      "# Options\n"
      "\n"
      "<!-- Made by `strata options-doc` from apps/strata/options.def. Do not edit by hand. -->\n"
      "\n"
      "Flags are spelled as llama.cpp spells them. Every option can also be set in the "
      "environment\n"
      "(a switch takes 1, true, on, yes or 0, false, off, no) or in a config file: `--config "
      "FILE`,\n"
      "else `strata/config.ini` in `$XDG_CONFIG_HOME` (`~/.config`). A flag beats the "
      "environment,\n"
      "which beats the config file. The config file is INI; its keys are the long names, and a\n"
      "section named like a verb holds for that verb only:\n"
      "\n"
      "```ini\n"
      "threads = 8\n"
      "\n"
      "[run]\n"
      "temp = 0\n"
      "n-predict = 200\n"
      "```\n"
      "\n"
      "`--flag=value` and `--flag value` mean the same. A value that looks like a flag needs the "
      "form\n"
      "with `=`. A switch is on when it is named; `--switch=off` turns it off again, also when "
      "the\n"
      "environment or the config file turned it on.\n";
  const auto cell = [](std::string text) {
    std::string escaped;
    for (const char c : text) {
      if (c == '|' || c == '\\') escaped += '\\';
      escaped += c;
    }
    return escaped;
  };
  const auto code = [](const std::string& text) { return "`" + text + "`"; };
  for (const std::string& group : groups_of(k_all)) {
    out += fmt::format(
        "\n## {}\n\n| Flags | Meaning | Default | Environment | Verbs |\n|---|---|---|---|---|\n",
        group);
    for (const OptionInfo& info : option_table()) {
      if (info.group != group) continue;
      std::vector<std::string> flags;
      const std::string value = info.is_switch() ? "" : " " + info.value_name;
      for (const std::string& flag : info.flags) flags.push_back(code(flag + value));
      for (const std::string& flag : info.negatives) flags.push_back(code(flag));
      std::string meaning = info.help;
      if (const std::string values = values_text(info); !values.empty()) {
        meaning += " (" + values + ")";
      }
      const std::string text = info.default_text();
      const std::string name = info.environment();
      out += fmt::format("| {} | {} | {} | {} | {} |\n", joined(flags, " "), cell(meaning),
                         text.empty() ? "" : code(text), name.empty() ? "" : code(name),
                         info.verbs == k_all ? "all" : joined(verb_names(info.verbs), ", "));
    }
  }
  return out;
}

}  // namespace strata::app
