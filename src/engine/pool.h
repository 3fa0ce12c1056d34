// The hidden states of one text on their way to one vector.
//
// Purpose: takes the rows that the pooling asks for, in order of positions.
// Threads: one at a time.
#pragma once

#include <span>
#include <vector>

#include "runtime/model.h"
#include "strata/embedding.h"
#include "strata/engine.h"

namespace strata {

class Pool {
 public:
  Pool(Pooling pooling, size_t width) : pooling_(pooling), width_(width) {}

  // What of the text has to be read. The attention is causal: the first position knows nothing of
  // what follows.
  std::span<const TokenId> needed(std::span<const TokenId> tokens) const {
    return pooling_ == Pooling::cls ? tokens.first(1) : tokens;
  }
  // Which positions of a chunk of it count.
  runtime::Outputs outputs(bool last_chunk) const {
    if (pooling_ == Pooling::none || pooling_ == Pooling::mean) return runtime::Outputs::all;
    return last_chunk ? runtime::Outputs::last : runtime::Outputs::none;
  }
  void add(std::span<const float> row);
  // [n_embd]; [positions, n_embd] for Pooling::none. Empties the pool.
  std::vector<float> take();
  void clear() {
    sums_.clear();
    rows_.clear();
    n_ = 0;
  }

 private:
  Pooling pooling_;
  size_t width_;
  std::vector<double> sums_;
  std::vector<float> rows_;
  size_t n_ = 0;
};

}  // namespace strata
