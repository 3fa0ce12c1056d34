#include "strata/completion.h"

#include <fmt/format.h>

#include "strata/verb.h"

namespace strata::app {
namespace {

std::vector<std::string> all_flags(const OptionInfo& info) {
  std::vector<std::string> flags = info.flags;
  flags.insert(flags.end(), info.negatives.begin(), info.negatives.end());
  return flags;
}

std::string choices(const OptionInfo& info) {
  const Constraint& c = info.constraint;
  return fmt::format(
      "{}",
      fmt::join(split_words(c.kind == Constraint::Kind::choice ? c.words : c.unset, '|'), " "));
}

bool is_path(const OptionInfo& info) { return info.constraint.kind == Constraint::Kind::path; }

std::string visible_verbs() { return fmt::format("{}", fmt::join(verb_names(), " ")); }

// What completes the words that are not flags.
std::string argument_choices(const Verb& verb) {
  if (verb.name == "completion") return "bash zsh fish";
  if (verb.name == "help") return visible_verbs();
  return "";
}
bool argument_is_file(const Verb& verb) { return verb.arguments == "FILE"; }

// The first sentence of a help text.
std::string brief(const OptionInfo& info) { return info.help.substr(0, info.help.find(". ")); }

// `text` with a backslash before each of `special`.
std::string escaped(std::string_view text, std::string_view special) {
  std::string out;
  for (const char c : text) {
    if (special.find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

// For the inside of a single-quoted word of zsh.
std::string zsh_quoted(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

std::string bash_completion() {
  std::string out =
      "# Completion of strata for bash; use: source <(strata completion bash)\n"
      "_strata() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
      "  local verb=${COMP_WORDS[1]}\n"
      "  COMPREPLY=()\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n";
  out += fmt::format("    COMPREPLY=($(compgen -W \"{} --help --version\" -- \"$word\"))\n",
                     visible_verbs());
  out += "    return\n  fi\n  case \"$verb:$before\" in\n";
  for (const Verb& verb : verb_table()) {
    if (verb.summary.empty()) continue;
    for (const OptionInfo& info : option_table()) {
      if ((info.verbs & verb.bit) == 0 || info.is_switch()) continue;
      std::vector<std::string> patterns;
      for (const std::string& flag : info.flags) {
        patterns.push_back(fmt::format("{}:{}", verb.name, flag));
      }
      const std::string reply =
          is_path(info) ? "COMPREPLY=($(compgen -f -- \"$word\"))"
          : choices(info).empty()
              ? ":"
              : fmt::format("COMPREPLY=($(compgen -W \"{}\" -- \"$word\"))", choices(info));
      out += fmt::format("    {}) {}; return ;;\n", fmt::join(patterns, "|"), reply);
    }
  }
  out += "  esac\n  case \"$verb\" in\n";
  for (const Verb& verb : verb_table()) {
    if (verb.summary.empty()) continue;
    std::vector<std::string> words;
    for (const OptionInfo& info : option_table()) {
      if ((info.verbs & verb.bit) == 0) continue;
      const auto flags = all_flags(info);
      words.insert(words.end(), flags.begin(), flags.end());
    }
    const std::string arguments = argument_choices(verb);
    out += fmt::format(
        "    {})\n"
        "      if [[ $word == -* ]]; then\n"
        "        COMPREPLY=($(compgen -W \"{}\" -- \"$word\"))\n",
        verb.name, fmt::join(words, " "));
    if (argument_is_file(verb)) {
      out += "      else\n        COMPREPLY=($(compgen -f -- \"$word\"))\n";
    } else if (!arguments.empty()) {
      out += fmt::format("      else\n        COMPREPLY=($(compgen -W \"{}\" -- \"$word\"))\n",
                         arguments);
    }
    out += "      fi ;;\n";
  }
  out += "  esac\n}\ncomplete -o filenames -F _strata strata\n";
  return out;
}

std::string zsh_completion() {
  std::string out =
      "#compdef strata\n"
      "# Completion of strata for zsh; use: strata completion zsh > a folder of $fpath/_strata\n"
      "_strata() {\n"
      "  local -a verbs\n"
      "  verbs=(\n";
  for (const Verb& verb : verb_table()) {
    if (verb.summary.empty()) continue;
    out += fmt::format("    '{}:{}'\n", verb.name, verb.summary);
  }
  out +=
      "  )\n"
      "  if (( CURRENT == 2 )); then\n"
      "    _describe 'verb' verbs\n"
      "    return\n"
      "  fi\n"
      "  local verb=${words[2]}\n"
      "  shift words\n"
      "  (( CURRENT-- ))\n"
      "  case $verb in\n";
  for (const Verb& verb : verb_table()) {
    if (verb.summary.empty()) continue;
    out += fmt::format("    {})\n      _arguments", verb.name);
    for (const OptionInfo& info : option_table()) {
      if ((info.verbs & verb.bit) == 0) continue;
      for (const std::string& flag : all_flags(info)) {
        std::string action;
        if (!info.is_switch()) {
          action = ":" + info.value_name + ":";
          if (is_path(info)) action += "_files";
          if (!is_path(info) && !choices(info).empty()) action += "(" + choices(info) + ")";
        }
        out += fmt::format(" \\\n        '{}{}[{}]{}'", info.is_list() ? "*" : "", flag,
                           zsh_quoted(escaped(brief(info), "[]\\:")), action);
      }
    }
    const std::string arguments = argument_choices(verb);
    if (argument_is_file(verb)) out += " \\\n        '1:file:_files'";
    if (!arguments.empty()) out += fmt::format(" \\\n        '1:word:({})'", arguments);
    out += " ;;\n";
  }
  out +=
      "  esac\n}\nif [ \"$funcstack[1]\" = _strata ]; then\n  _strata\nelse\n"
      "  compdef _strata strata\nfi\n";
  return out;
}

std::string fish_completion() {
  std::string out =
      "# Completion of strata for fish; use: strata completion fish | source\n"
      "complete -c strata -f\n";
  for (const Verb& verb : verb_table()) {
    if (verb.summary.empty()) continue;
    out += fmt::format("complete -c strata -n __fish_use_subcommand -a {} -d '{}'\n", verb.name,
                       verb.summary);
  }
  for (const Verb& verb : verb_table()) {
    if (verb.summary.empty()) continue;
    const std::string when =
        fmt::format("complete -c strata -n '__fish_seen_subcommand_from {}'", verb.name);
    for (const OptionInfo& info : option_table()) {
      if ((info.verbs & verb.bit) == 0) continue;
      out += when;
      for (const std::string& flag : all_flags(info)) {
        if (flag.starts_with("--")) {
          out += " -l " + flag.substr(2);
        } else {
          // Not -s, even for one letter: fish would offer values glued to the flag (-cauto).
          out += " -o " + flag.substr(1);
        }
      }
      if (!info.is_switch()) out += is_path(info) ? " -r -F" : " -x";
      if (!info.is_switch() && !choices(info).empty())
        out += fmt::format(" -a '{}'", choices(info));
      out += fmt::format(" -d '{}'\n", escaped(brief(info), "'\\"));
    }
    const std::string arguments = argument_choices(verb);
    if (!arguments.empty()) out += fmt::format("{} -a '{}'\n", when, arguments);
    if (argument_is_file(verb)) out += when + " -F\n";
  }
  return out;
}

}  // namespace strata::app
