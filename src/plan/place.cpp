#include "plan/place.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace strata::plan {
namespace {

constexpr double k_never = std::numeric_limits<double>::infinity();
// Limits on the slowest stage that are tried, between what no cut can beat and no cut reaches.
constexpr int k_limits = 32;

// Sums over [0, i).
template <class T>
std::vector<T> prefix_of(const std::vector<T>& values) {
  std::vector<T> sums{T{}};
  for (const T& value : values) sums.push_back(sums.back() + value);
  return sums;
}

struct Stage {
  std::vector<double> prefill, decode;
  std::vector<std::vector<uint64_t>> bytes;  // by device
};

class Search {
 public:
  Search(const std::vector<StageCosts>& stages, const Weighing& weighing)
      : costs_(stages), weighing_(weighing), n_(static_cast<uint32_t>(stages[0].prefill.size())) {
    for (const StageCosts& stage : stages) {
      Stage sums{prefix_of(stage.prefill), prefix_of(stage.decode), {}};
      for (const StageMemory& memory : stage.memory)
        sums.bytes.push_back(prefix_of(memory.half_bytes));
      sums_.push_back(std::move(sums));
    }
  }

  std::optional<std::vector<uint32_t>> any() const { return within(k_never); }

  std::optional<std::vector<uint32_t>> run() {
    double low = k_never, high = 0;
    for (size_t s = 0; s < costs_.size(); ++s) {
      const double whole = paced(s, 0, n_);
      low = std::min(low, whole / static_cast<double>(2 * costs_.size()));
      high = std::max(high, whole);
    }
    std::optional<std::vector<uint32_t>> best;
    double best_cost = k_never;
    const auto attempt = [&](double limit) {
      auto cuts = within(limit);
      if (!cuts) return;
      const double cost = cost_of(*cuts);
      if (cost < best_cost) {
        best_cost = cost;
        best = std::move(cuts);
      }
    };
    attempt(k_never);
    if (!best || costs_.size() == 1 || !(low > 0)) return best;
    // Coarsely over all limits, then finely where the best was.
    for (int pass = 0; pass < 2; ++pass) {
      const double step = (high / low);
      double best_limit = high;
      const double before = best_cost;
      for (int i = 0; i < k_limits; ++i) {
        const double limit = low * std::pow(step, static_cast<double>(i) / k_limits);
        const double was = best_cost;
        attempt(limit);
        if (best_cost < was) best_limit = limit;
      }
      if (best_cost == before) break;
      const double width = std::pow(step, 1.0 / k_limits);
      low = best_limit / width;
      high = best_limit * width;
    }
    return best;
  }

 private:
  bool fits(size_t s, uint32_t begin, uint32_t end) const {
    const StageCosts& stage = costs_[s];
    for (size_t d = 0; d < stage.memory.size(); ++d) {
      const StageMemory& m = stage.memory[d];
      uint64_t bytes = m.fixed + m.used_bytes + sums_[s].bytes[d][end] - sums_[s].bytes[d][begin];
      if (begin == 0) bytes += m.embed_bytes;
      if (end == n_) bytes += m.head_bytes;
      if (bytes > m.budget) return false;
    }
    return true;
  }
  bool fits_empty(size_t s) const {
    return std::all_of(costs_[s].memory.begin(), costs_[s].memory.end(),
                       [](const StageMemory& m) { return m.fixed <= m.budget; });
  }
  double prefill(size_t s, uint32_t begin, uint32_t end) const {
    return sums_[s].prefill[end] - sums_[s].prefill[begin] +
           (end == n_ ? costs_[s].head_prefill : 0);
  }
  double decode(size_t s, uint32_t begin, uint32_t end) const {
    return sums_[s].decode[end] - sums_[s].decode[begin] + (end == n_ ? costs_[s].head_decode : 0);
  }
  // Time in which the stage is busy and others can be too.
  double paced(size_t s, uint32_t begin, uint32_t end) const {
    return weighing_.micro_batches * prefill(s, begin, end) +
           (weighing_.several ? weighing_.steps * decode(s, begin, end) : 0);
  }
  // Time that adds up over the stages.
  double added(size_t s, uint32_t begin, uint32_t end) const {
    return prefill(s, begin, end) +
           (weighing_.several ? 0 : weighing_.steps * decode(s, begin, end));
  }

  double cost_of(const std::vector<uint32_t>& cuts) const {
    double slowest = 0, sum = 0;
    uint32_t begin = 0;
    for (size_t s = 0; s < cuts.size(); ++s) {
      if (cuts[s] > begin) {
        slowest = std::max(slowest, paced(s, begin, cuts[s]));
        sum += added(s, begin, cuts[s]);
      }
      begin = cuts[s];
    }
    return slowest + sum;
  }

  // The cuts of least added time in which no stage is busy for longer than the limit.
  std::optional<std::vector<uint32_t>> within(double limit) const {
    std::vector<double> best(n_ + 1, k_never);
    best[0] = 0;
    std::vector<std::vector<uint32_t>> from(costs_.size(), std::vector<uint32_t>(n_ + 1));
    for (size_t s = 0; s < costs_.size(); ++s) {
      const bool may_be_empty = fits_empty(s);
      std::vector<double> next(n_ + 1, k_never);
      for (uint32_t end = 0; end <= n_; ++end) {
        if (may_be_empty) {
          next[end] = best[end];
          from[s][end] = end;
        }
        for (uint32_t begin = end; begin-- > 0;) {
          // Longer runs only take more.
          if (paced(s, begin, end) > limit || !fits(s, begin, end)) break;
          const double cost = best[begin] + added(s, begin, end);
          if (cost < next[end]) {
            next[end] = cost;
            from[s][end] = begin;
          }
        }
      }
      best = std::move(next);
    }
    if (best[n_] == k_never) return std::nullopt;
    std::vector<uint32_t> cuts(costs_.size());
    uint32_t end = n_;
    for (size_t s = costs_.size(); s-- > 0;) {
      cuts[s] = end;
      end = from[s][end];
    }
    return cuts;
  }

  const std::vector<StageCosts>& costs_;
  const Weighing weighing_;
  uint32_t n_;
  std::vector<Stage> sums_;
};

}  // namespace

uint64_t bytes_of(const StageMemory& memory, uint32_t begin, uint32_t end, uint32_t n) {
  uint64_t bytes = memory.fixed;
  if (begin == end) return bytes;
  bytes += memory.used_bytes;
  for (uint32_t h = begin; h < end; ++h) bytes += memory.half_bytes[h];
  if (begin == 0) bytes += memory.embed_bytes;
  if (end == n) bytes += memory.head_bytes;
  return bytes;
}

std::optional<std::vector<uint32_t>> place(const std::vector<StageCosts>& stages,
                                           const Weighing& weighing) {
  return Search(stages, weighing).run();
}

std::optional<std::vector<uint32_t>> place_any(const std::vector<StageCosts>& stages) {
  return Search(stages, {}).any();
}

}  // namespace strata::plan
