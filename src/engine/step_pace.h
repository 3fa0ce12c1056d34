// How much of the prompts a step may read, so that those who generate do not wait for it.
//
// Purpose: a step that also reads prompt tokens takes longer than one that only generates. From
// the times of past steps the pace finds how many prompt tokens keep a step within `stretch` times
// the time it would take without; where nobody generates, how many keep it short enough that a
// client who leaves, or one who comes, is heard soon.
// Not for: which requests run (scheduler.h).
// Threads: one at a time.
#pragma once

#include <cstdint>

namespace strata {

struct PaceOptions {
  double stretch = 1.7;        // of the time of a step that only generates
  double longest_seconds = 4;  // of a step in which nobody generates
  uint32_t fewest = 1;         // prompt tokens that a step reads, however slow
  uint32_t fewest_alone = 64;
  uint32_t most = 256;  // beside others
};

class StepPace {
 public:
  explicit StepPace(const PaceOptions& options) : options_(options) {}

  // Prompt tokens that the next step may read beside `generating` tokens, at most `room`. Now and
  // then none, so that the time of a step without any is known as it is now.
  uint32_t prompt_tokens(uint32_t generating, uint32_t room);
  // What a step took.
  void took(double seconds, uint32_t generating, uint32_t prompt);

 private:
  PaceOptions options_;
  double generate_seconds_ = 0;  // a step that only generates
  double beside_ = 0;            // a prompt token more, in a step in which others generate
  double alone_ = 0;             // a prompt token where nobody does
  uint32_t since_ = 0;           // steps since the last that only generated
};

}  // namespace strata
