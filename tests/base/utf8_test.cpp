#include "base/utf8.h"

#include <gtest/gtest.h>

#include <vector>

namespace strata {
namespace {

TEST(Utf8, EveryCodePointGoesThereAndBack) {
  for (uint32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string text;
    append_utf8(text, c);
    ASSERT_EQ(text.size(), c < 0x80 ? 1u : c < 0x800 ? 2u : c < 0x10000 ? 3u : 4u) << c;
    const Utf8Char decoded = decode_utf8(text, 0);
    ASSERT_TRUE(decoded.valid) << c;
    ASSERT_EQ(decoded.code_point, c);
    ASSERT_EQ(decoded.length, text.size());
  }
}

TEST(Utf8, WhatIsNotACharacterIsOneStrayByte) {
  const std::vector<std::string> bad{
      "\x80",              // continuation alone
      "\xC0\x80",          // overlong NUL
      "\xC1\xBF",          // overlong
      "\xE0\x80\x80",      // overlong
      "\xE0\x9F\xBF",      // overlong
      "\xED\xA0\x80",      // surrogate
      "\xED\xBF\xBF",      // surrogate
      "\xF0\x8F\xBF\xBF",  // overlong
      "\xF4\x90\x80\x80",  // above U+10FFFF
      "\xF5\x80\x80\x80",
      "\xFE",
      "\xFF",
      "\xE2\x82",      // cut short
      "\xF0\x9F\xA6",  // cut short
      "\xE2\x28\xA1",  // wrong second byte
  };
  for (const std::string& text : bad) {
    const Utf8Char c = decode_utf8(text, 0);
    EXPECT_FALSE(c.valid) << text;
    EXPECT_EQ(c.length, 1u);
    EXPECT_EQ(c.code_point, 0xFFFDu);
    EXPECT_FALSE(is_valid_utf8(text));
  }
  EXPECT_TRUE(is_valid_utf8(""));
  EXPECT_TRUE(is_valid_utf8("aé€🦙\xED\x9F\xBF\xEE\x80\x80\xF4\x8F\xBF\xBF"));
}

TEST(Utf8, ReplaceInvalid) {
  EXPECT_EQ(replace_invalid_utf8("a\x80z"), "a\uFFFDz");
  EXPECT_EQ(replace_invalid_utf8("ok 🦙"), "ok 🦙");
  EXPECT_TRUE(is_valid_utf8(replace_invalid_utf8("\xF0\x9F\xA6 \xC0\xC0")));
}

TEST(Utf8, SuffixThatMayStillBecomeACharacter) {
  const std::string llama = "🦙";
  for (size_t n = 1; n < 4; ++n) {
    EXPECT_EQ(incomplete_utf8_suffix("x" + llama.substr(0, n)), n);
  }
  EXPECT_EQ(incomplete_utf8_suffix("x" + llama), 0u);
  EXPECT_EQ(incomplete_utf8_suffix(""), 0u);
  EXPECT_EQ(incomplete_utf8_suffix("abc"), 0u);
  EXPECT_EQ(incomplete_utf8_suffix("\x80"), 0u);      // can never become valid
  EXPECT_EQ(incomplete_utf8_suffix("\xC0"), 0u);      // no character begins so
  EXPECT_EQ(incomplete_utf8_suffix("\xED\xA0"), 0u);  // a surrogate
  EXPECT_EQ(incomplete_utf8_suffix("\xE0\x80"), 0u);  // overlong
  EXPECT_EQ(incomplete_utf8_suffix("\xF4\x90"), 0u);  // above U+10FFFF
  EXPECT_EQ(incomplete_utf8_suffix("\xED\x9F"), 2u);
}

}  // namespace
}  // namespace strata
