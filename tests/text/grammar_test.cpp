// GBNF: each construct by texts that must and must not match, errors with their place, limits.
#include "text/grammar/matcher.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <initializer_list>

#include "base/json.h"
#include "base/utf8.h"
#include "grammar_support.h"
#include "text/grammar/code_points.h"
#include "text/sampler.h"

namespace strata::text {
namespace {

using namespace test_support;

void expect(const std::string& gbnf, std::initializer_list<const char*> yes,
            std::initializer_list<const char*> no) {
  const GrammarMatcher matcher = byte_matcher(gbnf);
  for (const char* text : yes) EXPECT_TRUE(matches(matcher, text)) << gbnf << "\n" << text;
  for (const char* text : no) EXPECT_FALSE(matches(matcher, text)) << gbnf << "\n" << text;
}

TEST(Grammar, Literals) {
  expect("root ::= \"abc\"", {"abc"}, {"", "ab", "abcd", "Abc"});
  expect(R"(root ::= "a\n\t\r\"\\\x41\u00e9\U0001F600[]")",
         {"a\n\t\r\"\\A\xC3\xA9\xF0\x9F\x98\x80[]"}, {"a", "a\\n"});
  expect("root ::= \"\"", {""}, {"a"});
  expect("root ::= \"é\"", {"\xC3\xA9"}, {"\xE9", "\xC3"});
}

TEST(Grammar, Classes) {
  expect("root ::= [a-cx]", {"a", "b", "c", "x"}, {"d", "", "ab", "-"});
  expect("root ::= [^a-cx]", {"d", "\n", "\xC3\xA9", "\xF0\x9F\x98\x80"}, {"a", "x", "", "dd"});
  expect("root ::= [a-]", {"a", "-"}, {"b"});
  expect("root ::= [-a]", {"a", "-"}, {"b"});
  expect(R"(root ::= [\]\[\\\n\x41-\x43"])", {"]", "[", "\\", "\n", "A", "B", "C", "\""},
         {"D", "x", "n"});
  expect("root ::= [а-я]", {"\xD0\xB0", "\xD1\x8F", "\xD0\xBF"}, {"\xD0\xAF", "a", "\xD1\x90"});
  expect("root ::= [\\u4e00-\\u9fff]", {"中", "文"}, {"a", "あ"});
  expect("root ::= .", {"a", "\n", "\xC3\xA9", "\xF4\x8F\xBF\xBF"},
         {"", "\xC3", "\xED\xA0\x80", "\xC0\x80", "\xF4\x90\x80\x80", "\xFF"});
}

TEST(Grammar, Repetitions) {
  expect("root ::= \"ab\"*", {"", "ab", "abab"}, {"a", "aba"});
  expect("root ::= \"ab\"+", {"ab", "abab"}, {"", "aba"});
  expect("root ::= \"ab\"?", {"", "ab"}, {"abab"});
  expect("root ::= [0-9]{3}", {"123"}, {"12", "1234", ""});
  expect("root ::= [0-9]{2,}", {"12", "123", "123456789"}, {"", "1"});
  expect("root ::= [0-9]{1,3}", {"1", "12", "123"}, {"", "1234"});
  expect("root ::= [0-9]{0,2} \"x\"", {"x", "1x", "12x"}, {"123x", ""});
  expect("root ::= (\"a\" | \"bc\"){2, 3} \"!\"", {"aa!", "abc!", "bcbcbc!", "aaa!"},
         {"a!", "aaaa!", "bc!"});
  expect("root ::= \"a\"{0} \"b\"", {"b"}, {"ab"});
  expect("root ::= ((\"a\"?)* | \"b\"*)*", {"", "aabba"}, {"c"});
  expect("root ::= ([0-9]{2} \",\"){2,3}", {"12,34,", "12,34,56,"},
         {"12,", "1,2,", "12,34,56,78,"});
  expect("root ::= (x{2}){2,}\nx ::= \"a\"", {"aaaa", "aaaaaa"}, {"aa", "aaaaa", "aaa"});
  expect("root ::= \"a\"{2}{2}", {"aaaa"}, {"aa", "aaa"});
  expect("root ::= (\"a\"?){3} \"b\"", {"b", "ab", "aaab"}, {"aaaab"});
}

