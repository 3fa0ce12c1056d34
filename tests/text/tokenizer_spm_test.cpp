// SPM: merges by score against a plain second implementation, spaces, bytes.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/utf8.h"
#include "tokenizer_support.h"

namespace strata::text {
namespace {

using namespace test_support;

const std::string k_space = "\xE2\x96\x81";

// The definition: again and again the pair whose text has the highest score, leftmost first.
Ids merge_plainly(const Builder& b, const std::string& text) {
  std::map<std::string, int32_t> ids;
  for (size_t i = 0; i < b.tokens.size(); ++i) {
    if (b.types[i] == 1) ids[b.tokens[i]] = static_cast<int32_t>(i);
  }
  std::vector<std::string> parts;
  for (size_t at = 0; at < text.size();) {
    const size_t length = decode_utf8(text, at).length;
    parts.push_back(text.substr(at, length));
    at += length;
  }
  for (;;) {
    float best = 0;
    size_t at = SIZE_MAX;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto found = ids.find(parts[i] + parts[i + 1]);
      if (found == ids.end()) continue;
      const float score = b.scores[static_cast<size_t>(found->second)];
      if (at == SIZE_MAX || score > best) {
        best = score;
        at = i;
      }
    }
    if (at == SIZE_MAX) break;
    parts[at] += parts[at + 1];
    parts.erase(parts.begin() + static_cast<ptrdiff_t>(at) + 1);
  }
  Ids out;
  for (const std::string& part : parts) {
    if (ids.count(part) != 0) {
      out.push_back(ids[part]);
    } else {
      for (const char c : part) out.push_back(3 + static_cast<uint8_t>(c));
    }
  }
  return out;
}

TEST(Spm, MergesAsThePlainDefinition) {
  std::mt19937 random(5);
  for (int round = 0; round < 20; ++round) {
    Builder b = byte_spm();
    b.set("add_space_prefix", false);
    std::vector<std::string> letters = {"a", "b", "c", "\xC3\xA9", k_space};
    std::map<std::string, bool> known;
    for (int token = 0; token < 80; ++token) {
      std::string text;
      for (size_t n = 1 + random() % 4; n > 0; --n) text += letters[random() % letters.size()];
      // With and without tokens in which a space stands behind other characters.
      if (round % 2 == 0 && text.find(k_space, 1) != std::string::npos) continue;
      if (known[text] || text == k_space) continue;
      known[text] = true;
      // Few values, so that ties occur.
      b.add(text, 1, -static_cast<float>(random() % 12));
    }
    const auto tokenizer = b.load();
    for (int text = 0; text < 40; ++text) {
      std::string raw;
      std::string escaped;
      const size_t length = text % 4 == 3 ? 200 : random() % 50;
      for (size_t n = 0; n < length; ++n) {
        const std::string& letter = letters[random() % letters.size()];
        escaped += letter;
        raw += letter == k_space ? " " : letter;
      }
      for (int twice = 0; twice < 2; ++twice) {
        EXPECT_EQ(tokenizer->encode(raw, plain()), merge_plainly(b, escaped)) << raw;
      }
      EXPECT_EQ(tokenizer->decode(tokenizer->encode(raw, plain())), raw);
    }
  }
}

TEST(Spm, SpacePrefixAtTheStartAndAfterSpecialTokensOnly) {
  Builder b = byte_spm();
  const int32_t a = b.add("a", 1, -2);
  const int32_t space_a = b.add(k_space + "a", 1, -1);
  const int32_t mark = b.add("<mark>", 3);
  auto tokenizer = b.load();
  EXPECT_TRUE(tokenizer->add_space_prefix());
  EXPECT_EQ(tokenizer->encode("a", plain()), Ids{space_a});
  EXPECT_EQ(tokenizer->encode("a<mark>a", parsing()), (Ids{space_a, mark, space_a}));
  EXPECT_EQ(tokenizer->encode("aa", plain()), (Ids{space_a, a}));
  EXPECT_EQ(tokenizer->encode("", plain()), Ids{});
  EXPECT_EQ(tokenizer->encode(""), Ids{1});
  // Dropped again where it was put.
  EXPECT_EQ(tokenizer->decode(Ids{space_a, mark, space_a}), "aa");
  EXPECT_EQ(tokenizer->decode(Ids{space_a, mark, space_a}, true), "a<mark>a");
  EXPECT_EQ(tokenizer->decode(Ids{1, space_a, space_a}), "a a");
  EXPECT_EQ(tokenizer->piece(space_a), " a");

  b.set("add_space_prefix", false);
  tokenizer = b.load();
  EXPECT_EQ(tokenizer->encode("a<mark>a", parsing()), (Ids{a, mark, a}));
  EXPECT_EQ(tokenizer->decode(Ids{space_a}), " a");
}

TEST(Spm, TextCannotSpellControlOrByteTokens) {
  Builder b = byte_spm();
  b.set("add_space_prefix", false);
  for (const char* text : {"<", "s", ">", "<s", "0", "x", "A", "<0", "<0x", "<0x0", "<0x0A"}) {
    b.add(text, 1, -1);
  }
  const auto tokenizer = b.load();
  EXPECT_EQ(tokenizer->encode("<s>", plain()),
            (Ids{*tokenizer->find("<s"), *tokenizer->find(">")}));
  EXPECT_EQ(tokenizer->encode("<0x0A>", plain()),
            (Ids{*tokenizer->find("<0x0A"), *tokenizer->find(">")}));
  EXPECT_EQ(tokenizer->encode("\n", plain()), Ids{3 + 10});
  EXPECT_EQ(tokenizer->encode("<s>", parsing()), Ids{1});
}

TEST(Spm, WhatIsNoTokenBecomesBytesOrUnknown) {
  Builder b = byte_spm();
  b.set("add_space_prefix", false);
  const auto tokenizer = b.load();
  EXPECT_EQ(tokenizer->encode("\xF0\x9F\xA6\x99", plain()),
            (Ids{3 + 0xF0, 3 + 0x9F, 3 + 0xA6, 3 + 0x99}));
  EXPECT_EQ(tokenizer->decode(Ids{3 + 0xF0, 3 + 0x9F}), "\xF0\x9F");
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("a\xFF\xC3 b", plain())), "a\xFF\xC3 b");

  Builder few;
  few.model = "llama";
  few.add("<unk>", 2);
  few.add("<s>", 3);
  few.add("</s>", 3);
  few.add("a", 1, -1);
  few.set("add_space_prefix", false);
  EXPECT_EQ(few.load()->encode("a!a", plain()), (Ids{3, 0, 3}));
}

TEST(Spm, AnUnknownTokenIsShownOnlyOnRequest) {
  const auto tokenizer = byte_spm().load();
  EXPECT_EQ(tokenizer->piece(0), "");
  EXPECT_EQ(tokenizer->piece(0, true), "<unk>");
  EXPECT_EQ(tokenizer->piece(1), "");
  EXPECT_EQ(tokenizer->piece(1, true), "<s>");
}

}  // namespace
}  // namespace strata::text
