// Samplers: from the logits of one position to the next token.
//
// Purpose: penalties, truncation and the draw, in the order and under the names that users of
// llama.cpp know: logit bias, penalties, top-k, typical, top-p, min-p, temperature, draw.
// Errors: an empty or non-finite distribution is ErrorCode::bad_request, never an abort.
// Memory: scratch is kept between calls; no allocation after the first for a given vocabulary.
// Threads: one Sampler belongs to one sequence.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "text/tokenizer.h"

namespace strata::text {

struct SamplerOptions {
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

// Checks every value; ErrorCode::bad_request naming the option, the value and the range.
void validate(const SamplerOptions& options, size_t vocabulary_size);

struct TokenProbability {
  TokenId id = 0;
  float log_probability =
      0;  // natural logarithm, of the model's own distribution (before sampling)
};

struct Sample {
  TokenId id = 0;
  float log_probability = 0;          // only when n_probs > 0
  std::vector<TokenProbability> top;  // likeliest first; only when n_probs > 0
};

class Sampler {
 public:
  Sampler(const SamplerOptions& options, const Tokenizer& tokenizer);
  // Without a tokenizer (tests): `end_of_generation` are the tokens that ignore_eos bans.
  Sampler(const SamplerOptions& options, size_t vocabulary_size,
          std::vector<TokenId> end_of_generation);

  // Tells the sampler what stands in the context; `generated` tokens count for presence and
  // frequency penalties.
  void accept(TokenId id, bool generated);
  // Draws from `logits` (vocabulary_size values, not changed). Does not accept the token.
  Sample sample(std::span<const float> logits);
  uint64_t seed() const { return seed_; }
  // Forgets the history and restarts the random sequence.
  void reset();

 private:
  SamplerOptions options_;
  size_t vocabulary_size_;
  std::vector<TokenId> end_of_generation_;
  uint64_t seed_ = 0;
  std::mt19937_64 random_;
  std::vector<TokenId> history_;
  std::vector<uint8_t> history_generated_;
  struct Candidate {
    TokenId id;
    float logit;
    float probability;
  };
  std::vector<Candidate> candidates_;
};

}  // namespace strata::text
