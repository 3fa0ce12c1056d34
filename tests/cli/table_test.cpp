// The tables of verbs and options, and the texts made from them.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/terminal.h"
#include "run_binary.h"
#include "strata/completion.h"
#include "strata/help.h"
#include "strata/options.h"
#include "strata/verb.h"

namespace strata::app {
namespace {

std::vector<std::string> lines_of(const std::string& text) { return split_words(text, '\n'); }

TEST(Table, EveryFlagMeansOneThingForAVerb) {
  for (const Verb& verb : verb_table()) {
    std::set<std::string> flags;
    std::set<std::string> variables;
    for (const OptionInfo& info : option_table()) {
      if ((info.verbs & verb.bit) == 0) continue;
      for (const auto* list : {&info.flags, &info.negatives}) {
        for (const std::string& flag : *list) {
          EXPECT_TRUE(flags.insert(flag).second) << verb.name << " has two " << flag;
        }
      }
      if (!info.environment().empty()) {
        EXPECT_TRUE(variables.insert(info.environment()).second) << info.environment();
      }
    }
  }
}

TEST(Table, NamesAreUniqueAndWellFormed) {
  std::set<std::string> names;
  for (const OptionInfo& info : option_table()) {
    EXPECT_TRUE(names.insert(std::string(info.name())).second) << info.name();
    EXPECT_NE(info.verbs, 0u) << info.field;
    EXPECT_FALSE(info.help.empty()) << info.field;
    bool has_long = false;
    for (const auto* list : {&info.flags, &info.negatives}) {
      for (const std::string& flag : *list) {
        EXPECT_TRUE(flag.size() >= 2 && flag[0] == '-') << flag;
        EXPECT_EQ(flag.find('_'), std::string::npos) << flag;
        EXPECT_EQ(flag.find('='), std::string::npos) << flag;
        has_long |= flag.starts_with("--");
      }
    }
    EXPECT_TRUE(has_long) << info.field;
    const bool boolean = std::holds_alternative<bool Options::*>(info.member) ||
                         std::holds_alternative<std::optional<bool> Options::*>(info.member);
    EXPECT_EQ(info.is_switch(), boolean) << info.field;
    EXPECT_TRUE(boolean || info.negatives.empty()) << info.field;
  }
  std::set<std::string_view> verbs;
  for (const Verb& verb : verb_table()) EXPECT_TRUE(verbs.insert(verb.name).second);
}

TEST(Table, DefaultsPassTheirOwnChecks) {
  for (const OptionInfo& info : option_table()) {
    const std::string text = info.default_text();
    if (text.empty()) continue;
    Options options;
    EXPECT_NO_THROW(set_option(options, info, text, info.flags[0] + " " + text)) << info.field;
  }
}

TEST(Help, FitsTheTerminalAndNamesEveryFlag) {
  for (const Verb& verb : verb_table()) {
    if (verb.summary.empty()) continue;
    for (const int width : {40, 80, 100, 120}) {
      const std::string help = verb_help(verb, width);
      for (const std::string& line : lines_of(help)) {
        // Example command lines and single long words are not broken.
        if (line.find("strata") != std::string::npos || line.find("STRATA_") != std::string::npos) {
          continue;
        }
        EXPECT_LE(terminal::display_width(line), width) << verb.name << ": " << line;
      }
      for (const OptionInfo& info : option_table()) {
        if ((info.verbs & verb.bit) == 0) continue;
        for (const std::string& flag : info.flags) {
          EXPECT_NE(help.find(flag), std::string::npos) << flag;
        }
      }
    }
  }
  const std::string general = general_help(80);
  for (const std::string& name : verb_names()) {
    EXPECT_NE(general.find("\n  " + name + " "), std::string::npos) << name;
  }
  EXPECT_EQ(general.find("options-doc"), std::string::npos);
}

TEST(Help, Wrap) {
  EXPECT_EQ(wrap("a bb ccc", 4, 2), "a bb\n  ccc");
  EXPECT_EQ(wrap("longerthanfour x", 4, 0), "longerthanfour\nx");
  EXPECT_EQ(wrap("", 4, 0), "");
}

TEST(Docs, OptionsPageIsCurrent) {
  EXPECT_EQ(test::read_back(test::source_path("docs/options.md")), options_document())
      << "run: build/strata options-doc > docs/options.md";
}

// Runs the completion in a real shell: words are what was typed, the last one being completed.
std::vector<std::string> bash_completes(const std::string& words, int index) {
  const std::string script = bash_completion() + "COMP_WORDS=(" + words +
                             ")\nCOMP_CWORD=" + std::to_string(index) +
                             "\n_strata\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n";
  const test::RunResult result = test::run_program({"/bin/bash", "--norc", "-c", script});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.err, "");
  return lines_of(result.out);
}

bool has(const std::vector<std::string>& list, const std::string& word) {
  return std::count(list.begin(), list.end(), word) > 0;
}

TEST(Completion, Bash) {
  if (!std::filesystem::exists("/bin/bash")) GTEST_SKIP() << "skipped: no bash";
  EXPECT_EQ(bash_completes("strata to", 1), (std::vector<std::string>{"tokenize"}));
  EXPECT_EQ(bash_completes("strata run --tempe", 2), (std::vector<std::string>{"--temperature"}));
  const auto of_inspect = bash_completes("strata inspect -", 2);
  EXPECT_TRUE(has(of_inspect, "--output"));
  EXPECT_FALSE(has(of_inspect, "--temp"));
  EXPECT_EQ(bash_completes("strata inspect -o ''", 3), (std::vector<std::string>{"text", "json"}));
  EXPECT_EQ(bash_completes("strata completion z", 2), (std::vector<std::string>{"zsh"}));
  EXPECT_TRUE(has(bash_completes("strata run -m /etc/passw", 3), "/etc/passwd"));
  EXPECT_TRUE(bash_completes("strata run -n ''", 3).empty() ||
              bash_completes("strata run -n ''", 3)[0].empty());
}

TEST(Completion, OtherShellsAcceptTheirScripts) {
  int tried = 0;
  if (std::filesystem::exists("/usr/bin/zsh")) {
    ++tried;
    const test::TemporaryFolder folder;
    const auto result =
        test::run_program({"/usr/bin/zsh", "-n", folder.write("_strata", zsh_completion())});
    EXPECT_EQ(result.status, 0) << result.err;
  }
  if (std::filesystem::exists("/usr/bin/fish")) {
    ++tried;
    const test::TemporaryFolder folder;
    const auto result =
        test::run_program({"/usr/bin/fish", "-n", folder.write("strata.fish", fish_completion())});
    EXPECT_EQ(result.status, 0) << result.err;
  }
  if (tried == 0) GTEST_SKIP() << "skipped: neither zsh nor fish";
}

}  // namespace
}  // namespace strata::app
