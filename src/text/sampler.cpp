#include "text/sampler.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/field_error.h"
#include "text/grammar/mask.h"
#include "text/sampler_math.h"

namespace strata::text {
namespace {

constexpr float k_no_logit = -std::numeric_limits<float>::infinity();

void check_range(const char* name, double value, double min, double max) {
  if (value >= min && value <= max) return;  // false for NaN
  fail_field(name, "{} is {}; give a number from {} to {}", name, value, min, max);
}

void check_finite(const char* name, double value) {
  if (std::isfinite(value)) return;
  fail_field(name, "{} is {}; give a finite number", name, value);
}

// Short enough to be typed again.
uint64_t random_seed() {
  try {
    std::random_device device;
    return device() & 0xffffffffu;
  } catch (const std::exception&) {
    const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
    return static_cast<uint64_t>(now) & 0xffffffffu;
  }
}

// A logit stays a finite float, or -infinity: a token that is ruled out.
float to_logit(double value) {
  constexpr double most = std::numeric_limits<float>::max();
  if (std::isinf(value) && value < 0) return k_no_logit;
  return static_cast<float>(std::clamp(value, -most, most));
}

bool is_larger(float logit_a, TokenId id_a, float logit_b, TokenId id_b) {
  return logit_a != logit_b ? logit_a > logit_b : id_a < id_b;
}

[[noreturn]] void fail_empty() {
  fail(ErrorCode::bad_request,
       "no token can follow: the model, the grammar, the logit bias or ignore_eos rules out every "
       "one");
}

}  // namespace

void validate(const SamplingOptions& options, size_t vocabulary_size) {
  check_finite("temperature", options.temperature);
  check_range("top_p", options.top_p, 0, 1);
  check_range("min_p", options.min_p, 0, 1);
  check_range("typical_p", options.typical_p, 0, 1);
  check_finite("repeat_penalty", options.repeat_penalty);
  if (options.repeat_penalty <= 0) {
    fail_field("repeat_penalty", "repeat_penalty is {}; give a number above 0 (1 is off)",
               options.repeat_penalty);
  }
  check_finite("presence_penalty", options.presence_penalty);
  check_finite("frequency_penalty", options.frequency_penalty);
  if (options.penalty_window < -1) {
    fail_field("repeat_last_n",
               "the penalty window is {}; give a number of tokens, 0 for off or -1 for the whole "
               "context",
               options.penalty_window);
  }
  for (const auto& [id, bias] : options.logit_bias) {
    if (id < 0 || static_cast<size_t>(id) >= vocabulary_size) {
      fail_field("logit_bias", "logit_bias names token {}; the vocabulary has 0 to {}", id,
                 static_cast<int64_t>(vocabulary_size) - 1);
    }
    if (!std::isfinite(bias) && !(bias < 0)) {
      fail_field("logit_bias", "logit_bias of token {} is {}; give a finite number or -infinity",
                 id, bias);
    }
  }
}

Sampler::Sampler(const SamplingOptions& options, const Tokenizer& tokenizer)
    : Sampler(options, tokenizer.size(), tokenizer.end_of_generation()) {}

Sampler::Sampler(const SamplingOptions& options, size_t vocabulary_size,
                 std::vector<TokenId> end_of_generation)
    : options_(options),
      vocabulary_size_(vocabulary_size),
      end_of_generation_(std::move(end_of_generation)) {
  validate(options_, vocabulary_size_);
  seed_ = options_.seed ? *options_.seed : random_seed();
  if (has_penalties()) counts_.resize(vocabulary_size_);
  reset();
}

bool Sampler::has_penalties() const {
  return options_.penalty_window != 0 &&
         (options_.repeat_penalty != 1.0 || options_.presence_penalty != 0.0 ||
          options_.frequency_penalty != 0.0);
}

size_t Sampler::min_keep() const {
  return static_cast<size_t>(std::max<int64_t>(options_.min_keep, 1));
}

void Sampler::reset() {
  random_.seed(seed_);
  window_.clear();
  window_next_ = 0;
  for (const TokenId id : seen_) counts_[static_cast<size_t>(id)] = {};
  seen_.clear();
}

void Sampler::accept(TokenId id, bool generated) {
  if (id < 0 || static_cast<size_t>(id) >= vocabulary_size_) {
    fail(ErrorCode::bad_request, "token {} is not in the vocabulary (0 to {})", id,
         static_cast<int64_t>(vocabulary_size_) - 1);
  }
  if (!has_penalties()) return;
  Counts& counts = counts_[static_cast<size_t>(id)];
  if (!counts.listed) seen_.push_back(id);
  counts.listed = 1;
  ++counts.all;
  if (generated) ++counts.generated;

  const bool limited = options_.penalty_window > 0;
  if (!limited || window_.size() < static_cast<size_t>(options_.penalty_window)) {
    window_.push_back({id, generated});
    return;
  }
  const Accepted old = std::exchange(window_[window_next_], Accepted{id, generated});
  window_next_ = (window_next_ + 1) % window_.size();
  Counts& old_counts = counts_[static_cast<size_t>(old.id)];
  --old_counts.all;
  if (old.generated) --old_counts.generated;
}

// Fills adjusted_ and refuses what no distribution can be made of.
void Sampler::adjust(std::span<const float> logits, std::span<const uint32_t> allowed) {
  if (logits.size() != vocabulary_size_) {
    fail(ErrorCode::internal, "{} logits for a vocabulary of {}", logits.size(), vocabulary_size_);
  }
  adjusted_.assign(logits.begin(), logits.end());
  // NaN and +infinity are exactly what is not below the largest float or equal to it.
  bool bad = false;
  for (const float logit : adjusted_) bad |= !(logit <= std::numeric_limits<float>::max());
  if (bad) {
    size_t at = 0;
    while (adjusted_[at] <= std::numeric_limits<float>::max()) ++at;
    fail(ErrorCode::bad_request,
         "the model's logits are not finite (token {}: {}); the model or its cache is damaged", at,
         adjusted_[at]);
  }
  if (!allowed.empty()) apply_mask(allowed, adjusted_);
  for (const auto& [id, bias] : options_.logit_bias) {
    float& logit = adjusted_[static_cast<size_t>(id)];
    logit = to_logit(logit + bias);
  }
  if (options_.ignore_eos) {
    for (const TokenId id : end_of_generation_) {
      if (id >= 0 && static_cast<size_t>(id) < vocabulary_size_) {
        adjusted_[static_cast<size_t>(id)] = k_no_logit;
      }
    }
  }
  if (has_penalties()) apply_penalties();
}

void Sampler::apply_penalties() {
  size_t kept = 0;
  for (const TokenId id : seen_) {
    Counts& counts = counts_[static_cast<size_t>(id)];
    if (counts.all == 0) {
      counts.listed = 0;  // it left the window
      continue;
    }
    seen_[kept++] = id;
    float& logit = adjusted_[static_cast<size_t>(id)];
    double value = logit;
    value = value > 0 ? value / options_.repeat_penalty : value * options_.repeat_penalty;
    value -= static_cast<double>(counts.generated) * options_.frequency_penalty;
    if (counts.generated > 0) value -= options_.presence_penalty;
    logit = to_logit(value);
  }
  seen_.resize(kept);
}

TokenId Sampler::greedy() const {
  size_t best = 0;
  float greatest = k_no_logit;
  for (size_t i = 0; i < adjusted_.size(); ++i) {
    if (adjusted_[i] > greatest) {
      greatest = adjusted_[i];
      best = i;
    }
  }
  if (greatest == k_no_logit) fail_empty();
  return static_cast<TokenId>(best);
}

// The k largest of `logits` become the candidates, those that are ruled out (-infinity) never.
void Sampler::select_largest(std::span<const float> logits, size_t k) {
  candidates_.clear();
  sorted_ = 0;
  const auto larger = [](const Candidate& a, const Candidate& b) {
    return is_larger(a.logit, a.id, b.logit, b.id);
  };
  // A buffer of at least twice k is cut back to the k largest whenever it is full; from then on
  // only what beats the smallest of these is looked at. Equal logits lose to the lower id, which
  // came first.
  const size_t full = std::min(2 * k + 256, logits.size());
  candidates_.reserve(full);
  float threshold = k_no_logit;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!(logits[i] > threshold)) continue;
    if (candidates_.size() == full) {
      std::nth_element(candidates_.begin(), candidates_.begin() + static_cast<ptrdiff_t>(k - 1),
                       candidates_.end(), larger);
      candidates_.resize(k);
      threshold = candidates_.back().logit;
      if (!(logits[i] > threshold)) continue;
    }
    candidates_.push_back({static_cast<TokenId>(i), logits[i], 0});
  }
  if (candidates_.size() > k) {
    std::nth_element(candidates_.begin(), candidates_.begin() + static_cast<ptrdiff_t>(k - 1),
                     candidates_.end(), larger);
    candidates_.resize(k);
  }
}

