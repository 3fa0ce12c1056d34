// WPM: normalisation, word splitting, longest match; expected values by the published rules of
// BERT's basic and WordPiece tokenizers.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tokenizer_support.h"

namespace strata::text {
namespace {

using namespace test_support;

// U+2581 before what begins a word.
std::string word(const std::string& text) { return "\xE2\x96\x81" + text; }

Builder small_wpm() {
  Builder b;
  b.model = "bert";
  b.pre = "bert-bge";
  b.add("[PAD]", 3);            // 0
  b.add("[UNK]", 3);            // 1
  b.add("[CLS]", 3);            // 2
  b.add("[SEP]", 3);            // 3
  b.add(word("un"));            // 4
  b.add("aff");                 // 5
  b.add("able");                // 6
  b.add(word("cafe"));          // 7
  b.add(word(","));             // 8
  b.add(word("\xE4\xB8\xAD"));  // 9
  b.add(word("\xE6\x96\x87"));  // 10
  b.add(word("unaffected"));    // 11
  b.add("affa");                // 12
  b.add(word("\xC3\xA9"));      // 13: é
  b.add(word("Un"));            // 14
  b.add(word("\xC4\xB1"));      // 15: dotless i
  b.add(word("i"));             // 16
  b.set("unknown_token_id", uint32_t{1});
  b.set("cls_token_id", uint32_t{2});
  b.set("seperator_token_id", uint32_t{3});
  return b;
}

TEST(Wpm, LongestMatchAndWholeWordUnknown) {
  const auto t = small_wpm().load();
  // "un" + "affa" leaves "ble", which nothing begins: greedy does not step back, the word is lost.
  EXPECT_EQ(t->encode("unaffable", plain()), Ids{1});
  EXPECT_EQ(t->encode("unaff", plain()), (Ids{4, 5}));
  EXPECT_EQ(t->encode("unable", plain()), (Ids{4, 6}));
  EXPECT_EQ(t->encode("unaffected", plain()), Ids{11});
  EXPECT_EQ(t->encode("aff", plain()), Ids{1});  // a continuation cannot begin a word
}

TEST(Wpm, NormalisesAndSplits) {
  const auto t = small_wpm().load();
  EXPECT_EQ(t->encode("CAF\xC3\x89", plain()), Ids{7});   // É
  EXPECT_EQ(t->encode("cafe\xCC\x81", plain()), Ids{7});  // combining acute
  EXPECT_EQ(t->encode("cafe\xCC\xA3\xCC\x81\xCC\xA3", plain()), Ids{7});
  EXPECT_EQ(t->encode("cafe,cafe", plain()), (Ids{7, 8, 7}));
  EXPECT_EQ(t->encode("\xE4\xB8\xAD\xE6\x96\x87", plain()), (Ids{9, 10}));
  EXPECT_EQ(t->encode("cafe\xC2\xA0un\t\nun", plain()), (Ids{7, 4, 4}));
  // Control and format characters and U+FFFD vanish without a trace.
  EXPECT_EQ(t->encode(std::string("ca\0f\x07\xE2\x80\x8B"
                                  "e\xEF\xBF\xBD",
                                  12),
                      plain()),
            Ids{7});
  // So do bytes that are not UTF-8.
  EXPECT_EQ(t->encode("ca\xFF"
                      "fe\xC3",
                      plain()),
            Ids{7});
  EXPECT_EQ(t->encode(" \n ", plain()), Ids{});
  EXPECT_EQ(t->encode("", plain()), Ids{});
}

TEST(Wpm, ClsAndSepAroundTheText) {
  const auto t = small_wpm().load();
  EXPECT_TRUE(t->add_bos());
  EXPECT_EQ(t->encode("cafe"), (Ids{2, 7, 3}));
  EXPECT_EQ(t->encode(""), (Ids{2, 3}));
  EXPECT_EQ(t->encode("[CLS]cafe[SEP]", parsing(true)), (Ids{2, 7, 3}));
  EXPECT_EQ(t->decode(Ids{2, 7, 8, 4, 6, 3}), "cafe , unable");
}

TEST(Wpm, CaseAndAccentsCanBeKept) {
  Builder b = small_wpm();
  b.set("normalizer.lowercase", false);
  auto t = b.load();
  EXPECT_EQ(t->encode("Un un", plain()), (Ids{14, 4}));
  EXPECT_EQ(t->encode("\xC3\xA9", plain()), Ids{13});  // accents follow the case flag
  b.set("normalizer.strip_accents", true);
  t = b.load();
  EXPECT_EQ(t->encode("\xC3\xA9", plain()), Ids{1});  // "e" is no token

  Builder lower = small_wpm();
  lower.set("normalizer.strip_accents", false);
  t = lower.load();
  EXPECT_EQ(t->encode("\xC3\x89", plain()), Ids{13});
}

TEST(Wpm, CapitalIWithDotIsAnI) {
  // U+0130 decomposes to I and a combining dot, which goes; the rest is lower-cased.
  EXPECT_EQ(small_wpm().load()->encode("\xC4\xB0", plain()), Ids{16});
}

}  // namespace
}  // namespace strata::text