TEST(Grammar, LayoutOfRules) {
  expect(
      "# a comment\r\nroot ::= a |\n   b # another \"comment\"\n\n"
      "a   ::=\n  \"x\"\nb ::= ( \"y\"\n | \"z\" # inside\n )",
      {"x", "y", "z"}, {"xy", ""});
  expect("root ::= a | | b\na ::= \"1\"\nb ::= \"2\"", {"", "1", "2"}, {"12"});
  expect("Other-1 ::= \"q\"\nroot ::= Other-1 Other-1", {"qq"}, {"q"});
}

TEST(Grammar, RecursionCountsBrackets) {
  expect("root ::= \"(\" root \")\" | \"\"", {"", "()", "((()))"}, {"(", "())", "(()"});
  // Two kinds, many at once.
  expect("root ::= (\"(\" root \")\" | \"[\" root \"]\")*", {"", "([])[]()", "[[()()]]"},
         {"([)]", "(", "]"});
  std::string deep(9'000, '(');
  deep += std::string(9'000, ')');
  EXPECT_TRUE(matches(byte_matcher("root ::= \"(\" root \")\" | \"\""), deep));
}

// The example grammars that everybody knows, in our words.
constexpr const char* k_arithmetic = R"gbnf(
root  ::= (expr "=" ws term "\n")+
expr  ::= term ([-+*/] term)*
term  ::= ident | num | "(" ws expr ")" ws
ident ::= [a-z] [a-z0-9_]* ws
num   ::= [0-9]+ ws
ws    ::= [ \t\n]*
)gbnf";
constexpr const char* k_list = R"gbnf(
root ::= item+
# no line ends within an item
item ::= "- " [^\r\n\x0b\x0c\x85\u2028\u2029]+ "\n"
)gbnf";
constexpr const char* k_chess = R"gbnf(
root     ::= "1. " move " " move "\n" ([1-9] [0-9]? ". " move " " move "\n")+
move     ::= (pawn | nonpawn | castle) [+#]?
nonpawn  ::= [NBKQR] [a-h]? [1-8]? "x"? [a-h] [1-8]
pawn     ::= ([a-h] "x")? [a-h] [1-8] ("=" [NBKQR])?
castle   ::= "O-O" "-O"?
)gbnf";
constexpr const char* k_json = R"gbnf(
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws ( string ":" ws value ("," ws string ":" ws value)* )? "}" ws
array  ::= "[" ws ( value ("," ws value)* )? "]" ws
string ::= "\"" ( [^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt/] | "u" [0-9a-fA-F]{4}) )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws
ws     ::= | " " | "\n" [ \t]{0,20}
)gbnf";

TEST(Grammar, WellKnownExamples) {
  expect(k_arithmetic, {"1+2=3\n", "(x +12)*y= z\n", "a1-b=c\n4=4\n"},
         {"1+=3\n", "1+2=3", "", "(1=2\n"});
  expect(k_list, {"- one\n", "- one\n- zwölf\n"}, {"- one", "one\n", "- \n", "- a\xE2\x80\xA8\n"});
  expect(k_chess, {"1. e4 e5\n2. Nf3 Nc6\n", "1. e4 e5\n2. exd5 Qxd5+\n3. O-O O-O-O#\n"},
         {"1. e4 e5\n", "1. e9 e5\n2. Nf3 Nc6\n", "1. e4 e5 2. Nf3 Nc6"});
  expect(k_json,
         {"{}", "{\"a\":1}", "{\"a\": [1, 2.5e3, null], \"b\": {\"c\": \"\\u00e9 \\n é\"}}"},
         {"[]", "{\"a\":}", "{\"a\":01}", "{\"a\":1,}", "{\"a\":\"\n\"}", "{'a':1}"});
}

TEST(Grammar, RandomJsonParses) {
  GrammarMatcher matcher = byte_matcher(k_json);
  int ended = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    std::mt19937_64 random(seed);
    matcher.reset();
    const std::string text = random_text(matcher, *byte_tokens(), random);
    if (text.empty()) continue;
    ++ended;
    // Lone surrogates are allowed by this grammar; JSON readers refuse them.
    if (text.find("\\u") != text.npos) continue;
    EXPECT_NO_THROW(Json::parse(text)) << text;
  }
  EXPECT_GT(ended, 30);
}

