// A second sampler for the tests: everything by full sort in long double, written from the
// definitions, with the C library's exp and log.
#pragma once

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include "strata/sampling.h"

namespace strata::test {

struct OracleToken {
  TokenId id;
  long double logit;
  long double probability;
};

class Oracle {
 public:
  Oracle(const SamplingOptions& options, std::vector<TokenId> eog)
      : options_(options), eog_(std::move(eog)), random_(options.seed.value()) {}

  void accept(TokenId id, bool generated) { history_.emplace_back(id, generated); }

  // The distribution that is drawn from, likeliest first; greedy gives one token.
  std::vector<OracleToken> distribution(const std::vector<float>& logits) const {
    std::vector<OracleToken> tokens;
    for (size_t i = 0; i < logits.size(); ++i) {
      tokens.push_back({static_cast<TokenId>(i), adjusted(static_cast<TokenId>(i), logits[i]), 0});
    }
    std::erase_if(tokens, [](const OracleToken& t) { return std::isinf(t.logit); });
    sort(tokens);
    if (options_.temperature <= 0) return {tokens.front()};
    const auto least = static_cast<size_t>(std::max<int64_t>(options_.min_keep, 1));
    if (options_.top_k > 0) cut(tokens, std::max(static_cast<size_t>(options_.top_k), least));
    if (options_.typical_p < 1) typical(tokens, least);
    if (options_.top_p < 1) {
      soften(tokens, 1);
      size_t count = 0;
      for (long double mass = 0; count < tokens.size();) {
        mass += tokens[count++].probability;
        if (mass >= options_.top_p - 1e-15L && count >= least) break;
      }
      cut(tokens, count);
    }
    if (options_.min_p > 0) {
      soften(tokens, 1);
      size_t count = 0;
      while (
          count < tokens.size() &&
          (count < least || tokens[count].probability >= options_.min_p * tokens[0].probability)) {
        ++count;
      }
      cut(tokens, count);
    }
    soften(tokens, options_.temperature);
    return tokens;
  }

  TokenId draw(const std::vector<float>& logits) {
    const auto tokens = distribution(logits);
    if (options_.temperature <= 0) return tokens.front().id;
    const long double target = static_cast<long double>(random_() >> 11) / 9007199254740992.0L;
    long double mass = 0;
    for (const OracleToken& t : tokens) {
      mass += t.probability;
      if (target < mass) return t.id;
    }
    return tokens.back().id;
  }

 private:
  long double adjusted(TokenId id, float logit) const {
    double value = logit;
    for (const auto& [biased, bias] : options_.logit_bias) {
      if (biased == id) value = static_cast<float>(value + bias);
    }
    if (options_.ignore_eos && std::count(eog_.begin(), eog_.end(), id) > 0) return -INFINITY;
    size_t window = history_.size();
    if (options_.penalty_window >= 0) {
      window = std::min(window, static_cast<size_t>(options_.penalty_window));
    }
    size_t all = 0, generated = 0;
    for (size_t i = history_.size() - window; i < history_.size(); ++i) {
      if (history_[i].first != id) continue;
      ++all;
      if (history_[i].second) ++generated;
    }
    if (all > 0) {
      value = value > 0 ? value / options_.repeat_penalty : value * options_.repeat_penalty;
      value -= static_cast<double>(generated) * options_.frequency_penalty;
      value -= generated > 0 ? options_.presence_penalty : 0;
      value = static_cast<float>(value);  // logits are floats
    }
    return value;
  }

  static void sort(std::vector<OracleToken>& tokens) {
    std::stable_sort(tokens.begin(), tokens.end(), [](const OracleToken& a, const OracleToken& b) {
      return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
    });
  }
  static void cut(std::vector<OracleToken>& tokens, size_t count) {
    tokens.resize(std::min(tokens.size(), count));
  }
  static void soften(std::vector<OracleToken>& tokens, long double temperature) {
    long double sum = 0;
    for (OracleToken& t : tokens) {
      t.probability = std::exp((t.logit - tokens[0].logit) / temperature);
      sum += t.probability;
    }
    for (OracleToken& t : tokens) t.probability /= sum;
  }
  void typical(std::vector<OracleToken>& tokens, size_t least) const {
    soften(tokens, 1);
    long double entropy = 0;
    for (const OracleToken& t : tokens) {
      if (t.probability > 0) entropy -= t.probability * std::log(t.probability);
    }
    std::stable_sort(tokens.begin(), tokens.end(), [&](const OracleToken& a, const OracleToken& b) {
      return std::fabs(-std::log(a.probability) - entropy) <
             std::fabs(-std::log(b.probability) - entropy);
    });
    size_t count = 0;
    for (long double mass = 0; count < tokens.size();) {
      mass += tokens[count++].probability;
      if (mass > options_.typical_p && count >= least) break;
    }
    cut(tokens, count);
    sort(tokens);
  }

  SamplingOptions options_;
  std::vector<TokenId> eog_;
  std::mt19937_64 random_;
  std::vector<std::pair<TokenId, bool>> history_;
};

}  // namespace strata::test
