// Cuts against all cuts there are, tried one by one, with the same objective.
#include "plan/place.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <random>

namespace strata::plan {
namespace {

constexpr double k_never = std::numeric_limits<double>::infinity();

// The objective in the words of place.h: in a prompt's micro-batches and, with several sequences,
// in decode the slowest stage sets the pace; what goes through one stage after another adds up.
double cost_of(const std::vector<StageCosts>& stages, const Weighing& weighing,
               const std::vector<uint32_t>& cuts) {
  const auto n = static_cast<uint32_t>(stages[0].prefill.size());
  double slowest = 0, sum = 0;
  uint32_t begin = 0;
  for (size_t s = 0; s < stages.size(); ++s) {
    double prefill = 0, decode = 0;
    for (uint32_t h = begin; h < cuts[s]; ++h) {
      prefill += stages[s].prefill[h];
      decode += stages[s].decode[h];
    }
    if (begin < cuts[s] && cuts[s] == n) {
      prefill += stages[s].head_prefill;
      decode += stages[s].head_decode;
    }
    const double paced = weighing.micro_batches * prefill;
    slowest = std::max(slowest, paced + (weighing.several ? weighing.steps * decode : 0));
    sum += prefill + (weighing.several ? 0 : weighing.steps * decode);
    begin = cuts[s];
  }
  return slowest + sum;
}

bool fits(const std::vector<StageCosts>& stages, const std::vector<uint32_t>& cuts) {
  const auto n = static_cast<uint32_t>(stages[0].prefill.size());
  uint32_t begin = 0;
  for (size_t s = 0; s < stages.size(); ++s) {
    for (const StageMemory& m : stages[s].memory) {
      uint64_t bytes = m.fixed;
      if (begin < cuts[s]) {
        bytes += m.used_bytes;
        for (uint32_t h = begin; h < cuts[s]; ++h) bytes += m.half_bytes[h];
        if (begin == 0) bytes += m.embed_bytes;
        if (cuts[s] == n) bytes += m.head_bytes;
      }
      EXPECT_EQ(bytes, bytes_of(m, begin, cuts[s], n));
      if (bytes > m.budget) return false;
    }
    begin = cuts[s];
  }
  return true;
}

double best_of_all(const std::vector<StageCosts>& stages, const Weighing& weighing) {
  const auto n = static_cast<uint32_t>(stages[0].prefill.size());
  double best = k_never;
  std::vector<uint32_t> cuts(stages.size(), n);
  const std::function<void(size_t, uint32_t)> from = [&](size_t s, uint32_t begin) {
    if (s + 1 == stages.size()) {
      cuts[s] = n;
      if (fits(stages, cuts)) best = std::min(best, cost_of(stages, weighing, cuts));
      return;
    }
    for (uint32_t end = begin; end <= n; ++end) {
      cuts[s] = end;
      from(s + 1, end);
    }
  };
  from(0, 0);
  return best;
}

class Cases {
 public:
  explicit Cases(uint32_t seed) : random_(seed) {}
  uint32_t number(uint32_t low, uint32_t high) {
    return std::uniform_int_distribution<uint32_t>(low, high)(random_);
  }
  std::vector<StageCosts> stages(bool tight) {
    const uint32_t n_stages = number(1, 4);
    const uint32_t n = 2 * number(1, 6);
    std::vector<StageCosts> out;
    for (uint32_t s = 0; s < n_stages; ++s) {
      StageCosts stage;
      const double speed = number(1, 10);
      const uint32_t members = number(1, 2);
      stage.memory.resize(members);
      for (uint32_t h = 0; h < n; ++h) {
        stage.prefill.push_back(number(5, 15) / speed);
        stage.decode.push_back(number(1, 3) / speed / 16);
      }
      stage.head_decode = number(0, 3) / speed / 16;
      for (StageMemory& m : stage.memory) {
        for (uint32_t h = 0; h < n; ++h) m.half_bytes.push_back(number(5, 15));
        m.fixed = number(0, 10);
        m.used_bytes = number(0, 5);
        m.embed_bytes = number(0, 20);
        m.head_bytes = number(0, 20);
        m.budget = tight ? number(5, 20 * n / n_stages) : 100000;
      }
      out.push_back(std::move(stage));
    }
    return out;
  }

 private:
  std::mt19937 random_;
};

TEST(Place, AsGoodAsTheBestOfAllCuts) {
  double worst = 1, sum = 0;
  int found = 0, none = 0;
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    Cases cases(seed);
    const auto stages = cases.stages(seed % 2 == 0);
    const Weighing weighing{static_cast<double>(cases.number(1, 8)),
                            static_cast<double>(cases.number(0, 256)), cases.number(0, 1) == 1};
    const double best = best_of_all(stages, weighing);
    const auto cuts = place(stages, weighing);
    ASSERT_EQ(cuts.has_value(), best < k_never) << seed;
    if (!cuts) {
      ++none;
      continue;
    }
    ASSERT_EQ(cuts->size(), stages.size());
    ASSERT_TRUE(std::is_sorted(cuts->begin(), cuts->end()));
    ASSERT_EQ(cuts->back(), stages[0].prefill.size());
    ASSERT_TRUE(fits(stages, *cuts)) << seed;
    const double ratio = cost_of(stages, weighing, *cuts) / best;
    ASSERT_GE(ratio, 1 - 1e-9);
    worst = std::max(worst, ratio);
    sum += ratio;
    ++found;
  }
  // Both kinds of case must have been there.
  EXPECT_GT(found, 500);
  EXPECT_GT(none, 50);
  // The pace is tried in steps, so that the best may be missed by a step.
  EXPECT_LT(worst, 1.05);
  EXPECT_LT(sum / found, 1.001);
}

// Twice as fast takes twice as much, where nothing else counts.
TEST(Place, WorkFollowsSpeed) {
  std::vector<StageCosts> stages(2);
  for (size_t s = 0; s < 2; ++s) {
    stages[s].prefill.assign(12, s == 0 ? 1.0 : 2.0);
    stages[s].decode.assign(12, s == 0 ? 0.1 : 0.2);
    stages[s].memory.push_back({1000, 0, std::vector<uint64_t>(12, 1), 0, 0, 0});
  }
  EXPECT_EQ(place(stages, {8, 256, true}), (std::vector<uint32_t>{8, 12}));
  // A single user's tokens go one after another: the faster device has all that it can hold.
  EXPECT_EQ(place(stages, {1, 256, false}), (std::vector<uint32_t>{12, 12}));
  stages[0].memory[0].budget = 10;
  EXPECT_EQ(place(stages, {1, 256, false}), (std::vector<uint32_t>{10, 12}));
  stages[1].memory[0].budget = 1;
  EXPECT_EQ(place(stages, {1, 256, false}), std::nullopt);
}

}  // namespace
}  // namespace strata::plan
