#include "strata/config_file.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "strata/verb.h"

namespace strata::app {
namespace {

std::string refusal(std::string_view text, uint32_t verb = k_run) {
  try {
    parse_config(text, "c.ini", verb);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::usage);
    return error.what();
  }
  ADD_FAILURE() << "accepted: " << text;
  return "";
}

TEST(ConfigFile, KeysCommentsAndQuotes) {
  const auto entries = parse_config(
      "\xEF\xBB\xBF# comment\n"
      "; another\n"
      "\r\n"
      "  ctx_size=4096  \r\n"
      "temperature = 0.5\n"
      "prompt = \"  two spaces \"\n"
      "system-prompt = a = b # c\n"
      "no-display-prompt = yes\n"
      "no-special = off\n"
      "seed = 5",
      "c.ini", k_run);
  ASSERT_EQ(entries.size(), 6u);  // no-special is for tokenize
  EXPECT_EQ(entries[0].option->field, "ctx_size");
  EXPECT_EQ(entries[0].value, "4096");
  EXPECT_EQ(entries[0].origin, "c.ini:4: ctx_size = 4096");
  EXPECT_EQ(entries[1].option->field, "temp");
  EXPECT_EQ(entries[2].value, "  two spaces ");
  EXPECT_EQ(entries[3].value, "a = b # c");
  EXPECT_EQ(entries[4].option->field, "display_prompt");
  EXPECT_EQ(entries[4].value, "off");
  EXPECT_EQ(entries[5].option->field, "seed");
}

TEST(ConfigFile, SectionsAreVerbs) {
  const std::string text =
      "seed = 1\n[run]\nseed = 2\n[ chat ]\nseed = 3\n[inspect]\noutput = json\n";
  const auto run = parse_config(text, "c.ini", k_run);
  ASSERT_EQ(run.size(), 2u);
  EXPECT_FALSE(run[0].in_section);
  EXPECT_TRUE(run[1].in_section);
  EXPECT_EQ(run[1].value, "2");
  const auto inspect = parse_config(text, "c.ini", k_inspect);
  ASSERT_EQ(inspect.size(), 1u);
  EXPECT_EQ(inspect[0].option->field, "output_format");
}

TEST(ConfigFile, SameKeyForDifferentVerbs) {
  const auto logits = parse_config("output = x\n", "c.ini", k_logits);
  ASSERT_EQ(logits.size(), 1u);
  EXPECT_EQ(logits[0].option->field, "output_file");
}

TEST(ConfigFile, SaysWhatAndWhere) {
  EXPECT_EQ(refusal("a\nctx-sise = 5\n"), "c.ini:1: 'a' is not 'key = value'");
  EXPECT_EQ(refusal("\nctx-sise = 5\n"),
            "c.ini:2: unknown key 'ctx-sise'; did you mean 'ctx-size'?");
  EXPECT_EQ(refusal("[rnu]\n"),
            "c.ini:1: '[rnu]' is not a section; sections are verbs, as in [run]; did you mean "
            "'run'?");
  EXPECT_EQ(refusal("[tokenize]\ntemp = 1\n"),
            "c.ini:2: 'temp' does not apply here; it is for run, chat and serve");
  EXPECT_NE(refusal("[run\n").find("not a section"), std::string::npos);
  EXPECT_NE(refusal("help = 1\n").find("unknown key"), std::string::npos);
  EXPECT_NE(refusal("config = x\n").find("unknown key"), std::string::npos);
  EXPECT_NE(refusal("= 5\n").find("unknown key ''"), std::string::npos);
  EXPECT_NE(refusal("no-display-prompt = perhaps\n").find("c.ini:1: no-display-prompt = perhaps"),
            std::string::npos);
}

TEST(ConfigFile, Arbitrary) {
  // Bytes of any kind give entries or an Error, nothing else.
  uint64_t state = 1;
  const std::string alphabet = "[]=#;\n\r\t \"run-ctxsize0\xff\xc3\x01";
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (uint64_t n = state % 40; n > 0; --n) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      text += alphabet[(state >> 33) % alphabet.size()];
    }
    state = state * 6364136223846793005u + 1442695040888963407u;
    try {
      parse_config(text, "c.ini", k_run);
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    }
  }
}

TEST(ConfigFile, DefaultPath) {
  const test::TemporaryFolder folder;
  const std::string xdg = folder.path("xdg"), home = folder.path("home");
  const auto in = [&](const char* xdg_value) {
    return default_config_path([&, xdg_value](const std::string& name) -> const char* {
      if (name == "XDG_CONFIG_HOME") return xdg_value;
      if (name == "HOME") return home.c_str();
      return nullptr;
    });
  };
  EXPECT_EQ(in(xdg.c_str()), "");
  EXPECT_EQ(in(nullptr), "");
  const std::string of_home = folder.write("home/.config/strata/config.ini", "");
  const std::string of_xdg = folder.write("xdg/strata/config.ini", "");
  EXPECT_EQ(in(xdg.c_str()), of_xdg);
  EXPECT_EQ(in(nullptr), of_home);
  EXPECT_EQ(in(""), of_home);
  EXPECT_EQ(in("relative"), of_home);  // the standard says to ignore it
}

}  // namespace
}  // namespace strata::app
