// Sampling: options and results, as users of llama.cpp know them.
//
// Purpose: plain data shared by the engine's interface and the samplers.
// Order of application: logit bias, penalties, top-k, typical, top-p, min-p, temperature, draw.
// Threads: plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace strata {

using TokenId = int32_t;

struct SamplingOptions {
  double temperature = 0.8;        // <= 0: greedy (after bias and penalties)
  int64_t top_k = 40;              // <= 0 or >= vocabulary: off
  double top_p = 0.95;             // 1: off
  double min_p = 0.05;             // 0: off
  double typical_p = 1.0;          // 1: off
  double repeat_penalty = 1.0;     // 1: off; over the last `penalty_window` tokens, prompt included
  double presence_penalty = 0.0;   // over generated tokens only
  double frequency_penalty = 0.0;  // over generated tokens only
  int64_t penalty_window = 64;     // 0: off, -1: the whole context
  std::vector<std::pair<TokenId, double>> logit_bias;  // -infinity bans a token
  bool ignore_eos = false;                             // bans every end-of-generation token
  std::optional<uint64_t> seed;                        // absent: random; the seed used is reported
  int64_t min_keep = 1;                                // truncation keeps at least so many
  uint32_t n_probs = 0;  // log-probabilities of the n likeliest tokens to report
};

struct TokenProbability {
  TokenId id = 0;
  float log_probability = 0;  // natural logarithm, of the model's own distribution
};

struct Sample {
  TokenId id = 0;
  float log_probability = 0;          // only when n_probs > 0
  std::vector<TokenProbability> top;  // likeliest first; only when n_probs > 0
};

}  // namespace strata
