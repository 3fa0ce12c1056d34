#include "text/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "base/error.h"
#include "text/sampler_math.h"
#include "text/sampler_oracle.h"

namespace strata::text {
namespace {

constexpr float k_inf = std::numeric_limits<float>::infinity();
constexpr float k_nan = std::numeric_limits<float>::quiet_NaN();

// Everything off: the model's own distribution.
SamplingOptions plain(uint64_t seed = 1) {
  SamplingOptions options;
  options.temperature = 1.0;
  options.top_k = 0;
  options.top_p = 1.0;
  options.min_p = 0.0;
  options.seed = seed;
  return options;
}

SamplingOptions greedy() {
  SamplingOptions options = plain();
  options.temperature = 0.0;
  return options;
}

// Logits whose softmax is 0.5, 0.25, 0.15, 0.1.
std::vector<float> four() {
  return {std::log(0.5f), std::log(0.25f), std::log(0.15f), std::log(0.1f)};
}

Sampler make(const SamplingOptions& options, size_t size, std::vector<TokenId> eog = {}) {
  return Sampler(options, size, std::move(eog));
}

TokenId once(const SamplingOptions& options, const std::vector<float>& logits) {
  return make(options, logits.size()).sample(logits).id;
}

// Draws 20,000 times and tests the counts against `expected` (zeros: never drawn). The limits are
// the 99.9 % points of chi-square with 0 to 4 degrees of freedom.
void expect_distribution(const SamplingOptions& options, const std::vector<float>& logits,
                         const std::vector<double>& expected) {
  const double limits[] = {0, 10.83, 13.82, 16.27, 18.47};
  constexpr int draws = 20000;
  Sampler sampler = make(options, logits.size());
  std::vector<int> counts(logits.size());
  for (int i = 0; i < draws; ++i) ++counts[static_cast<size_t>(sampler.sample(logits).id)];
  double chi_square = 0;
  int cells = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (expected[i] == 0) {
      EXPECT_EQ(counts[i], 0) << "token " << i;
      continue;
    }
    const double wanted = expected[i] * draws;
    chi_square += (counts[i] - wanted) * (counts[i] - wanted) / wanted;
    ++cells;
  }
  EXPECT_LE(chi_square, limits[cells - 1]);
}

ErrorCode code_of(const SamplingOptions& options, const std::vector<float>& logits,
                  std::vector<TokenId> eog = {}) {
  try {
    make(options, logits.size(), std::move(eog)).sample(logits);
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return error.code();
  }
  ADD_FAILURE() << "no error";
  return ErrorCode::internal;
}

TEST(SamplerMath, AgreesWithTheCLibrary) {
  for (double x = -707.9; x < 700; x += 0.0137) {
    const long double exact = std::exp(static_cast<long double>(x));
    EXPECT_NEAR(static_cast<double>(stable_exp(x) / exact), 1.0, 5e-16) << x;
  }
  EXPECT_EQ(stable_exp(0.0), 1.0);
  EXPECT_EQ(stable_exp(-800.0), 0.0);
  EXPECT_EQ(stable_exp(-std::numeric_limits<double>::infinity()), 0.0);
  for (double x = 1e-300; x < 1e300; x *= 1.0173) {
    const long double exact = std::log(static_cast<long double>(x));
    EXPECT_NEAR(stable_log(x), static_cast<double>(exact),
                1e-15 * std::max(1.0, std::fabs(static_cast<double>(exact))))
        << x;
  }
  for (double x = 0.5; x < 2.0; x += 0.00013) {
    const auto exact = static_cast<double>(std::log(static_cast<long double>(x)));
    EXPECT_NEAR(stable_log(x), exact, 1e-15 * std::fabs(exact) + 1e-18) << x;
  }
  EXPECT_EQ(stable_log(1.0), 0.0);
}

TEST(Sampler, DrawsTheModelsDistribution) {
  expect_distribution(plain(), four(), {0.5, 0.25, 0.15, 0.1});
}

TEST(Sampler, Temperature) {
  SamplingOptions options = plain();
  options.temperature = 2.0;  // weights become their square roots
  const double sum = std::sqrt(0.5) + std::sqrt(0.25) + std::sqrt(0.15) + std::sqrt(0.1);
  expect_distribution(
      options, four(),
      {std::sqrt(0.5) / sum, std::sqrt(0.25) / sum, std::sqrt(0.15) / sum, std::sqrt(0.1) / sum});
  options.temperature = 0.5;  // and their squares
  expect_distribution(options, four(),
                      {0.25 / 0.345, 0.0625 / 0.345, 0.0225 / 0.345, 0.01 / 0.345});
  for (const double tiny : {1e-6, 1e-300, 5e-324}) {
    options.temperature = tiny;
    EXPECT_EQ(once(options, {1.0f, 1.5f, 1.25f}), 1) << tiny;
  }
}

TEST(Sampler, TopK) {
  SamplingOptions options = plain();
  options.top_k = 2;
  expect_distribution(options, four(), {2.0 / 3, 1.0 / 3, 0, 0});
  options.top_k = 1;
  expect_distribution(options, {0.0f, 3.0f, 3.0f, 1.0f}, {0, 1, 0, 0});  // ties: lower id
  for (const int64_t off : {int64_t{0}, int64_t{-1}, int64_t{4}, int64_t{1000}, INT64_MAX}) {
    options.top_k = off;
    expect_distribution(options, four(), {0.5, 0.25, 0.15, 0.1});
  }
}

TEST(Sampler, TopP) {
  SamplingOptions options = plain();
  options.top_p = 0.7;  // 0.5 is not enough, 0.75 is
  expect_distribution(options, four(), {2.0 / 3, 1.0 / 3, 0, 0});
  options.top_p = 0.5;  // exactly reached by two of four equal ones
  expect_distribution(options, {1, 1, 1, 1}, {0.5, 0.5, 0, 0});
  options.top_p = 0.0;
  expect_distribution(options, four(), {1, 0, 0, 0});
  options.top_p = 0.95;  // after top-k it counts in what is left: 2/3 is not enough
  options.top_k = 2;
  expect_distribution(options, four(), {2.0 / 3, 1.0 / 3, 0, 0});
  options.top_p = 0.6;
  expect_distribution(options, four(), {1, 0, 0, 0});
}

TEST(Sampler, MinP) {
  SamplingOptions options = plain();
  options.min_p = 0.4;  // of 0.5: 0.2
  expect_distribution(options, four(), {2.0 / 3, 1.0 / 3, 0, 0});
  options.min_p = 0.25;  // 0.125
  expect_distribution(options, four(), {0.5 / 0.9, 0.25 / 0.9, 0.15 / 0.9, 0});
  options.min_p = 1.0;
  expect_distribution(options, {2, 1, 2, 0}, {0.5, 0, 0.5, 0});
  options.min_p = 0.4;
  options.min_keep = 3;
  expect_distribution(options, four(), {0.5 / 0.9, 0.25 / 0.9, 0.15 / 0.9, 0});
}

TEST(Sampler, Typical) {
  // Entropy 1.208; surprises 0.693, 1.386, 1.897, 2.303: the second is the most typical, then the
  // first, the third, the fourth.
  SamplingOptions options = plain();
  options.typical_p = 0.2;
  expect_distribution(options, four(), {0, 1, 0, 0});
  options.typical_p = 0.3;
  expect_distribution(options, four(), {2.0 / 3, 1.0 / 3, 0, 0});
  options.typical_p = 0.8;
  expect_distribution(options, four(), {0.5 / 0.9, 0.25 / 0.9, 0.15 / 0.9, 0});
  options.typical_p = 0.0;
  expect_distribution(options, four(), {0, 1, 0, 0});
  options.min_keep = 2;
  expect_distribution(options, four(), {2.0 / 3, 1.0 / 3, 0, 0});
}

TEST(Sampler, GreedyTakesTheLowestIdOfTheLikeliest) {
  EXPECT_EQ(once(greedy(), {1, 5, 5, 2}), 1);
  SamplingOptions options = greedy();
  options.temperature = -1.0;
  options.top_k = 1;
  options.top_p = 0;
  EXPECT_EQ(once(options, {1, 2, -k_inf, 5}), 3);
  EXPECT_EQ(once(greedy(), {-k_inf, -1e38f, -k_inf}), 1);
}

TEST(Sampler, RepeatPenaltyCoversPromptAndAnswer) {
  SamplingOptions options = greedy();
  options.repeat_penalty = 2.0;
  Sampler sampler = make(options, 4);
  sampler.accept(0, false);
  // 4/2 = 2 falls below 3.
  EXPECT_EQ(sampler.sample(std::vector<float>{4, 3, -1, -1.5f}).id, 1);
  sampler.accept(1, true);
  // 2 and 1.5, the second time it is not divided again.
  sampler.accept(1, true);
  EXPECT_EQ(sampler.sample(std::vector<float>{4, 3, 1.75f, 0}).id, 0);
  EXPECT_EQ(sampler.sample(std::vector<float>{3, 3, 1.75f, 0}).id, 2);
  // Negative logits are multiplied: -1 becomes -2.
  EXPECT_EQ(sampler.sample(std::vector<float>{-1, -2, -3, -1.5f}).id, 3);
}

TEST(Sampler, PresenceAndFrequencyCountTheAnswerOnly) {
  SamplingOptions options = greedy();
  options.presence_penalty = 1.0;
  options.frequency_penalty = 0.25;
  Sampler sampler = make(options, 3);
  for (int i = 0; i < 5; ++i) sampler.accept(0, false);
  EXPECT_EQ(sampler.sample(std::vector<float>{1, 0.9f, 0}).id, 0);
  sampler.accept(0, true);  // 1 + 0.25 off
  EXPECT_EQ(sampler.sample(std::vector<float>{2.26f, 1, 0}).id, 0);
  EXPECT_EQ(sampler.sample(std::vector<float>{2.24f, 1, 0}).id, 1);
  sampler.accept(0, true);  // 1 + 0.5 off
  EXPECT_EQ(sampler.sample(std::vector<float>{2.51f, 1, 0}).id, 0);
  EXPECT_EQ(sampler.sample(std::vector<float>{2.49f, 1, 0}).id, 1);
}

TEST(Sampler, PenaltyWindow) {
  SamplingOptions options = greedy();
  options.repeat_penalty = 10.0;
  const std::vector<float> logits{3, 2, 1, 0.5f};
  const auto after = [&](int64_t window) {
    options.penalty_window = window;
    Sampler sampler = make(options, 4);
    for (const TokenId id : {0, 1, 2, 2}) sampler.accept(id, false);
    return sampler.sample(logits).id;
  };
  EXPECT_EQ(after(0), 0);  // off
  EXPECT_EQ(after(1), 0);  // 2
  EXPECT_EQ(after(2), 0);  // 2 2
  EXPECT_EQ(after(3), 0);  // 1 2 2: 3 is still the greatest
  EXPECT_EQ(after(4), 3);  // 0 1 2 2: 0.3 0.2 0.1 against 0.5
  EXPECT_EQ(after(100), 3);
  EXPECT_EQ(after(-1), 3);
}

TEST(Sampler, TokensLeaveTheWindowAndComeBack) {
  SamplingOptions options = greedy();
  options.repeat_penalty = 10.0;
  options.penalty_window = 2;
  Sampler sampler = make(options, 3);
  const std::vector<float> logits{3, 2, 1};
  sampler.accept(0, true);
  EXPECT_EQ(sampler.sample(logits).id, 1);
  sampler.accept(1, true);
  EXPECT_EQ(sampler.sample(logits).id, 2);
  sampler.accept(2, true);  // 0 left
  EXPECT_EQ(sampler.sample(logits).id, 0);
  sampler.accept(0, true);  // 1 left
  EXPECT_EQ(sampler.sample(logits).id, 1);
  sampler.reset();
  EXPECT_EQ(sampler.sample(logits).id, 0);
}

TEST(Sampler, LogitBias) {
  SamplingOptions options = plain();
  options.logit_bias = {{3, std::log(5.0)}, {0, -k_inf}};  // 0.1 becomes 0.5, 0.5 is banned
  expect_distribution(options, four(), {0, 0.25 / 0.9, 0.15 / 0.9, 0.5 / 0.9});
  options = greedy();
  options.logit_bias = {{0, 1.0}, {0, 1.0}};
  EXPECT_EQ(once(options, {0, 1.5f}), 0);
  options.logit_bias = {{0, 1e300}, {1, -1e300}};  // stays finite
  EXPECT_EQ(once(options, {0, 1.5f}), 0);
  options.temperature = 1;
  EXPECT_EQ(once(options, {0, 1.5f}), 0);
}

TEST(Sampler, IgnoreEos) {
  SamplingOptions options = greedy();
  const std::vector<float> logits{1, 9, 2, 8};
  EXPECT_EQ(make(options, 4, {1, 3}).sample(logits).id, 1);
  options.ignore_eos = true;
  EXPECT_EQ(make(options, 4, {1, 3}).sample(logits).id, 2);
  EXPECT_EQ(make(options, 4, {1, 3, -1, 99}).sample(logits).id, 2);
}

TEST(Sampler, RefusesWhatIsNoDistribution) {
  for (const double temperature : {0.0, 1.0}) {
    SamplingOptions options = plain();
    options.temperature = temperature;
    EXPECT_EQ(code_of(options, {1, k_nan, 2}), ErrorCode::bad_request);
    EXPECT_EQ(code_of(options, {1, k_inf, 2}), ErrorCode::bad_request);
    EXPECT_EQ(code_of(options, {-k_inf, -k_inf}), ErrorCode::bad_request);
    EXPECT_EQ(code_of(options, {}), ErrorCode::bad_request);
    options.logit_bias = {{0, -k_inf}, {1, -k_inf}};
    EXPECT_EQ(code_of(options, {1, 2}), ErrorCode::bad_request);
    options.logit_bias.clear();
    options.ignore_eos = true;
    EXPECT_EQ(code_of(options, {1, 2}, {0, 1}), ErrorCode::bad_request);
  }
  Sampler sampler = make(plain(), 3);
  EXPECT_THROW(sampler.accept(3, true), Error);
  EXPECT_THROW(sampler.accept(-1, true), Error);
  EXPECT_THROW(sampler.sample(std::vector<float>{1, 2}), Error);
}

TEST(Sampler, ValidatesOptions) {
  const auto refused = [](auto change) {
    SamplingOptions options;
    change(options);
    try {
      validate(options, 10);
    } catch (const Error& error) {
      return error.code() == ErrorCode::bad_request;
    }
    return false;
  };
  EXPECT_FALSE(refused([](SamplingOptions&) {}));
  EXPECT_FALSE(refused([](SamplingOptions& o) { o.temperature = -1; }));
  EXPECT_FALSE(refused([](SamplingOptions& o) { o.logit_bias = {{9, -k_inf}}; }));
  EXPECT_TRUE(refused([](SamplingOptions& o) { o.temperature = k_nan; }));
  EXPECT_TRUE(refused([](SamplingOptions& o) { o.temperature = k_inf; }));
  EXPECT_TRUE(refused([](SamplingOptions& o) { o.top_p = 1.01; }));
  EXPECT_TRUE(refused([](SamplingOptions& o) { o.top_p = k_nan; }));
  EXPECT_TRUE(refused([](SamplingOptions& o) { o.min_p = -0.1; }));
  EXPECT_TRUE(refused([](SamplingOptions& o) { o.typical_p = 2; }));
  EXPECT_TRUE(refused([](SamplingOptions& o) { o.repeat_penalty = 0; }));
  EXPECT_TRUE(refused([](SamplingOptions& o) { o.repeat_penalty = k_inf; }));
  EXPECT_TRUE(refused([](SamplingOptions& o) { o.presence_penalty = k_nan; }));
  EXPECT_TRUE(refused([](SamplingOptions& o) { o.frequency_penalty = -k_inf; }));
  EXPECT_TRUE(refused([](SamplingOptions& o) { o.penalty_window = -2; }));
  EXPECT_TRUE(refused([](SamplingOptions& o) { o.logit_bias = {{10, 1.0}}; }));
  EXPECT_TRUE(refused([](SamplingOptions& o) { o.logit_bias = {{-1, 1.0}}; }));
  EXPECT_TRUE(refused([](SamplingOptions& o) { o.logit_bias = {{1, k_inf}}; }));
  EXPECT_TRUE(refused([](SamplingOptions& o) { o.logit_bias = {{1, k_nan}}; }));
}

TEST(Sampler, SeedsAreRandomUnlessGivenAndAlwaysReported) {
  const std::vector<float> logits(50, 0.0f);
  const auto tokens = [&](Sampler& sampler) {
    std::vector<TokenId> out;
    for (int i = 0; i < 40; ++i) out.push_back(sampler.sample(logits).id);
    return out;
  };
  Sampler first = make(plain(42), 50), second = make(plain(42), 50), third = make(plain(43), 50);
  const auto expected = tokens(first);
  EXPECT_EQ(first.seed(), 42u);
  EXPECT_EQ(tokens(second), expected);
  EXPECT_NE(tokens(third), expected);
  first.reset();
  EXPECT_EQ(tokens(first), expected);

  SamplingOptions options = plain();
  options.seed.reset();
  Sampler a = make(options, 50), b = make(options, 50);
  EXPECT_NE(a.seed(), b.seed());
  const auto of_a = tokens(a);
  Sampler again = make(plain(a.seed()), 50);
  EXPECT_EQ(tokens(again), of_a);
}

// The standard fixes the generator: 53 of its bits make u, and of n equal tokens u draws number
// floor(u n).
TEST(Sampler, DrawFollowsFromTheStandardsGenerator) {
  std::mt19937_64 random(7);
  Sampler sampler = make(plain(7), 1000);
  const std::vector<float> logits(1000, 2.5f);
  for (int i = 0; i < 1000; ++i) {
    const double u = static_cast<double>(random() >> 11) / 9007199254740992.0;
    EXPECT_EQ(sampler.sample(logits).id, static_cast<TokenId>(std::floor(u * 1000)));
  }
}

TEST(Sampler, ReportsLogProbabilitiesOfTheModel) {
  SamplingOptions options = greedy();
  options.n_probs = 3;
  options.logit_bias = {{0, -k_inf}, {3, 10.0}};  // changes the choice, not what is reported
  const Sample sample = make(options, 4).sample(four());
  EXPECT_EQ(sample.id, 3);
  EXPECT_NEAR(sample.log_probability, std::log(0.1), 1e-6);
  ASSERT_EQ(sample.top.size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(sample.top[i].id, static_cast<TokenId>(i));
  EXPECT_NEAR(sample.top[0].log_probability, std::log(0.5), 1e-6);
  EXPECT_NEAR(sample.top[1].log_probability, std::log(0.25), 1e-6);
  EXPECT_NEAR(sample.top[2].log_probability, std::log(0.15), 1e-6);

  options = plain();
  options.n_probs = 100;
  EXPECT_EQ(make(options, 4).sample(std::vector<float>{1, -k_inf, 2, 3}).top.size(), 3u);
  options.n_probs = 0;
  EXPECT_TRUE(make(options, 4).sample(four()).top.empty());
}

// ---- Against the oracle

std::vector<float> random_logits(size_t size, std::mt19937_64& random, float spread) {
  std::vector<float> logits(size);
  for (float& logit : logits) {
    logit = (static_cast<float>(random() >> 40) / 16777216.0f - 0.5f) * spread;
  }
  return logits;
}

void expect_as_oracle(const SamplingOptions& options, size_t vocabulary, int steps, float spread,
                      const std::string& what) {
  const std::vector<TokenId> eog{1, 3};
  test::Oracle oracle(options, eog);
  Sampler sampler = make(options, vocabulary, eog);
  std::mt19937_64 random(5);
  for (int i = 0; i < 4; ++i) {
    const auto id = static_cast<TokenId>(random() % vocabulary);
    oracle.accept(id, false);
    sampler.accept(id, false);
  }
  for (int i = 0; i < steps; ++i) {
    std::vector<float> logits = random_logits(vocabulary, random, spread);
    if (i % 3 == 0) logits[random() % vocabulary] = -k_inf;
    if (i % 5 == 0) logits[random() % vocabulary] = logits[random() % vocabulary];  // ties
    const TokenId expected = oracle.draw(logits);
    const TokenId id = sampler.sample(logits).id;
    ASSERT_EQ(id, expected) << what << ", step " << i;
    oracle.accept(id, true);
    sampler.accept(id, true);
  }
}

TEST(SamplerOracle, AgreesOverAGridWithEdgeValues) {
  int cases = 0;
  for (const double temperature : {-1.0, 0.0, 0.01, 0.8, 1.0, 3.0}) {
    for (const int64_t top_k : {-1, 0, 1, 2, 7, 30, 31, 500}) {
      for (const double top_p : {0.0, 0.3, 0.95, 1.0}) {
        for (const double min_p : {0.0, 0.05, 0.9, 1.0}) {
          for (const double typical_p : {0.0, 0.4, 0.9, 1.0}) {
            SamplingOptions options;
            options.temperature = temperature;
            options.top_k = top_k;
            options.top_p = top_p;
            options.min_p = min_p;
            options.typical_p = typical_p;
            options.seed = static_cast<uint64_t>(++cases);
            options.min_keep = cases % 4;
            expect_as_oracle(options, 31, 12, 8.0f,
                             "temp " + std::to_string(temperature) + " top_k " +
                                 std::to_string(top_k) + " top_p " + std::to_string(top_p) +
                                 " min_p " + std::to_string(min_p) + " typical " +
                                 std::to_string(typical_p));
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

TEST(SamplerOracle, AgreesOnPenaltiesBiasAndBans) {
  uint64_t seed = 0;
  for (const double repeat : {0.5, 1.0, 1.1, 3.0}) {
    for (const double presence : {-0.5, 0.0, 1.5}) {
      for (const double frequency : {-0.25, 0.0, 0.75}) {
        for (const int64_t window : {-1, 0, 1, 2, 5, 64}) {
          for (const double temperature : {0.0, 1.0}) {
            SamplingOptions options;
            options.temperature = temperature;
            options.repeat_penalty = repeat;
            options.presence_penalty = presence;
            options.frequency_penalty = frequency;
            options.penalty_window = window;
            options.ignore_eos = seed % 2 == 0;
            options.logit_bias = {{2, 1.5}, {5, -k_inf}, {2, -0.25}};
            options.seed = ++seed;
            expect_as_oracle(options, 12, 30, 6.0f, "case " + std::to_string(seed));
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

TEST(SamplerOracle, AgreesOnALargeVocabulary) {
  for (const int64_t top_k : {0, 1, 40, 1000, 20000}) {
    for (const double top_p : {0.5, 1.0}) {
      for (const float spread : {0.1f, 30.0f}) {
        SamplingOptions options;
        options.top_k = top_k;
        options.top_p = top_p;
        options.min_p = 0.0;
        options.typical_p = top_k == 1000 ? 0.7 : 1.0;
        options.seed = 11;
        expect_as_oracle(options, 30000, 3, spread, "top_k " + std::to_string(top_k));
        if (HasFatalFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace strata::text
