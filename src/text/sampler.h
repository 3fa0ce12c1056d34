// Samplers: from the logits of one position to the next token.
//
// Purpose: penalties, truncation and the draw, in the order and under the names that users of
// llama.cpp know: a grammar's mask, logit bias, penalties, top-k, typical, top-p, min-p,
// temperature, draw. Each truncation looks at the distribution that the one before left,
// renormalised, at temperature 1. Ties are decided for the lower token id. The same seed and logits
// give the same tokens with every compiler and C library: random bits, exponentials and sums are
// our own. Edge values: temperature <= 0 is greedy; top_k <= 0 or >= the vocabulary, top_p 1, min_p
// 0, typical_p 1, repeat_penalty 1 and a window of 0 are off; top_p 0 and typical_p 0 keep min_keep
// tokens; a window of -1 is the whole context; biases of the same token add up, -infinity bans it.
// Errors: an empty or non-finite distribution is ErrorCode::bad_request, never an abort.
// Memory: scratch is kept between calls; sample() does not allocate after the first call, but for
// the list it returns when n_probs > 0. With penalties on, 8 bytes per entry of the vocabulary.
// Threads: one Sampler belongs to one sequence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "strata/sampling.h"
#include "text/tokenizer.h"

namespace strata::text {

// Checks every value; ErrorCode::bad_request naming the option, the value and the range.
void validate(const SamplingOptions& options, size_t vocabulary_size);

class Sampler {
 public:
  Sampler(const SamplingOptions& options, const Tokenizer& tokenizer);
  // Without a tokenizer (tests): `end_of_generation` are the tokens that ignore_eos bans.
  Sampler(const SamplingOptions& options, size_t vocabulary_size,
          std::vector<TokenId> end_of_generation);

  // Tells the sampler what stands in the context; `generated` tokens count for presence and
  // frequency penalties. An id outside the vocabulary is ErrorCode::bad_request.
  void accept(TokenId id, bool generated);
  // Draws from `logits` (vocabulary_size values, not changed). Does not accept the token.
  // `allowed`, unless empty, has a bit per token (id % 32 of word id / 32); a token whose bit is
  // clear is as if its bias were -infinity. What n_probs reports is the model's own all the same.
  Sample sample(std::span<const float> logits, std::span<const uint32_t> allowed = {});
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
    uint32_t all = 0;             // in the window
    uint32_t generated : 31 = 0;  // of these, generated
    uint32_t listed : 1 = 0;      // the id is in seen_
  };
  struct Accepted {
    TokenId id;
    bool generated;
  };

  void adjust(std::span<const float> logits, std::span<const uint32_t> allowed);
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

  SamplingOptions options_;
  size_t vocabulary_size_;
  std::vector<TokenId> end_of_generation_;
  uint64_t seed_ = 0;
  std::mt19937_64 random_;

  std::vector<Accepted> window_;  // a ring when the window is limited
  size_t window_next_ = 0;        // where the ring is written next
  std::vector<Counts> counts_;    // by token id
  std::vector<TokenId> seen_;     // ids whose count is, or lately was, above zero

  std::vector<float> adjusted_;        // logits after bias and penalties
  std::vector<Candidate> candidates_;  // the first sorted_ are the largest, in order
  size_t sorted_ = 0;
};

}  // namespace strata::text
