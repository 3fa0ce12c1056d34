// Samplers: from the logits of one position to the next token.
//
// Purpose: penalties, truncation and the draw, in the order and under the names that users of
// llama.cpp know: logit bias, penalties, top-k, typical, top-p, min-p, temperature, draw. Each
// truncation looks at the distribution that the one before left, renormalised, at temperature 1.
// Ties are decided for the lower token id. The same seed and logits give the same tokens with
// every compiler and C library: random bits, exponentials and sums are our own.
// Errors: an empty or non-finite distribution is ErrorCode::bad_request, never an abort.
// Memory: scratch is kept between calls; sample() does not allocate after the first call, but for
// the list it returns when n_probs > 0. With penalties on, 8 bytes per entry of the vocabulary.
// Threads: one Sampler belongs to one sequence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "text/tokenizer.h"

namespace strata::text {

struct SamplerOptions {
  double temperature = 0.8;        // <= 0: greedy (after bias and penalties)
  int64_t top_k = 40;              // <= 0 or >= vocabulary: off
  double top_p = 0.95;             // 1: off; 0: one token
  double min_p = 0.05;             // 0: off; 1: only what is as likely as the likeliest
  double typical_p = 1.0;          // 1: off; 0: one token
  double repeat_penalty = 1.0;     // 1: off; over the last `penalty_window` tokens, prompt included
  double presence_penalty = 0.0;   // over the generated tokens of the window only
  double frequency_penalty = 0.0;  // over the generated tokens of the window only
  int64_t penalty_window = 64;     // 0: no penalties, -1: the whole context
  std::vector<std::pair<TokenId, double>> logit_bias;  // -infinity bans a token; repeated ids add
  bool ignore_eos = false;                             // bans every end-of-generation token
  std::optional<uint64_t> seed;                        // absent: random; the seed used is reported
  int64_t min_keep = 1;                                // truncation keeps at least so many
  uint32_t n_probs = 0;  // log-probabilities of the n likeliest tokens to report
};

// Checks every value; ErrorCode::bad_request naming the option, the value and the range.
void validate(const SamplerOptions& options, size_t vocabulary_size);

struct TokenProbability {
  TokenId id = 0;
  // Natural logarithm, of the model's own distribution (before bias, penalties and truncation);
  // -infinity for a token that the model rules out.
  float log_probability = 0;
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
  // frequency penalties. An id outside the vocabulary is ErrorCode::bad_request.
  void accept(TokenId id, bool generated);
  // Draws from `logits` (vocabulary_size values, not changed). Does not accept the token.
  Sample sample(std::span<const float> logits);
  uint64_t seed() const { return seed_; }
  // Forgets the history and restarts the random sequence.
  void reset();

 private:
  struct Candidate {
    TokenId id;
    float logit;
    double weight;  // exp(logit - greatest logit)
  };
  struct Counts {
    uint32_t all = 0;        // in the window
    uint32_t generated = 0;  // of these, generated
  };
  struct Accepted {
    TokenId id;
    bool generated;
  };

  void adjust(std::span<const float> logits);
  void apply_penalties();
  TokenId greedy() const;
  void choose_candidates();
  void select_largest(std::span<const float> logits, size_t k);
  void sort_prefix(size_t count);
  void weigh();
  double total_weight() const;
  void keep(size_t count);
  void truncate_typical();
  void truncate_top_p();
  void truncate_min_p();
  TokenId draw();
  void report(std::span<const float> logits, Sample& out);

  bool has_penalties() const;
  size_t min_keep() const;

  SamplerOptions options_;
  size_t vocabulary_size_;
  std::vector<TokenId> end_of_generation_;
  uint64_t seed_ = 0;
  std::mt19937_64 random_;

  std::vector<Accepted> window_;  // a ring when the window is limited
  size_t window_next_ = 0;        // where the ring is written next
  std::vector<Counts> counts_;    // by token id
  std::vector<TokenId> seen_;     // ids whose count is, or was, above zero; each once

  std::vector<float> adjusted_;        // logits after bias and penalties
  std::vector<Candidate> candidates_;  // the first sorted_ are the largest, in order
  size_t sorted_ = 0;
};

}  // namespace strata::text