TEST(Grammar, ErrorsNameThePlaceAndTheWayOut) {
  const std::pair<const char*, const char*> cases[] = {
      {"root ::= a", "line 1, column 10: rule 'a' is not defined"},
      {"a ::= \"x\"", "no rule 'root'"},
      {"", "no rule 'root'"},
      {"root ::= \"é\" é", "line 1, column 14"},
      {"root ::= \"a", "line 1, column 10: '\"' is not closed"},
      {"root ::= \"a\nb\"", "line 1, column 10: '\"' is not closed on its line"},
      {"root ::= [a", "line 1, column 10: '[' is not closed"},
      {"root ::= []", "column 10: an empty class"},
      {"root ::= [z-a]", "column 11: the range 'z-a' ends below"},
      {"root ::= \"\\q\"", "column 11: unknown escape"},
      {"root ::= \"\\x4\"", "column 11: this escape has 2"},
      {"root ::= \"\\uD800\"", "not a character"},
      {"root ::= \"\\U00110000\"", "not a character"},
      {"root ::= *", "column 10: found '*' with nothing before it"},
      {"root ::= \"a\"{}", "a number is expected"},
      {"root ::= \"a\"{3,2}", "write {2,3}"},
      {"root ::= \"a\"{2", "the end of the grammar in a repetition"},
      {"root ::= \"a\"{1,99999999999}", "the most is 1000000000"},
      {"root ::= (\"a\"\n\n", "line 3, column 1: found the end of the grammar where ')'"},
      {"root ::= \"a\")", "')' without '('"},
      {"root = \"a\"", "where '::=' is expected"},
      {"root ::= \"a\"\nroot ::= \"b\"", "line 2, column 1: rule 'root' is defined twice"},
      {"root ::= \"\xFF\"", "not UTF-8"},
      {"root ::= root \"a\" | \"a\"", "left recursion"},
      {"root ::= a\na ::= b? c\nb ::= \"x\"\nc ::= a \"y\" | \"z\"", "left recursion"},
      {"root ::= \"\" root \"a\"", "left recursion"},
      {"root ::= (\"a\"*){2} root", "left recursion"},
      {"root ::= <x>", "a literal"},
  };
  for (const auto& [gbnf, part] : cases) {
    EXPECT_NE(error_of(gbnf).find(part), std::string::npos) << gbnf << "\n" << error_of(gbnf);
  }
}

