// Byte-level BPE: merges against a plain second implementation, whole pieces, bytes.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tokenizer_support.h"

namespace strata::text {
namespace {

using namespace test_support;

// The definition, word for word: again and again the pair of the lowest rank, leftmost first.
Ids merge_plainly(const Builder& b, const std::string& piece) {
  std::map<std::string, int32_t> ids;
  for (size_t i = 0; i < b.tokens.size(); ++i) ids[b.tokens[i]] = static_cast<int32_t>(i);
  std::map<std::string, size_t> ranks;
  for (size_t i = 0; i < b.merges.size(); ++i) ranks.emplace(b.merges[i], i);
  std::vector<std::string> parts;
  for (const char c : piece) parts.push_back(spelled(static_cast<uint8_t>(c)));
  for (;;) {
    size_t best = SIZE_MAX;
    size_t at = 0;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto found = ranks.find(parts[i] + " " + parts[i + 1]);
      if (found != ranks.end() && found->second < best) {
        best = found->second;
        at = i;
      }
    }
    if (best == SIZE_MAX) break;
    parts[at] += parts[at + 1];
    parts.erase(parts.begin() + static_cast<ptrdiff_t>(at) + 1);
  }
  Ids out;
  for (const std::string& part : parts) out.push_back(ids.at(part));
  return out;
}

Builder random_merges(std::mt19937& random, int count, bool in_order) {
  Builder b = byte_bpe("gpt-2");
  std::vector<std::string> strings = {"a", "b", "c", "d"};
  std::map<std::string, bool> known;
  while (count > 0) {
    const std::string left = strings[random() % strings.size()];
    const std::string right = strings[random() % strings.size()];
    if (left.size() + right.size() > 12 || known[left + right]) continue;
    known[left + right] = true;
    b.add_merge(left, right);
    strings.push_back(left + right);
    --count;
  }
  // Ranks that no training gives must work too.
  if (!in_order) std::shuffle(b.merges.begin(), b.merges.end(), random);
  return b;
}

TEST(Bpe, MergesAsThePlainDefinition) {
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    const Builder b = random_merges(random, 60, round % 2 == 0);
    const auto tokenizer = b.load();
    for (int text = 0; text < 40; ++text) {
      // Short pieces are scanned, long ones go through the heap.
      const size_t length = text % 4 == 3 ? 300 + random() % 300 : 1 + random() % 60;
      std::string piece;
      while (piece.size() < length) piece.push_back("abcd"[random() % 4]);
      EXPECT_EQ(tokenizer->encode(piece, plain()), merge_plainly(b, piece)) << piece;
      // A second time, when facts about whole tokens are remembered.
      EXPECT_EQ(tokenizer->encode(piece, plain()), merge_plainly(b, piece)) << piece;
    }
  }
}

// Pieces just long enough for the queue, of few letters, with ranks in any order: whatever order
// candidates can come up in, comes up.
TEST(Bpe, TheQueueKeepsTheOrder) {
  std::mt19937 random(17);
  for (int round = 0; round < 60; ++round) {
    const Builder b = random_merges(random, 12, false);
    const auto tokenizer = b.load();
    for (int text = 0; text < 60; ++text) {
      std::string piece;
      const size_t length = 49 + random() % 30;
      while (piece.size() < length) piece.push_back("abcd"[random() % (2 + random() % 3)]);
      ASSERT_EQ(tokenizer->encode(piece, plain()), merge_plainly(b, piece)) << piece;
    }
  }
}

TEST(Bpe, EveryTokenOfItsOwnTextAsThePlainDefinition) {
  std::mt19937 random(8);
  const Builder b = random_merges(random, 100, false);
  const auto tokenizer = b.load();
  for (size_t id = 256; id < b.tokens.size(); ++id) {
    for (int twice = 0; twice < 2; ++twice) {
      EXPECT_EQ(tokenizer->encode(b.tokens[id], plain()), merge_plainly(b, b.tokens[id]));
    }
  }
}

TEST(Bpe, IgnoreMergesTakesAPieceThatIsAToken) {
  for (const bool ignoring : {false, true}) {
    Builder b = byte_bpe(ignoring ? "llama-bpe" : "dbrx");
    b.set("add_bos_token", false);
    const int32_t whole = b.add("abc");  // no merge makes it
    const auto tokenizer = b.load();
    const Ids expected = ignoring ? Ids{whole} : Ids{'a', 'b', 'c'};
    EXPECT_EQ(tokenizer->encode("abc", plain()), expected);
    EXPECT_EQ(tokenizer->encode("abcd", plain()), (Ids{'a', 'b', 'c', 'd'}));
  }
}

