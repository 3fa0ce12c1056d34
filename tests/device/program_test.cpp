// Arena planning: values that live together never overlap, and the size is as promised.
#include "device/program.h"

#include <gtest/gtest.h>

#include <random>

#include "base/error.h"

namespace strata::device {
namespace {

uint32_t add_value(Program& program, uint32_t width, Rows rows = Rows::tokens) {
  program.values.push_back({"v" + std::to_string(program.values.size()), width, rows});
  return static_cast<uint32_t>(program.values.size() - 1);
}

TEST(ArenaPlan, chain_reuses_two_buffers) {
  // embed -> a; b = a + a; c = b + b; d = c + c: at any time two values live.
  Program program;
  program.weights.push_back({"table", ElementType::f32, {8, 4, 1}});
  uint32_t last = add_value(program, 8);
  program.ops.push_back(Embed{0, last});
  for (int i = 0; i < 3; ++i) {
    const uint32_t next = add_value(program, 8);
    program.ops.push_back(Add{last, last, next});
    last = next;
  }
  const ArenaPlan plan = plan_arena(program);
  EXPECT_EQ(plan.bytes_per_token, 2u * 8 * 4);
  EXPECT_EQ(plan.bytes(16, 0), 16u * 64);
}

TEST(ArenaPlan, output_values_lie_behind_token_values) {
  Program program;
  program.weights.push_back({"table", ElementType::f32, {8, 4, 1}});
  const uint32_t a = add_value(program, 8);
  const uint32_t b = add_value(program, 8, Rows::outputs);
  program.ops.push_back(Embed{0, a});
  program.ops.push_back(Gather{a, b});
  const ArenaPlan plan = plan_arena(program);
  EXPECT_EQ(plan.slots[b].per_token, plan.bytes_per_token);
  EXPECT_EQ(plan.bytes(32, 16), 32u * 32 + 16u * 32);
}

TEST(ArenaPlan, a_value_read_before_it_is_written_is_refused) {
  Program program;
  const uint32_t a = add_value(program, 8);
  const uint32_t b = add_value(program, 8);
  program.ops.push_back(Add{a, a, b});
  EXPECT_THROW(plan_arena(program), Error);
}

TEST(ArenaPlan, ids_out_of_range_are_refused) {
  Program program;
  const uint32_t a = add_value(program, 8);
  program.ops.push_back(Embed{3, a});
  EXPECT_THROW(plan_arena(program), Error);
  program.ops = {Add{7, 7, a}};
  EXPECT_THROW(plan_arena(program), Error);
}

// Property over random programs: two values whose lives touch do not share bytes.
TEST(ArenaPlan, random_programs_never_overlap) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    Program program;
    program.weights.push_back({"table", ElementType::f32, {64, 4, 1}});
    struct Life {
      size_t first, last;
    };
    std::vector<Life> lives;
    const uint32_t first = add_value(program, 4 * (1 + random() % 16));
    program.ops.push_back(Embed{0, first});
    lives.push_back({0, 0});
    for (size_t at = 1; at < 30; ++at) {
      const uint32_t a = random() % static_cast<uint32_t>(program.values.size());
      const uint32_t b = random() % static_cast<uint32_t>(program.values.size());
      const uint32_t out = add_value(program, 4 * (1 + random() % 16));
      program.ops.push_back(Add{a, b, out});
      lives[a].last = at;
      lives[b].last = at;
      lives.push_back({at, at});
    }
    const ArenaPlan plan = plan_arena(program);
    for (uint32_t i = 0; i < program.values.size(); ++i) {
      const uint64_t i_begin = plan.slots[i].per_token;
      const uint64_t i_end = i_begin + program.values[i].width * 4;
      EXPECT_LE(i_end, plan.bytes_per_token);
      for (uint32_t j = 0; j < i; ++j) {
        const bool together = lives[i].first <= lives[j].last && lives[j].first <= lives[i].last;
        const uint64_t j_begin = plan.slots[j].per_token;
        const uint64_t j_end = j_begin + program.values[j].width * 4;
        EXPECT_TRUE(!together || i_end <= j_begin || j_end <= i_begin) << i << " and " << j;
      }
    }
  }
}

}  // namespace
}  // namespace strata::device
