// The pace against machines whose steps take a known time.
#include "engine/step_pace.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace strata {
namespace {

// 20 ms for the weights, then per token of either kind.
struct Machine {
  double weights = 0.020, token = 0.001, prompt_token = 0.002;
  double step(uint32_t generating, uint32_t prompt) const {
    return weights + token * generating + prompt_token * prompt;
  }
};

// Longest step beside others once the pace knows the machine, and prompt tokens per second.
struct Seen {
  double stretch = 0;
  double prompt_rate = 0;
};

Seen run(StepPace& pace, const Machine& machine, uint32_t generating, int steps = 400) {
  for (int i = 0; i < 10; ++i) pace.took(machine.step(generating, 0), generating, 0);
  Seen seen;
  double seconds = 0, tokens = 0;
  for (int i = 0; i < steps; ++i) {
    const uint32_t n = pace.prompt_tokens(generating, 512 - generating);
    const double t = machine.step(generating, n);
    pace.took(t, generating, n);
    if (i < steps / 4) continue;
    seen.stretch = std::max(seen.stretch, t / machine.step(generating, 0));
    seconds += t;
    tokens += n;
  }
  seen.prompt_rate = tokens / seconds;
  return seen;
}

TEST(StepPace, steps_beside_others_stay_within_the_stretch) {
  for (const uint32_t generating : {1u, 4u, 16u}) {
    StepPace pace({});
    const Machine machine;
    const Seen seen = run(pace, machine, generating);
    EXPECT_LE(seen.stretch, 1.75) << generating;
    // And most of what is allowed is used: 0.7 of a step's time in 1.7 of it.
    EXPECT_GE(seen.prompt_rate, 0.7 / 1.7 / machine.prompt_token * 0.85) << generating;
  }
}

TEST(StepPace, follows_when_more_come_and_the_machine_slows_down) {
  StepPace pace({});
  run(pace, {}, 1);
  // No step without a prompt comes in between, but the pace makes one for itself.
  const Machine slow{.weights = 0.100, .token = 0.004, .prompt_token = 0.009};
  double worst = 0;
  for (int i = 0; i < 600; ++i) {
    const uint32_t n = pace.prompt_tokens(16, 496);
    pace.took(slow.step(16, n), 16, n);
    if (i > 300) worst = std::max(worst, slow.step(16, n) / slow.step(16, 0));
  }
  EXPECT_LE(worst, 1.75);
  EXPECT_GE(worst, 1.5);
}

TEST(StepPace, a_prompt_alone_fills_the_micro_batch_unless_it_takes_too_long) {
  StepPace quick({});
  EXPECT_LE(quick.prompt_tokens(0, 512), 512u);
  quick.took(0.1, 0, 128);
  EXPECT_EQ(quick.prompt_tokens(0, 512), 512u);
  EXPECT_EQ(quick.prompt_tokens(0, 100), 100u);
  StepPace slow({});
  slow.took(128 * 0.02, 0, 128);  // 50 tokens a second
  EXPECT_EQ(slow.prompt_tokens(0, 512), 200u);
  StepPace slower({});
  slower.took(128.0, 0, 128);
  EXPECT_EQ(slower.prompt_tokens(0, 512), 64u);
}

TEST(StepPace, a_prompt_is_read_on_however_slow) {
  StepPace pace({});
  const Machine machine{.weights = 0.001, .token = 0.0001, .prompt_token = 1};
  for (int i = 0; i < 5; ++i) pace.took(machine.step(1, 0), 1, 0);
  uint64_t tokens = 0;
  for (int i = 0; i < 100; ++i) {
    const uint32_t n = pace.prompt_tokens(1, 512);
    pace.took(machine.step(1, n), 1, n);
    tokens += n;
  }
  EXPECT_GE(tokens, 90u);
}

}  // namespace
}  // namespace strata