// Makes the first `count` candidates the largest ones, in order.
void Sampler::sort_prefix(size_t count) {
  count = std::min(count, candidates_.size());
  if (count <= sorted_) return;
  const auto larger = [](const Candidate& a, const Candidate& b) {
    return is_larger(a.logit, a.id, b.logit, b.id);
  };
  const auto begin = candidates_.begin() + static_cast<ptrdiff_t>(sorted_);
  const auto end = candidates_.begin() + static_cast<ptrdiff_t>(count);
  if (end != candidates_.end()) std::nth_element(begin, end, candidates_.end(), larger);
  std::sort(begin, end, larger);
  sorted_ = count;
}

void Sampler::weigh() {
  sort_prefix(1);
  const double greatest = candidates_[0].logit;
  for (Candidate& c : candidates_) c.weight = stable_exp(c.logit - greatest);
}

double Sampler::total_weight() const {
  double sum = 0;
  for (const Candidate& c : candidates_) sum += c.weight;
  return sum;
}

void Sampler::keep(size_t count) {
  candidates_.resize(std::min(count, candidates_.size()));
  sorted_ = std::min(sorted_, candidates_.size());
}

// Keeps the tokens whose surprise is nearest to the entropy until they have probability typical_p.
// Formula: Meister et al., "Locally Typical Sampling", 2022.
void Sampler::truncate_typical() {
  if (options_.typical_p >= 1.0) return;
  const double greatest = candidates_[0].logit;
  const double sum = total_weight();
  const double log_sum = stable_log(sum);
  double entropy = 0;
  for (const Candidate& c : candidates_) {
    entropy += c.weight / sum * (log_sum - (c.logit - greatest));
  }
  const auto distance = [=](const Candidate& c) {
    return std::fabs(log_sum - (c.logit - greatest) - entropy);
  };
  const auto more_typical = [=](const Candidate& a, const Candidate& b) {
    const double distance_a = distance(a), distance_b = distance(b);
    if (distance_a != distance_b) return distance_a < distance_b;
    return is_larger(a.logit, a.id, b.logit, b.id);
  };
  double mass = 0;
  size_t count = 0, ordered = 0;
  while (count < candidates_.size()) {
    if (count == ordered) {
      // Most often a few are enough, so they are ordered in growing pieces.
      const size_t next = std::min(candidates_.size(), ordered * 4 + 64);
      const auto begin = candidates_.begin() + static_cast<ptrdiff_t>(ordered);
      const auto end = candidates_.begin() + static_cast<ptrdiff_t>(next);
      if (end != candidates_.end()) std::nth_element(begin, end, candidates_.end(), more_typical);
      std::sort(begin, end, more_typical);
      ordered = next;
    }
    mass += candidates_[count++].weight;
    if (mass > options_.typical_p * sum && count >= min_keep()) break;
  }
  candidates_.resize(count);
  sorted_ = 0;
  weigh();  // the likeliest may be gone
}

