// Hostile texts take time in proportion to their length: the same for every pre-tokenizer.
//
// Processor time of this thread is compared at n and 4n with bounds that only a quadratic (16
// times) or worse algorithm misses by far; the absolute bound is generous for slow and instrumented
// builds.
#include <gtest/gtest.h>

#include <ctime>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "text/tokenizers/pre_tokenizers.h"
#include "tokenizer_support.h"

namespace strata::text {
namespace {

using namespace test_support;

double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

std::string repeat(const std::string& unit, size_t bytes) {
  std::string out;
  while (out.size() < bytes) out += unit;
  return out;
}

struct Hostile {
  const char* name;
  std::function<std::string(size_t)> make;
};

const std::vector<Hostile>& hostile_texts() {
  static const std::vector<Hostile> texts = [] {
    const auto unit = [](const char* name, std::string text) {
      return Hostile{name, [text](size_t bytes) { return repeat(text, bytes); }};
    };
    std::vector<Hostile> out = {
        unit("letter", "a"), unit("capital", "A"), unit("space", " "), unit("newline", "\n"),
        unit("carriage return", "\r"), unit("tab", "\t"), unit("digit", "7"), unit("dot", "."),
        unit("apostrophe", "'"), unit("zero", std::string(1, '\0')),
        unit("emoji", "\xF0\x9F\x98\x80"), unit("combining mark", "\xCC\x81"),
        // Marks of three combining classes in descending order: canonical ordering has most to do.
        unit("mixed marks", "\xCC\x95\xCC\x81\xCC\xA3\xE0\xA5\x8D"), unit("Han", "\xE4\xB8\xAD"),
        unit("Hangul", "\xEA\xB0\x80"), unit("no-break space", "\xC2\xA0"),
        unit("capital and mark", "A\xCC\x81"), unit("space and dot", " ."),
        unit("space and line end", " \n"), unit("mixed case", "aB"), unit("invalid byte", "\xFF"),
        unit("invalid between letters", "a\xFF"), unit("half a marker", "<|"),
        unit("many markers", "<|end|>")};
    const auto ending = [](const char* name, std::string run, std::string last) {
      return Hostile{name, [run, last](size_t bytes) { return repeat(run, bytes) + last; }};
    };
    out.push_back(ending("spaces, then a letter", " ", "x"));
    out.push_back(ending("spaces, then a control character", " ", "\x01"));
    out.push_back(ending("spaces, then an emoji", " ", "\xF0\x9F\x98\x80"));
    out.push_back(ending("line ends, then a letter", "\n", "x"));
    out.push_back(ending("capitals, then a small letter", "A", "b"));
    out.push_back(ending("marks, then a capital", "\xCC\x81", "B"));
    return out;
  }();
  return texts;
}

void expect_linear(const std::string& what, const std::function<void(const std::string&)>& work) {
  constexpr size_t n = 40'000;
  for (const Hostile& hostile : hostile_texts()) {
    const std::string small = hostile.make(n);
    const std::string large = hostile.make(4 * n);
    const double start = processor_seconds();
    work(small);
    const double middle = processor_seconds();
    work(large);
    const double end = processor_seconds();
    EXPECT_LT(end - middle, 10 * (middle - start) + 0.3) << what << ": " << hostile.name;
    EXPECT_LT(end - middle, 10.0) << what << ": " << hostile.name;
  }
}

TEST(TokenizerTime, EveryPreTokenizerIsLinear) {
  for (const PreTokenizerRule& rule : pre_tokenizer_rules()) {
    for (const bool jit : {true, false}) {
      const PreTokenizer tokenizer(rule, jit);
      expect_linear(std::string(rule.names.front()) + (jit ? "" : ", interpreted"),
                    [&](const std::string& text) {
                      // Only valid UTF-8 reaches a pre-tokenizer.
                      if (text.find('\xFF') != std::string::npos) return;
                      std::vector<PreTokenizer::Piece> pieces;
                      tokenizer.split(text, 0, pieces);
                    });
    }
  }
}

TEST(TokenizerTime, BpeIsLinear) {
  for (const char* pre : {"llama-bpe", "deepseek-v3", "falcon"}) {
    Builder b = byte_bpe(pre);
    b.add("<|end|>", 3);
    b.add("<|", 4);
    // Every run doubles: the most merges a text can have.
    for (const std::string run : {"a", "A", " ", "\n", "7", ".", "'", "\xCC\x81"}) {
      std::string text = run;
      if (run.size() > 1) b.add_merge(run.substr(0, 1), run.substr(1));
      for (int i = 0; i < 8; ++i) {
        b.add_merge(text, text);
        text += text;
      }
    }
    const auto tokenizer = b.load();
    expect_linear(std::string("BPE, ") + pre, [&](const std::string& text) {
      EXPECT_EQ(tokenizer->decode(tokenizer->encode(text, parsing()), true), text);
    });
  }
}

TEST(TokenizerTime, SpmIsLinear) {
  for (const bool by_words : {true, false}) {
    Builder b = byte_spm();
    b.add("<|end|>", 3);
    b.add("<|", 4);
    for (const std::string letter : {"a", "A", "\xE2\x96\x81", "\n", "7", ".", "'", "\xCC\x81"}) {
      std::string text = letter;
      for (int i = 0; i < 8; ++i) {
        text += text;
        b.add(text, 1, -static_cast<float>(i));
      }
    }
    if (!by_words) b.add("a\xE2\x96\x81", 1, -3);
    const auto tokenizer = b.load();
    expect_linear(by_words ? "SPM" : "SPM, words joined", [&](const std::string& text) {
      (void)tokenizer->decode(tokenizer->encode(text, parsing()), true);
    });
  }
}

TEST(TokenizerTime, WpmIsLinear) {
  Builder b;
  b.model = "bert";
  b.add("[UNK]", 3);
  b.add("<|end|>", 3);
  for (const char* text : {"a", "aa", "aaaa", "7", "b", "."}) {
    b.add(text);
    b.add(std::string("\xE2\x96\x81") + text);
  }
  b.set("unknown_token_id", uint32_t{0});
  const auto tokenizer = b.load();
  expect_linear("WPM", [&](const std::string& text) { (void)tokenizer->encode(text, parsing()); });
}

// User-defined runs of every length overlap everywhere.
TEST(TokenizerTime, SpecialTokensThatOverlapAreLinear) {
  Builder b = byte_bpe("gpt-2");
  for (size_t length = 1; length < 32; ++length) {
    const std::string run(length, '\n');
    if (length > 1) b.add(run, 4);
    b.add(run + "a", 4);
  }
  const auto tokenizer = b.load();
  expect_linear("special tokens", [&](const std::string& text) {
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text, plain())), text);
  });
}

}  // namespace
}  // namespace strata::text