TEST(Grammar, HostileTextsAreRefusedSoon) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_NE(error_of("root ::= " + std::string(60'000, '(')).find("nested deeper"),
            std::string::npos);
  EXPECT_NE(error_of("root ::= \"a\"" + std::string(60'000, '*')).find("repetitions"),
            std::string::npos);
  EXPECT_NE(error_of(std::string(5 << 20, '#')).find("bytes"), std::string::npos);
  std::string rules = "root ::= \"a\"\n";
  for (int i = 0; i < 60'000; ++i) rules += "r" + std::to_string(i) + "::=\"a\"\n";
  EXPECT_NE(error_of(rules).find("rules"), std::string::npos);
  // A long chain of rules, each nullable only through the next: linear, no recursion.
  std::string chain;
  for (int i = 0; i < 40'000; ++i) {
    chain += "r" + std::to_string(i) + "::=r" + std::to_string(i + 1) + "?\n";
  }
  Grammar::parse("root ::= r0\n" + chain + "r40000 ::= \"x\"");
  EXPECT_NE(error_of("root ::= r0\n" + chain + "r40000 ::= r0").find("left recursion"),
            std::string::npos);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_LT(took.count(), 60.0);
}

TEST(Grammar, RepetitionsAreCountedNotWrittenOut) {
  GrammarMatcher matcher =
      byte_matcher("root ::= (\"ab\"{1,1000000000}){1,1000000000} \"c\"{65536}");
  EXPECT_LT(matcher.memory_bytes(), 100'000u);
  std::string text = "ababab" + std::string(65'536, 'c');
  EXPECT_FALSE(matches(byte_matcher("root ::= [a-z]{1,65541}"), text));
  EXPECT_TRUE(matches(byte_matcher("root ::= [a-z]{1,65542}"), text));
  EXPECT_TRUE(matches(byte_matcher("root ::= [a-z]{65542,}"), text));
  EXPECT_FALSE(matches(byte_matcher("root ::= [a-z]{65543,}"), text));
}

TEST(Grammar, AmbiguityIsBounded) {
  // 2^n ways to read n letters.
  GrammarMatcher matcher =
      byte_matcher("root ::= \"a\" root \"b\" | \"a\" root \"c\" | \"a\" root \"d\" | \"\"");
  try {
    (void)matcher.accept_text(std::string(100, 'a'));
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_request);
    EXPECT_NE(std::string(error.what()).find("ambiguous"), std::string::npos);
  }
  // The matcher stands where it stood.
  EXPECT_TRUE(matches(matcher, "aabc"));
  // So many repetitions of nothing are refused, not followed.
  const auto nothing = Grammar::parse("root ::= ((\"a\"?){0,1000000000}){0,1000000000}");
  EXPECT_THROW(GrammarMatcher(nothing, byte_tokens()), Error);
}

TEST(Grammar, MemoryStaysNearTheBudget) {
  // Every text is a state of its own.
  const auto grammar = Grammar::parse("root ::= \"a\" root \"a\" | \"b\" root \"b\" | \"c\"");
  constexpr size_t budget = 200'000;
  GrammarMatcher matcher(grammar, byte_tokens(), budget);
  std::mt19937_64 random(7);
  std::string text;
  size_t most = 0;
  for (int i = 0; i < 5'000; ++i) {
    text += random() % 2 == 0 ? 'a' : 'b';
    ASSERT_TRUE(matcher.accept_text(text.substr(text.size() - 1)));
    most = std::max(most, matcher.memory_bytes());
  }
  EXPECT_LT(most, 3 * budget);
  GrammarMatcher copy = matcher;
  std::string back(text.rbegin(), text.rend());
  EXPECT_TRUE(matches(copy, "c" + back));
  EXPECT_FALSE(matches(matcher, "c" + back.substr(0, back.size() - 1)));
  // One walk over many tokens outgrows the budget too, and gives the same mask.
  std::vector<std::string> texts = {""};
  for (int i = 0; i < 3'000; ++i) {
    std::string token;
    for (int k = 0; k < 12; ++k) token += static_cast<char>('a' + random() % 3);
    texts.push_back(token);
  }
  const auto tokens = TokenTrie::make(texts, {0});
  GrammarMatcher small(grammar, tokens, 20'000), large(grammar, tokens);
  std::vector<uint32_t> a(small.mask_words()), b(small.mask_words());
  small.mask(a);
  large.mask(b);
  EXPECT_EQ(a, b);
  for (size_t id = 1; id < texts.size(); ++id) {
    EXPECT_EQ(is_allowed(a, id), GrammarMatcher(large).accept_text(texts[id]));
  }
}

TEST(GrammarMatcher, TokensCrossRulesAndCharacters) {
  // Parts of characters, of rules, duplicates, and two that end.
  const std::vector<std::string> texts = {"\"",  "\xC3", "\xA9", "é\"",    "a\",\"", "a", "",
                                          "\"a", "a",    "x\n",  "\xC3\"", "",       ""};
  const auto tokens = TokenTrie::make(texts, {11, 6});
  GrammarMatcher matcher(Grammar::parse("root ::= \"\\\"\" [^\"\\n]* \"\\\"\" (\",\" root)?"),
                         tokens);
  const auto allowed = [&] {
    std::vector<uint32_t> mask(matcher.mask_words());
    matcher.mask(mask);
    std::vector<size_t> ids;
    for (size_t id = 0; id < texts.size(); ++id) {
      EXPECT_EQ(is_allowed(mask, id), matcher.allows(static_cast<TokenId>(id)));
      if (is_allowed(mask, id)) ids.push_back(id);
    }
    return ids;
  };
  using Ids = std::vector<size_t>;
  EXPECT_EQ(allowed(), (Ids{0, 7}));
  ASSERT_TRUE(matcher.accept(0));
  EXPECT_EQ(allowed(), (Ids{0, 1, 3, 4, 5, 8}));
  ASSERT_TRUE(matcher.accept(1));
  EXPECT_EQ(allowed(), (Ids{2}));
  EXPECT_FALSE(matcher.accept(5));
  EXPECT_FALSE(matcher.accept(11));
  EXPECT_FALSE(matcher.accept(12));
  EXPECT_FALSE(matcher.accept(-1));
  EXPECT_FALSE(matcher.accept(99));
  ASSERT_TRUE(matcher.accept(2));
  ASSERT_TRUE(matcher.accept(4));
  const GrammarMatcher here = matcher;
  ASSERT_TRUE(matcher.accept(0));
  EXPECT_TRUE(matcher.is_complete());
  EXPECT_EQ(allowed(), (Ids{6, 11}));
  ASSERT_TRUE(matcher.accept(11));
  EXPECT_TRUE(matcher.is_finished());
  EXPECT_EQ(allowed(), (Ids{6, 11}));
  EXPECT_FALSE(matcher.accept(0));
  matcher = here;
  EXPECT_FALSE(matcher.is_finished());
  EXPECT_EQ(allowed(), (Ids{0, 1, 3, 4, 5, 8}));
  matcher.reset();
  EXPECT_EQ(allowed(), (Ids{0, 7}));
}

// Every mask is what one gets by trying each token alone.
TEST(GrammarMatcher, MasksAgreeWithTryingEveryToken) {
  const auto tokenizer = load_tokenizer(test::source_path("models/demo-q8_0.gguf"));
  const auto tokens = TokenTrie::make(*tokenizer);
  ASSERT_EQ(tokens->size(), tokenizer->size());
  for (const char* gbnf : {k_json, k_arithmetic, k_list, k_chess, "root ::= [a-z ]{0,40} \".\"",
                           "root ::= [^\"\\\\]{3,20} \"\\\"\""}) {
    GrammarMatcher matcher(Grammar::parse(gbnf), tokens);
    std::mt19937_64 random(3);
    std::vector<uint32_t> mask(matcher.mask_words());
    for (int step = 0; step < 60 && !matcher.is_finished(); ++step) {
      matcher.mask(mask);
      std::vector<TokenId> allowed;
      for (size_t i = 0; i < tokens->size(); ++i) {
        const auto id = static_cast<TokenId>(i);
        const TokenKind kind = tokenizer->kind(id);
        bool expected = false;
        if (tokenizer->is_end_of_generation(id)) {
          expected = matcher.is_complete();
        } else if (kind != TokenKind::control && kind != TokenKind::unknown) {
          GrammarMatcher copy = matcher;
          const std::string piece = tokenizer->piece(id);
          expected = !piece.empty() && copy.accept_text(piece);
        }
        ASSERT_EQ(is_allowed(mask, i), expected) << gbnf << " token " << id;
        if (expected) allowed.push_back(id);
      }
      if (allowed.empty()) break;
      ASSERT_TRUE(matcher.accept(allowed[random() % allowed.size()]));
    }
  }
}

TEST(CodePoints, Utf8SequencesSpellExactlyTheSet) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 40; ++round) {
    grammar::CodePointSet set;
    for (int i = 0; i < 4; ++i) {
      const auto first = static_cast<uint32_t>(random() % 0x110000 >> (random() % 12));
      const auto length = static_cast<uint32_t>(random() % 0x3000);
      set.push_back({first, std::min(first + length, grammar::k_last_code_point)});
    }
    set = grammar::normalise(set);
    const auto sequences = grammar::utf8_sequences(set);
    const auto rest = grammar::complement(set);
    const auto holds = [&](uint32_t c) {
      std::string text;
      append_utf8(text, c);
      for (const auto& s : sequences) {
        bool same = s.length == text.size();
        for (size_t i = 0; same && i < text.size(); ++i) {
          const auto byte = static_cast<uint8_t>(text[i]);
          same = byte >= s.bytes[i].first && byte <= s.bytes[i].last;
        }
        if (same) return true;
      }
      return false;
    };
    const auto check = [&](uint32_t c) {
      bool in_set = false;
      for (const auto& range : set) in_set |= c >= range.first && c <= range.last;
      const bool surrogate = c >= 0xD800 && c <= 0xDFFF;
      if (surrogate || c > grammar::k_last_code_point) return;
      ASSERT_EQ(holds(c), in_set) << c;
      bool in_rest = false;
      for (const auto& range : rest) in_rest |= c >= range.first && c <= range.last;
      ASSERT_NE(in_set, in_rest) << c;
    };
    for (const auto& range : set) {
      for (uint32_t d = 0; d < 70; ++d) {
        check(range.first + d);
        if (range.first >= d) check(range.first - d);
        if (range.last >= d) check(range.last - d);
        check(range.last + d);
      }
    }
  }
}

// Far more alternatives than can be open at once; the language is theirs, no more.
TEST(Grammar, LongLists) {
  const auto check = [](const std::string& gbnf, const std::vector<std::string>& in,
                        const std::vector<std::string>& out) {
    const GrammarMatcher matcher = byte_matcher(gbnf);
    for (const std::string& text : in) EXPECT_TRUE(matches(matcher, text)) << text;
    for (const std::string& text : out) EXPECT_FALSE(matches(matcher, text)) << text;
  };
  std::string words, tails, rules, letters;
  std::vector<std::string> all, followed;
  for (int i = 0; i < 20'000; ++i) {
    const std::string number = std::to_string(i);
    all.push_back("item " + number + (i % 2 == 0 ? "" : "a"));
    words += (i > 0 ? " | \"" : "\"") + all.back() + "\"";
    // The same text twice, with different ends.
    followed.push_back(number + (i % 3 == 0 ? "x" : "yy"));
    tails += (i > 0 ? " | \"" : "\"") + number + "\" " + (i % 3 == 0 ? "[xz]" : "\"y\"+") +
             (i % 1000 == 0 ? " | \"" + number + "\" end" : "");
    rules += (i > 0 ? " | n" : "n") + number;
  }
  check("root ::= " + words, all, {"item ", "item 1", "item 2a", "item 20000", "", "item 19999aa"});
  check("root ::= \"<\" (" + words + " | [0-9]) \">\"", {"<item 7a>", "<7>", "<item 19998>"},
        {"<>", "<item 7>", "<77>"});
  check("root ::= " + tails + "\nend ::= \".\"", followed,
        {"0", "0y", "1x", "20000x", "1", "1.", "", "3y"});
  check("root ::= " + tails + "\nend ::= \".\"", {"0.", "19000.", "3z", "1yyyy"},
        {"3zz", "19001."});
  std::string numbered = "root ::= " + rules;
  for (int i = 0; i < 20'000; ++i) numbered += fmt::format("\nn{} ::= \"{}\"", i, i);
  check(numbered, {"0", "1", "19999", "777"}, {"", "20000", "00", "01"});
  // Neighbours whose UTF-8 begins alike, and the empty text.
  letters = "root ::= \"\"";
  std::vector<std::string> characters = {""};
  for (uint32_t c = 0x4E00; c < 0x4E00 + 6'000; ++c) {
    characters.emplace_back();
    append_utf8(characters.back(), c);
    letters += " | \"" + characters.back() + "\"";
  }
  check(letters, characters, {"\xE4\xB8", "\xE4", "a", characters[1] + characters[1]});
  // Each begins as the next does, more of them than beginnings are shared.
  std::string stairs = "root ::= \"a\"";
  for (size_t i = 2; i < 300; ++i) stairs += " | \"" + std::string(i, 'a') + "\"";
  check(stairs, {"a", std::string(63, 'a'), std::string(64, 'a'), std::string(299, 'a')},
        {"", std::string(300, 'a'), "b", "ab"});
}

TEST(SamplerMask, BansTokensAndChangesNothingElse) {
  SamplingOptions options;
  options.seed = 5;
  options.top_k = 0;
  options.top_p = 1;
  options.min_p = 0;
  options.n_probs = 2;
  const std::vector<float> logits = {3, 2, 1, 0.5f, 0.25f};
  Sampler masked(options, 5, {});
  SamplingOptions biased_options = options;
  for (const TokenId id : {0, 2}) biased_options.logit_bias.emplace_back(id, -INFINITY);
  Sampler biased(biased_options, 5, {}), free(options, 5, {}), full(options, 5, {});
  const uint32_t some[] = {0b11010}, all[] = {0b11111}, none[] = {0}, one[] = {0b00100};
  for (int i = 0; i < 200; ++i) {
    const Sample a = masked.sample(logits, some), b = biased.sample(logits);
    EXPECT_EQ(a.id, b.id);
    EXPECT_TRUE(a.id == 1 || a.id >= 3);
    EXPECT_EQ(a.log_probability, b.log_probability);
    EXPECT_EQ(a.top[0].id, 0);  // the model's own distribution
    EXPECT_EQ(free.sample(logits).id, full.sample(logits, all).id);
  }
  EXPECT_EQ(masked.sample(logits, one).id, 2);
  EXPECT_THROW(masked.sample(logits, none), Error);
  options.temperature = 0;
  EXPECT_EQ(Sampler(options, 5, {}).sample(logits, some).id, 1);
  EXPECT_THROW(Sampler(options, 64, {}).sample(std::vector<float>(64), one), Error);
  std::vector<float> values(70, 1.0f);
  const uint32_t words[] = {0xFFFFFFFF, 0x80000001, 0x21};
  apply_mask(words, values);
  for (size_t i = 0; i < values.size(); ++i) {
    const bool on = (words[i / 32] >> (i % 32) & 1) != 0;
    EXPECT_EQ(values[i], on ? 1.0f : -INFINITY) << i;
  }
}

}  // namespace
}  // namespace strata::text