TEST(Bpe, IntermediateStringsNeedNotBeTokens) {
  Builder b = byte_bpe();
  b.merges = {"a b", "ab c", "x y"};
  const int32_t abc = b.add("abc");
  const auto tokenizer = b.load();
  EXPECT_EQ(tokenizer->encode("abc", plain()), Ids{abc});
  // "ab" and "xy" are no tokens: their bytes come out.
  EXPECT_EQ(tokenizer->encode("abd", plain()), (Ids{'a', 'b', 'd'}));
  EXPECT_EQ(tokenizer->encode("xy", plain()), (Ids{'x', 'y'}));
}

TEST(Bpe, TheFirstOfTwoEqualMergesCounts) {
  Builder b = byte_bpe();
  b.merges = {"b c", "a b", "b c"};
  const int32_t bc = b.add("bc");
  b.add("ab");
  EXPECT_EQ(b.load()->encode("abc", plain()), (Ids{'a', bc}));
}

TEST(Bpe, AMergeWhoseLeftPartIsASpaceCharacterOfTheFile) {
  // The separator is the first space after position 0.
  Builder b = byte_bpe();
  const int32_t merged = b.add_merge(" ", "a");
  EXPECT_EQ(b.load()->encode(" a", plain()), Ids{merged});
}

TEST(Bpe, EveryByteStringComesBack) {
  std::mt19937 random(3);
  for (const char* pre :
       {"default", "llama-bpe", "dbrx", "glm4", "qwen2", "qwen35", "gpt-4o", "kimi-k2", "tekken",
        "deepseek-v3", "deepseek-coder", "deepseek-llm", "gpt-2", "starcoder", "falcon"}) {
    Builder b = byte_bpe(pre);
    b.add_merge("a", "b");
    b.add_merge("\xF0", "\x9F");
    b.add_merge(" ", " ");
    b.add_merge("ab", "c");
    b.add_merge("\xCC", "\x81");
    const auto tokenizer = b.load();
    for (int round = 0; round < 200; ++round) {
      std::string text;
      const size_t length = random() % 60;
      const char* pool[] = {"a",
                            "b",
                            "c",
                            "ab",
                            " ",
                            "\n",
                            "\r",
                            "'s",
                            "7",
                            "\xCC\x81",
                            "\xF0\x9F\x98\x80",
                            "\xE4\xB8\xAD",
                            ".",
                            "A",
                            "\xC3\xA9"};
      while (text.size() < length) {
        if (round % 2 == 0 || random() % 4 != 0) {
          text += pool[random() % std::size(pool)];
        } else {
          text.push_back(static_cast<char>(random() % 256));
        }
      }
      const Ids ids = tokenizer->encode(text, plain());
      EXPECT_EQ(tokenizer->decode(ids), text) << pre;
      std::string pieces;
      for (const TokenId id : ids) pieces += tokenizer->piece(id);
      EXPECT_EQ(pieces, text) << pre;
    }
  }
}

TEST(Bpe, InvalidBytesAreSingleTokensAndValidTextAroundThemIsUntouched) {
  Builder b = byte_bpe("qwen2");
  const int32_t ab = b.add_merge("a", "b");
  const auto tokenizer = b.load();
  EXPECT_EQ(tokenizer->encode("ab\xFF\xFE"
                              "ab\xE4\xB8",
                              plain()),
            (Ids{ab, 0xFF, 0xFE, ab, 0xE4, 0xB8}));
}

TEST(Bpe, MissingByteTokensBecomeUnknownOrNothing) {
  Builder b;
  b.add("a");
  const int32_t unknown = b.add("<unk>", 2);
  EXPECT_EQ(b.load()->encode("a!a", plain()), (Ids{0, 0}));
  b.set("unknown_token_id", uint32_t{1});
  EXPECT_EQ(b.load()->encode("a!a", plain()), (Ids{0, unknown, 0}));
}

TEST(Bpe, OrdinaryTextNeverBecomesAControlToken) {
  // Even when merges would make it, or the whole piece is its text.
  Builder b = byte_bpe("llama-bpe");
  b.set("add_bos_token", false);
  b.merges = {"e n", "en d"};
  b.add("en");
  const int32_t end = b.add("end", 3);
  const auto tokenizer = b.load();
  EXPECT_EQ(tokenizer->encode("end", plain()), (Ids{256, 'd'}));
  EXPECT_EQ(tokenizer->encode("end", parsing()), Ids{end});
}

TEST(Bpe, ManyThreadsGetTheSameIds) {
  std::mt19937 random(11);
  const Builder b = random_merges(random, 200, true);
  const auto tokenizer = b.load();
  std::string text;
  for (int word = 0; word < 3000; ++word) {
    for (size_t n = 1 + random() % 9; n > 0; --n) text.push_back("abcd"[random() % 4]);
    text.push_back(' ');
  }
  const Ids expected = b.load()->encode(text, plain());
  std::vector<Ids> got(4);
  std::vector<std::thread> threads;
  for (Ids& ids : got) {
    threads.emplace_back([&ids, &tokenizer, &text] { ids = tokenizer->encode(text, plain()); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Ids& ids : got) EXPECT_EQ(ids, expected);
}

}  // namespace
}  // namespace strata::text
