#include "strata/options.h"

#include <gtest/gtest.h>
#include <locale.h>

#include <cmath>
#include <locale>
#include <map>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "strata/verb.h"

namespace strata::app {
namespace {

using Words = std::vector<std::string>;
using Variables = std::map<std::string, std::string>;

Options parse(uint32_t verb, const Words& words, const Variables& variables = {}) {
  return parse_options(verb, words, [&](const std::string& name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

// The message of the usage error.
std::string refusal(uint32_t verb, const Words& words, const Variables& variables = {}) {
  try {
    parse(verb, words, variables);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::usage) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "accepted: " << (words.empty() ? "" : words.back());
  return "";
}

void expect_refusal(uint32_t verb, const Words& words, const Words& parts,
                    const Variables& variables = {}) {
  const std::string message = refusal(verb, words, variables);
  EXPECT_EQ(message.find('\n'), std::string::npos);
  for (const std::string& part : parts) {
    EXPECT_NE(message.find(part), std::string::npos) << "'" << part << "' is not in: " << message;
  }
}

TEST(Options, DefaultsAreThoseOfLlamaCpp) {
  const Options o = parse(k_run, {});
  EXPECT_EQ(o.model, "");
  EXPECT_EQ(o.ctx_size, std::nullopt);
  EXPECT_EQ(o.n_predict, -1);
  EXPECT_EQ(o.batch_size, 2048);
  EXPECT_EQ(o.ubatch_size, 512);
  EXPECT_EQ(o.cache_type_k, "f16");
  EXPECT_EQ(o.temp, 0.8);
  EXPECT_EQ(o.top_k, 40);
  EXPECT_EQ(o.top_p, 0.95);
  EXPECT_EQ(o.min_p, 0.05);
  EXPECT_EQ(o.typical_p, 1.0);
  EXPECT_EQ(o.repeat_penalty, 1.0);
  EXPECT_EQ(o.repeat_last_n, 64);
  EXPECT_EQ(o.seed, std::nullopt);
  EXPECT_EQ(o.conversation, std::nullopt);
  EXPECT_EQ(o.prompt, std::nullopt);
  EXPECT_TRUE(o.display_prompt);
}

TEST(Options, EverySpelling) {
  const Options o = parse(k_run, {"-m",
                                  "a.gguf",
                                  "-c",
                                  "4096",
                                  "-n",
                                  "7",
                                  "-b",
                                  "64",
                                  "-ub",
                                  "32",
                                  "-t",
                                  "3",
                                  "-tb",
                                  "5",
                                  "-ctk",
                                  "f32",
                                  "-ctv",
                                  "bf16",
                                  "-dev",
                                  "cpu:0-3",
                                  "-p",
                                  "hi",
                                  "-sys",
                                  "be kind",
                                  "-cnv",
                                  "-s",
                                  "42",
                                  "--temp",
                                  "0.5",
                                  "--top-k",
                                  "9",
                                  "--top-p",
                                  "0.5",
                                  "--min-p",
                                  "0.1",
                                  "--typical",
                                  "0.9",
                                  "--repeat-penalty",
                                  "1.1",
                                  "--repeat-last-n",
                                  "-1",
                                  "--presence-penalty",
                                  "0.25",
                                  "--frequency-penalty",
                                  "-0.25",
                                  "-l",
                                  "5+1.5",
                                  "-l",
                                  "6-inf",
                                  "--ignore-eos",
                                  "-r",
                                  "A",
                                  "--stop",
                                  "B",
                                  "--n-probs",
                                  "3",
                                  "--no-display-prompt",
                                  "-sp",
                                  "-v"});
  EXPECT_EQ(o.model, "a.gguf");
  EXPECT_EQ(o.ctx_size, 4096);
  EXPECT_EQ(o.n_predict, 7);
  EXPECT_EQ(o.batch_size, 64);
  EXPECT_EQ(o.ubatch_size, 32);
  EXPECT_EQ(o.threads, 3);
  EXPECT_EQ(o.threads_batch, 5);
  EXPECT_EQ(o.cache_type_k, "f32");
  EXPECT_EQ(o.cache_type_v, "bf16");
  EXPECT_EQ(o.device, "cpu:0-3");
  EXPECT_EQ(o.prompt, "hi");
  EXPECT_EQ(o.system_prompt, "be kind");
  EXPECT_EQ(o.conversation, true);
  EXPECT_EQ(o.seed, 42u);
  EXPECT_EQ(o.temp, 0.5);
  EXPECT_EQ(o.top_k, 9);
  EXPECT_EQ(o.top_p, 0.5);
  EXPECT_EQ(o.min_p, 0.1);
  EXPECT_EQ(o.typical_p, 0.9);
  EXPECT_EQ(o.repeat_penalty, 1.1);
  EXPECT_EQ(o.repeat_last_n, -1);
  EXPECT_EQ(o.presence_penalty, 0.25);
  EXPECT_EQ(o.frequency_penalty, -0.25);
  ASSERT_EQ(o.logit_bias.size(), 2u);
  EXPECT_EQ(o.logit_bias[0], (std::pair<int32_t, double>{5, 1.5}));
  EXPECT_EQ(o.logit_bias[1].second, -HUGE_VAL);
  EXPECT_TRUE(o.ignore_eos);
  EXPECT_EQ(o.reverse_prompt, (Words{"A", "B"}));
  EXPECT_EQ(o.n_probs, 3);
  EXPECT_FALSE(o.display_prompt);
  EXPECT_TRUE(o.special);
  EXPECT_TRUE(o.verbose);

  const Options same =
      parse(k_run, {"--model=a.gguf", "--ctx-size=4096", "--predict", "7", "--ctx_size", "99",
                    "--no-conversation", "--temperature=1e-1", "--seed=18446744073709551615"});
  EXPECT_EQ(same.model, "a.gguf");
  EXPECT_EQ(same.ctx_size, 99);  // the last one counts; _ is as good as -
  EXPECT_EQ(same.n_predict, 7);
  EXPECT_EQ(same.conversation, false);
  EXPECT_EQ(same.temp, 0.1);
  EXPECT_EQ(same.seed, UINT64_MAX);
}

TEST(Options, ValuesThatLeaveItToTheProgram) {
  const Options o = parse(k_run, {"-c", "auto", "-t", "-1", "-tb", "auto", "-s", "-1"});
  EXPECT_EQ(o.ctx_size, std::nullopt);
  EXPECT_EQ(o.threads, std::nullopt);
  EXPECT_EQ(o.threads_batch, std::nullopt);
  EXPECT_EQ(o.seed, std::nullopt);
  EXPECT_EQ(parse(k_run, {"-c", "5", "-c", "auto"}).ctx_size, std::nullopt);
  EXPECT_EQ(parse(k_run, {"-s", "random"}).seed, std::nullopt);
  EXPECT_EQ(parse(k_perplexity, {"--chunks", "all"}).chunks, std::nullopt);
}

TEST(Options, NumbersOutOfRange) {
  struct Case {
    Words words;
    Words parts;
  };
  const Case cases[] = {
      {{"-c", "0"}, {"-c 0", "out of range", "from 1 to 2147483647", "auto"}},
      {{"--ctx-size", "-5"}, {"--ctx-size -5", "from 1 to"}},
      {{"--ctx-size=2147483648"}, {"--ctx-size 2147483648", "from 1 to"}},
      {{"-c", "99999999999999999999999"}, {"out of range"}},
      {{"-c", "4k"}, {"-c 4k", "not a whole number"}},
      {{"-c", ""}, {"not a whole number"}},
      {{"-c", " 5"}, {"not a whole number"}},
      {{"-c", "5 "}, {"not a whole number"}},
      {{"-c", "0x10"}, {"not a whole number"}},
      {{"-c", "1e3"}, {"not a whole number"}},
      {{"-c", "5.0"}, {"not a whole number"}},
      {{"-n", "-2"}, {"-n -2", "from -1 to"}},
      {{"-b", "0"}, {"-b 0", "from 1 to 1048576"}},
      {{"-ub", "-1"}, {"-ub -1", "from 1 to 65536"}},
      {{"-t", "0"}, {"-t 0", "from 1 to 4096", "auto"}},
      {{"-t", "4097"}, {"-t 4097"}},
      {{"--top-k", "-2"}, {"--top-k -2", "from -1"}},
      {{"--repeat-last-n", "-2"}, {"from -1"}},
      {{"--temp", "-0.1"}, {"--temp -0.1", "from 0 to 100"}},
      {{"--temp", "abc"}, {"not a number"}},
      {{"--temp", "0,5"}, {"--temp 0,5", "not a number"}},
      {{"--temp", "nan"}, {"from 0 to 100"}},
      {{"--temp", "inf"}, {"from 0 to 100"}},
      {{"--temp", "1e999"}, {"out of range"}},
      {{"--top-p", "1.0001"}, {"from 0 to 1"}},
      {{"--min-p", "-1"}, {"from 0 to 1"}},
      {{"--repeat-penalty", "0"}, {"above 0 to 100"}},
      {{"-s", "-2"}, {"-s -2", "18446744073709551615"}},
      {{"-s", "18446744073709551616"}, {"18446744073709551615"}},
      {{"-s", "abc"}, {"-s abc"}},
      {{"--log-level", "loud"}, {"--log-level loud", "error, warning, info and debug"}},
      {{"-l", "5"}, {"-l 5", "TOKEN+BIAS"}},
      {{"-l", "5+"}, {"TOKEN+BIAS"}},
      {{"-l", "+5"}, {"TOKEN+BIAS"}},
      {{"-l", "5+x"}, {"TOKEN+BIAS"}},
      {{"-l", "5+inf"}, {"TOKEN+BIAS"}},
      {{"-l", "5+nan"}, {"TOKEN+BIAS"}},
      {{"-l", "5+-1"}, {"TOKEN+BIAS"}},
      {{"-l", "99999999999+1"}, {"TOKEN+BIAS"}},
      {{"-l", "5.5+1"}, {"TOKEN+BIAS"}},
      {{"-m", ""}, {"the path is empty"}},
      {{"-r", ""}, {"the text is empty"}},
      {{"--stop="}, {"the text is empty"}},
  };
  for (const Case& c : cases) expect_refusal(k_run, c.words, c.parts);
}

TEST(Options, EdgesOfTheRanges) {
  EXPECT_EQ(parse(k_run, {"-c", "1"}).ctx_size, 1);
  EXPECT_EQ(parse(k_run, {"-c", "+7"}).ctx_size, 7);
  EXPECT_EQ(parse(k_run, {"-c", "2147483647"}).ctx_size, 2147483647);
  EXPECT_EQ(parse(k_run, {"-n", "0"}).n_predict, 0);
  EXPECT_EQ(parse(k_run, {"--temp", "0"}).temp, 0.0);
  EXPECT_EQ(parse(k_run, {"--temp", ".5"}).temp, 0.5);
  EXPECT_EQ(parse(k_run, {"--top-p", "1"}).top_p, 1.0);
  EXPECT_EQ(parse(k_run, {"-s", "0"}).seed, 0u);
  EXPECT_EQ(parse(k_run, {"--repeat-penalty", "0.01"}).repeat_penalty, 0.01);
}

TEST(Options, SwitchesEatNothing) {
  expect_refusal(k_run, {"--ignore-eos", "word"}, {"'word' follows no option"});
  expect_refusal(k_run, {"-cnv", "hello"}, {"'hello' follows no option"});
  expect_refusal(k_run, {"--ignore-eos", "off"}, {"'off' follows no option"});
  expect_refusal(k_run, {"model.gguf"}, {"model.gguf", "-m"});
}

// Every switch of every verb, in all three places that can set it.
TEST(Options, SwitchesAreSetAndUnsetEverywhere) {
  const auto value_of = [](const Options& options, const OptionInfo& info) {
    if (const auto* member = std::get_if<bool Options::*>(&info.member)) return options.*(*member);
    return (options.*std::get<std::optional<bool> Options::*>(info.member)).value();
  };
  const test::TemporaryFolder folder;
  int tried = 0;
  for (const OptionInfo& info : option_table()) {
    if (!info.is_switch() || info.field == "help") continue;
    const uint32_t verb = info.verbs & ~(info.verbs - 1);  // one of its verbs
    const std::string name(info.name());
    for (const auto& [word, on] : std::map<std::string, bool>{{"1", true},
                                                              {"true", true},
                                                              {"on", true},
                                                              {"yes", true},
                                                              {"YES", true},
                                                              {"0", false},
                                                              {"false", false},
                                                              {"off", false},
                                                              {"no", false},
                                                              {"False", false}}) {
      const std::string config = folder.write("c.ini", name + " = " + word + "\n");
      EXPECT_EQ(value_of(parse(verb, {}, {{info.environment(), word}}), info), on) << name;
      EXPECT_EQ(value_of(parse(verb, {"--config", config}), info), on) << name;
      for (const std::string& flag : info.flags) {
        EXPECT_EQ(value_of(parse(verb, {flag + "=" + word}), info), on) << flag;
      }
      for (const std::string& flag : info.negatives) {
        EXPECT_EQ(value_of(parse(verb, {flag + "=" + word}), info), !on) << flag;
      }
      ++tried;
    }
    // A flag undoes what the environment says.
    EXPECT_FALSE(value_of(parse(verb, {"--" + name + "=off"}, {{info.environment(), "1"}}), info));
    for (const std::string bad : {"2", "maybe", "", " 1"}) {
      expect_refusal(verb, {"--" + name + "=" + bad}, {"--" + name + "=" + bad, "neither yes"});
      if (bad.empty()) continue;  // an empty variable counts as none
      expect_refusal(verb, {}, {info.environment() + "=" + bad, "neither yes"},
                     {{info.environment(), bad}});
    }
    const std::string config = folder.write("c.ini", name + " = maybe\n");
    expect_refusal(verb, {"--config", config}, {"c.ini:1", name + " = maybe", "neither yes"});
    for (const std::string& flag : info.negatives) {
      expect_refusal(verb, {flag + "=maybe"}, {flag + "=maybe", "neither yes"});
    }
  }
  EXPECT_GE(tried, 80);
}

TEST(Options, MissingValues) {
  expect_refusal(k_run, {"-m"}, {"-m needs a value (FILE)"});
  expect_refusal(k_run, {"-m", "--temp", "1"}, {"-m needs a value", "--model=--temp"});
  expect_refusal(k_run, {"-p", "-n", "5"}, {"-p needs a value", "--prompt=-n"});
  expect_refusal(k_run, {"-p", "--"}, {"-p needs a value"});
  expect_refusal(k_run, {"-c", "--"}, {"-c needs a value"});
  // What cannot be a flag is a value.
  EXPECT_EQ(parse(k_run, {"-p", "-5"}).prompt, "-5");
  EXPECT_EQ(parse(k_run, {"-p", "- a list"}).prompt, "- a list");
  EXPECT_EQ(parse(k_run, {"-p", "---"}).prompt, "---");
  EXPECT_EQ(parse(k_run, {"-p", ""}).prompt, "");
  EXPECT_EQ(parse(k_run, {"--prompt=-n"}).prompt, "-n");
  EXPECT_EQ(parse(k_run, {"--prompt="}).prompt, "");
  EXPECT_EQ(parse(k_run, {"--prompt=a=b"}).prompt, "a=b");
  EXPECT_EQ(parse(k_run, {"-f", "-"}).file, "-");
}

TEST(Options, UnknownFlagsSuggestTheNearest) {
  expect_refusal(k_run, {"--ctx-sze", "5"},
                 {"unknown option --ctx-sze", "did you mean --ctx-size?"});
  expect_refusal(k_run, {"--tempreature=5"}, {"--temperature?"});
  expect_refusal(k_run, {"-cts", "f16"}, {"did you mean -ct"});
  expect_refusal(k_run, {"--qqqqqqqqqqqq"}, {"unknown option", "strata run --help"});
  expect_refusal(k_tokenize, {"--temp", "1"},
                 {"--temp is not an option of 'tokenize'", "run, chat and serve"});
  expect_refusal(k_run, {"-\x1b[2J"}, {"\\x1b"});
}

TEST(Options, OneFlagMayMeanDifferentThingsForVerbs) {
  EXPECT_EQ(parse(k_inspect, {"-o", "json"}).output_format, "json");
  EXPECT_EQ(parse(k_logits, {"-o", "json"}).output_file, "json");
  EXPECT_EQ(parse(k_logits, {"--output", "x"}).output_file, "x");
  expect_refusal(k_inspect, {"-o", "xml"}, {"-o xml", "text and json"});
}

TEST(Options, WordsThatAreNoFlags) {
  EXPECT_EQ(parse(k_inspect, {"a.gguf"}).arguments, (Words{"a.gguf"}));
  EXPECT_EQ(parse(k_inspect, {"-o", "json", "a.gguf"}).arguments, (Words{"a.gguf"}));
  EXPECT_EQ(parse(k_inspect, {"--", "-odd.gguf"}).arguments, (Words{"-odd.gguf"}));
  expect_refusal(k_inspect, {"a", "b"}, {"'b' is one word too many", "strata inspect FILE"});
}

TEST(Options, PromptAndFileExcludeEachOther) {
  expect_refusal(k_run, {"-p", "x", "-f", "y"}, {"'-p x' and '-f y'", "exclude"});
  // Unless one comes from a stronger place.
  const Options flag = parse(k_run, {"-f", "y"}, {{"STRATA_PROMPT", "x"}});
  EXPECT_EQ(flag.prompt, std::nullopt);
  EXPECT_EQ(flag.file, "y");
  expect_refusal(k_run, {}, {"exclude"}, {{"STRATA_PROMPT", "x"}, {"STRATA_FILE", "y"}});
}

TEST(Options, Escapes) {
  EXPECT_EQ(parse(k_run, {"-p", "a\\nb\\t\\\\n"}).prompt, "a\nb\t\\n");
  EXPECT_EQ(parse(k_run, {"-p", "a\\nb", "--no-escape"}).prompt, "a\\nb");
  EXPECT_EQ(parse(k_run, {"-r", "\\n\\n"}).reverse_prompt, (Words{"\n\n"}));
  EXPECT_EQ(parse(k_run, {"-sys", "\\x41\\x4a"}).system_prompt, "AJ");
  EXPECT_EQ(unescape("\\'\\\"\\r"), "'\"\r");
  EXPECT_EQ(unescape("\\q \\x4 \\xg0 \\"), "\\q \\x4 \\xg0 \\");
  EXPECT_EQ(unescape("\\\\n"), "\\n");
}

TEST(Options, EnvironmentTwins) {
  const Options o = parse(k_run, {},
                          {{"STRATA_CTX_SIZE", "77"},
                           {"STRATA_TEMP", "0.25"},
                           {"STRATA_IGNORE_EOS", "yes"},
                           {"STRATA_DISPLAY_PROMPT", "0"},
                           {"STRATA_CONVERSATION", "Off"},
                           {"STRATA_REVERSE_PROMPT", "END"},
                           {"STRATA_MODEL", "m.gguf"},
                           {"STRATA_IDS", "not for run"},
                           {"STRATA_SEED", ""}});
  EXPECT_EQ(o.ctx_size, 77);
  EXPECT_EQ(o.temp, 0.25);
  EXPECT_TRUE(o.ignore_eos);
  EXPECT_FALSE(o.display_prompt);
  EXPECT_EQ(o.conversation, false);
  EXPECT_EQ(o.reverse_prompt, (Words{"END"}));
  EXPECT_EQ(o.model, "m.gguf");
  for (const char* yes : {"1", "true", "on", "yes", "TRUE", "On"}) {
    EXPECT_TRUE(parse(k_run, {}, {{"STRATA_SPECIAL", yes}}).special) << yes;
  }
  for (const char* no : {"0", "false", "off", "no"}) {
    EXPECT_FALSE(parse(k_run, {}, {{"STRATA_SPECIAL", no}}).special) << no;
  }
  expect_refusal(k_run, {}, {"STRATA_SPECIAL=maybe"}, {{"STRATA_SPECIAL", "maybe"}});
  expect_refusal(k_run, {}, {"STRATA_CTX_SIZE=0", "from 1 to"}, {{"STRATA_CTX_SIZE", "0"}});
}

TEST(Options, FlagBeatsEnvironmentBeatsConfigFile) {
  const test::TemporaryFolder folder;
  const std::string config = folder.write("c.ini",
                                          "ctx-size = 1\n"
                                          "top-k = 1\n"
                                          "seed = 1\n"
                                          "reverse-prompt = one\n"
                                          "[run]\n"
                                          "top-k = 2\n"
                                          "seed = 2\n"
                                          "[chat]\n"
                                          "seed = 5\n");
  const Variables variables{{"STRATA_SEED", "3"}, {"STRATA_CONFIG", config}};
  const Options o = parse(k_run, {}, variables);
  EXPECT_EQ(o.ctx_size, 1);  // config
  EXPECT_EQ(o.top_k, 2);     // its section beats the rest of it
  EXPECT_EQ(o.seed, 3u);     // environment
  EXPECT_EQ(o.reverse_prompt, (Words{"one"}));
  const Options flags = parse(k_run, {"-s", "4", "-r", "two", "-r", "three"}, variables);
  EXPECT_EQ(flags.seed, 4u);
  EXPECT_EQ(flags.reverse_prompt, (Words{"two", "three"}));  // a list is replaced, not mixed
  EXPECT_EQ(parse(k_chat, {"--config", config}).seed, 5u);
  EXPECT_EQ(parse(k_chat, {"--config", config}).top_k, 1);
}

TEST(Options, HelpWinsOverMistakes) {
  EXPECT_TRUE(parse(k_run, {"--nonsense", "-c", "0", "--help"}).help);
  EXPECT_TRUE(parse(k_run, {"-h"}).help);
}

// Numbers are read the same whatever the locale says about commas.
class CommaPunctuation : public std::numpunct<char> {
 protected:
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

TEST(Options, LocalesChangeNothing) {
  const std::locale before;
  int tried = 0;
  const auto check = [&](const std::string& name) {
    ++tried;
    EXPECT_EQ(parse(k_run, {"--temp", "0.75"}).temp, 0.75) << name;
    expect_refusal(k_run, {"--temp", "0,75"}, {"not a number"});
    expect_refusal(k_run, {"-c", "1.000"}, {"not a whole number"});
    expect_refusal(k_run, {"--top-p", "2.5"}, {"2.5", "from 0 to 1"});
    EXPECT_EQ(parse(k_run, {"-l", "15043-0.5"}).logit_bias[0].second, -0.5) << name;
    for (const OptionInfo& info : option_table()) {
      if (info.field == "temp") {
        EXPECT_EQ(info.default_text(), "0.8") << name;
      }
      if (info.field == "batch_size") {
        EXPECT_EQ(info.default_text(), "2048") << name;
      }
    }
  };
  for (const char* name : {"C", "C.UTF-8", "de_DE.UTF-8", "fr_FR.UTF-8", "tr_TR.UTF-8"}) {
    if (::setlocale(LC_ALL, name) != nullptr) check(name);
  }
  ::setlocale(LC_ALL, "C");
  std::locale::global(std::locale(before, new CommaPunctuation));
  check("commas");
  std::locale::global(before);
  EXPECT_GE(tried, 3);
}

}  // namespace
}  // namespace strata::app
