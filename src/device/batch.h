// A micro-batch as devices see it: tokens of any number of sequences, and where their past lies.
//
// Ownership: a Batch owns its arrays; runs hold it by shared_ptr until they are done.
// Threads: constant once given to a queue.
#pragma once

#include <cstdint>
#include <vector>

namespace strata::device {

struct Batch {
  std::vector<int32_t> tokens;      // [n] ids, checked against the vocabulary by the runtime
  std::vector<int32_t> positions;   // [n] position of each token in its sequence, from 0
  std::vector<uint32_t> sequences;  // [n] index into block_tables
  // Physical block of each logical block of a sequence: position p lies in
  // block_tables[s][p / block_tokens]. Long enough for every position up to the sequence's last
  // token of this batch.
  std::vector<std::vector<uint32_t>> block_tables;
  std::vector<uint32_t> output_rows;  // rows of this batch whose logits are asked for, ascending

  uint32_t size() const { return static_cast<uint32_t>(tokens.size()); }
};

}  // namespace strata::device
