#include "text/stop_strings.h"

#include <gtest/gtest.h>

#include <random>

namespace strata::text {
namespace {

struct Result {
  std::string text;
  std::string matched;
  bool operator==(const Result&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Result& r) {
  return out << "'" << r.text << "' stopped by '" << r.matched << "'";
}

// From the definition: of all occurrences the one that ends first, of those the longest.
Result unstreamed(const std::vector<std::string>& stops, const std::string& text) {
  size_t best_end = std::string::npos;
  std::string best;
  for (const std::string& stop : stops) {
    const size_t at = stop.empty() ? std::string::npos : text.find(stop);
    if (at == std::string::npos) continue;
    const size_t end = at + stop.size();
    if (end < best_end || (end == best_end && stop.size() > best.size())) {
      best_end = end;
      best = stop;
    }
  }
  if (best.empty()) return {text, ""};
  return {text.substr(0, best_end - best.size()), best};
}

Result streamed(StopStrings& matcher, const std::vector<std::string>& pieces) {
  std::string out;
  for (const std::string& piece : pieces) out += matcher.push(piece);
  out += matcher.finish();
  return {out, matcher.stopped() ? matcher.matched() : ""};
}

std::vector<std::string> letters(const std::string& text) {
  std::vector<std::string> pieces;
  for (const char c : text) pieces.emplace_back(1, c);
  return pieces;
}

TEST(StopStrings, WithoutAnyTextPassesThrough) {
  StopStrings matcher({});
  EXPECT_EQ(matcher.push("abc"), "abc");
  EXPECT_EQ(matcher.finish(), "");
  EXPECT_FALSE(matcher.stopped());
}

TEST(StopStrings, EmptyOnesAreLeftOut) {
  StopStrings matcher({"", "x"});
  EXPECT_EQ(matcher.push("ab"), "ab");
  EXPECT_EQ(matcher.push("cx"), "c");
  EXPECT_TRUE(matcher.stopped());
}

TEST(StopStrings, HoldsBackUntilDecided) {
  StopStrings matcher({"User:"});
  EXPECT_EQ(matcher.push("Hello Us"), "Hello ");
  EXPECT_EQ(matcher.push("ed cars. Us"), "Used cars. ");
  EXPECT_EQ(matcher.push("er"), "");
  EXPECT_EQ(matcher.push(": more"), "");
  EXPECT_TRUE(matcher.stopped());
  EXPECT_EQ(matcher.matched(), "User:");
  EXPECT_EQ(matcher.push("ignored"), "");
  EXPECT_EQ(matcher.finish(), "");
  matcher.reset();
  EXPECT_FALSE(matcher.stopped());
  EXPECT_EQ(matcher.push("User"), "");
  EXPECT_EQ(matcher.finish(), "User");
}

TEST(StopStrings, NearMissThatOverlapsItself) {
  StopStrings matcher({"aab"});
  EXPECT_EQ(matcher.push("aa"), "");
  EXPECT_EQ(matcher.push("a"), "a");
  EXPECT_EQ(matcher.push("b"), "");
  EXPECT_TRUE(matcher.stopped());
}

TEST(StopStrings, OneInsideAnother) {
  StopStrings first({"abcd", "bc"});
  EXPECT_EQ(first.push("xab"), "x");
  EXPECT_EQ(first.push("cd"), "a");
  EXPECT_EQ(first.matched(), "bc");
  StopStrings same_end({"bc", "abc"});
  EXPECT_EQ(same_end.push("xabc"), "x");
  EXPECT_EQ(same_end.matched(), "abc");
}

TEST(StopStrings, StreamedEqualsUnstreamed) {
  std::mt19937 random(17);
  const auto word = [&](size_t most, int alphabet) {
    std::string out;
    for (size_t n = random() % (most + 1); n > 0; --n) {
      out += static_cast<char>('a' + static_cast<int>(random() % static_cast<unsigned>(alphabet)));
    }
    return out;
  };
  int stopped = 0;
  for (int i = 0; i < 20000; ++i) {
    const int alphabet = 1 + static_cast<int>(random() % 3);
    std::vector<std::string> stops;
    for (size_t n = random() % 4; n > 0; --n) stops.push_back(word(5, alphabet));
    const std::string text = word(30, alphabet + static_cast<int>(random() % 2));
    std::vector<std::string> pieces;
    for (size_t at = 0; at < text.size();) {
      const size_t length = 1 + random() % 6;
      pieces.push_back(text.substr(at, length));
      at += length;
    }
    const Result expected = unstreamed(stops, text);
    StopStrings matcher(stops);
    ASSERT_EQ(streamed(matcher, pieces), expected) << text;
    matcher.reset();
    ASSERT_EQ(streamed(matcher, letters(text)), expected) << text;
    stopped += expected.matched.empty() ? 0 : 1;
  }
  EXPECT_GT(stopped, 5000);
  EXPECT_LT(stopped, 19000);
}

TEST(StopStrings, HostileRepetitionIsLinear) {
  StopStrings matcher({std::string(50000, 'a') + "b"});
  std::string out;
  for (int i = 0; i < 20; ++i) out += matcher.push(std::string(50000, 'a'));
  out += matcher.finish();
  EXPECT_EQ(out.size(), 1000000u);
}

}  // namespace
}  // namespace strata::text
