// The incremental detokenizer never shows half a character and loses nothing.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "tokenizer_support.h"

namespace strata::text {
namespace {

using namespace test_support;

const std::string k_replacement = "\xEF\xBF\xBD";

TEST(Detokenizer, AnEmojiOfOneBytePerToken) {
  const auto t = byte_bpe().load();
  Detokenizer d(*t);
  EXPECT_EQ(d.push(0xF0), "");
  EXPECT_EQ(d.push(0x9F), "");
  EXPECT_EQ(d.push(0x98), "");
  EXPECT_EQ(d.push(0x80), "\xF0\x9F\x98\x80");
  EXPECT_EQ(d.push('a'), "a");
  EXPECT_EQ(d.finish(), "");
}

TEST(Detokenizer, BytesThatCannotBecomeACharacterComeOutAtOnce) {
  const auto t = byte_bpe().load();
  Detokenizer d(*t);
  EXPECT_EQ(d.push(0xFF), k_replacement);
  EXPECT_EQ(d.push(0x80), k_replacement);
  EXPECT_EQ(d.push(0xE2), "");
  EXPECT_EQ(d.push(0x82), "");
  EXPECT_EQ(d.push('A'), k_replacement + k_replacement + "A");
  EXPECT_EQ(d.push(0xED), "");
  EXPECT_EQ(d.push(0xA0), k_replacement + k_replacement);  // a surrogate: never valid
  EXPECT_EQ(d.push(0xF0), "");
  EXPECT_EQ(d.push(0xF0), k_replacement);
  EXPECT_EQ(d.finish(), k_replacement);
  EXPECT_EQ(d.finish(), "");
}

TEST(Detokenizer, AnyStreamIsTheDecodedTextWithInvalidBytesReplaced) {
  std::mt19937 random(4);
  Builder b = byte_bpe();
  const int32_t control = b.add("<end>", 3);
  const int32_t half = b.add_merge("\xE4", "\xB8");
  const auto t = b.load();
  for (int round = 0; round < 500; ++round) {
    Ids ids;
    for (size_t n = random() % 40; n > 0; --n) {
      const int leads[] = {0xF0, 0x9F, 0x98, 0x80, 0xE4,    0xB8,
                           0xAD, 0xC3, 0xA9, 'a',  control, half};
      ids.push_back(random() % 8 == 0 ? static_cast<TokenId>(random() % 256)
                                      : leads[random() % std::size(leads)]);
    }
    for (const bool show : {false, true}) {
      Detokenizer d(*t, show);
      std::string text;
      for (const TokenId id : ids) {
        const std::string shown = d.push(id);
        EXPECT_TRUE(is_valid_utf8(shown));
        text += shown;
      }
      text += d.finish();
      EXPECT_EQ(text, replace_invalid_utf8(t->decode(ids, show)));
    }
  }
}

TEST(Detokenizer, TheSpaceOfTheFirstWord) {
  Builder b = byte_spm();
  const int32_t word = b.add("\xE2\x96\x81hi", 1, -1);
  const auto t = b.load();
  Detokenizer whole(*t);
  EXPECT_EQ(whole.push(word), "hi");
  EXPECT_EQ(whole.push(word), " hi");
  // Text that goes on after a prompt keeps it.
  Detokenizer rest(*t, false, false);
  EXPECT_EQ(rest.push(word), " hi");
  // After BOS the text begins.
  Detokenizer after(*t);
  EXPECT_EQ(after.push(1), "");
  EXPECT_EQ(after.push(word), "hi");
}

TEST(Detokenizer, AnIdOutsideTheVocabularyIsRefusedAndChangesNothing) {
  const auto t = byte_bpe().load();
  Detokenizer d(*t);
  EXPECT_EQ(d.push(0xC3), "");
  EXPECT_THROW((void)d.push(256), Error);
  EXPECT_EQ(d.push(0xA9), "\xC3\xA9");
}

}  // namespace
}  // namespace strata::text