void Sampler::truncate_top_p() {
  if (options_.top_p >= 1.0) return;
  const double wanted = options_.top_p * total_weight();
  double mass = 0;
  size_t count = 0;
  while (count < candidates_.size()) {
    if (count == sorted_) sort_prefix(sorted_ * 4 + 64);
    mass += candidates_[count++].weight;
    if (mass >= wanted && count >= min_keep()) break;
  }
  keep(count);
}

void Sampler::truncate_min_p() {
  if (options_.min_p <= 0.0) return;
  const size_t least = std::min(min_keep(), candidates_.size());
  sort_prefix(least);
  // Order is kept, and weights fall with it, so the sorted part stays sorted.
  size_t count = 0;
  for (size_t i = 0; i < candidates_.size(); ++i) {
    if (i < least || candidates_[i].weight >= options_.min_p) candidates_[count++] = candidates_[i];
  }
  keep(count);
}

TokenId Sampler::draw() {
  const double greatest = candidates_[0].logit;
  for (Candidate& c : candidates_) {
    c.weight = stable_exp((c.logit - greatest) / options_.temperature);
  }
  // 53 random bits make a number in [0, 1); walked from the likeliest down, few need sorting.
  const double target = static_cast<double>(random_() >> 11) * 0x1p-53 * total_weight();
  double mass = 0;
  for (size_t i = 0; i < candidates_.size(); ++i) {
    if (i == sorted_) sort_prefix(sorted_ * 4 + 64);
    mass += candidates_[i].weight;
    if (target < mass) return candidates_[i].id;
  }
  // Rounding: the sum in this order came out a little smaller than in the other.
  size_t last = candidates_.size() - 1;
  while (last > 0 && candidates_[last].weight == 0) --last;
  return candidates_[last].id;
}

void Sampler::report(std::span<const float> logits, Sample& out) {
  const size_t count = std::min<size_t>(options_.n_probs, logits.size());
  select_largest(logits, count);
  sort_prefix(count);
  // The first candidate is the greatest; a model that rules out everything was refused before.
  const double greatest = candidates_[0].logit;
  double sum = 0;
  for (const float logit : logits) sum += stable_exp(logit - greatest);
  const double log_sum = stable_log(sum);
  for (const Candidate& c : candidates_) {
    out.top.push_back({c.id, static_cast<float>(c.logit - greatest - log_sum)});
  }
  const float chosen = logits[static_cast<size_t>(out.id)];
  out.log_probability = static_cast<float>(chosen - greatest - log_sum);
}

Sample Sampler::sample(std::span<const float> logits, std::span<const uint32_t> allowed) {
  adjust(logits, allowed);
  Sample out;
  if (options_.temperature > 0) {
    const bool limited =
        options_.top_k > 0 && static_cast<uint64_t>(options_.top_k) < vocabulary_size_;
    const size_t k =
        limited ? std::max(static_cast<size_t>(options_.top_k), min_keep()) : vocabulary_size_;
    select_largest(adjusted_, std::min(k, vocabulary_size_));
    if (candidates_.empty()) fail_empty();
    sort_prefix(1);
    if (options_.typical_p < 1.0 || options_.top_p < 1.0 || options_.min_p > 0.0) {
      weigh();
      truncate_typical();
      truncate_top_p();
      truncate_min_p();
    }
    out.id = draw();
  } else {
    out.id = greedy();
  }
  if (options_.n_probs > 0) report(logits, out);
  return out;
}

}  // namespace strata::text
