// What a step must read and compute at least: the ideal against which speed is measured.
//
// Purpose: bytes of weights and of the KV cache that a micro-batch touches, and the multiplications
// and additions in it, from a model's description alone. Bytes are those of the element types, as
// in the file: what a device keeps beside them is its own business.
// Not for: predicting time; that also depends on the device.
// Threads: pure functions.
#pragma once

#include <cstdint>

#include "model/spec.h"

namespace strata::plan {

// A micro-batch, as far as its cost goes.
struct StepWork {
  double tokens = 0;
  double outputs = 0;   // rows of logits
  double attended = 0;  // positions that the tokens' queries look at, added up over the tokens
  double cached = 0;    // positions whose keys and values are read, each sequence's once
};

struct StepCost {
  double weight_bytes = 0;
  double kv_bytes = 0;
  double operations = 0;  // multiplications and additions of matrices and attention

  StepCost& operator+=(const StepCost& other);
};

// New tokens of one sequence, `n` after `past` ones, of which `outputs` give logits.
StepWork appended(uint64_t past, uint64_t n, uint64_t outputs);

// Experts count as far as the tokens reach them when each token draws its experts evenly and
// independently: all of n_used for one token, (1 - (1 - used/all)^tokens) of all for many.
StepCost cost_of(const model::ModelSpec& spec, ElementType type_k, ElementType type_v,
                 const StepWork& work);

}  // namespace strata::plan
