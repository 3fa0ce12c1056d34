// Every op of the table on every instruction set against the reference, and the promise that a
// row's result depends on nothing but that row.
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>

#include "device/op_case.h"
#include "device/program.h"

namespace strata::test {
namespace {

using namespace device;

struct Param {
  const OpCases* cases;
  cpu::Isa isa;

  friend void PrintTo(const Param& param, std::ostream* out) {
    *out << param.cases->name << " on " << cpu::name_of(param.isa);
  }
};

std::vector<Param> all_params() {
  std::vector<Param> out;
  for (const OpCases& cases : all_op_cases()) {
    for (const cpu::Isa isa : available_isas()) out.push_back({&cases, isa});
  }
  return out;
}

class OpTest : public testing::TestWithParam<Param> {};

TEST(OpTable, EveryOpHasCasesOfItsOwnType) {
  for (const OpCases& cases : all_op_cases()) {
    const auto made = cases.make();
    EXPECT_FALSE(made.empty()) << cases.name;
    bool some_empty = false;
    for (const OpCase& c : made) {
      EXPECT_EQ(name_of(c.op()), cases.name);
      some_empty = some_empty || std::all_of(c.values.begin(), c.values.end(),
                                             [](const auto& v) { return v.empty(); });
    }
    EXPECT_TRUE(some_empty || cases.name == "embed" || cases.name == "gather")
        << cases.name << " lacks a case without rows";
  }
}

TEST_P(OpTest, AgreesWithTheReference) {
  for (const OpCase& c : GetParam().cases->make()) {
    const Outcome expected = run_reference(c);
    ASSERT_EQ(expected.overrun, "") << c.name;
    ASSERT_EQ(difference(c, expected, run_cpu(c, GetParam().isa)), "");
  }
}

TEST_P(OpTest, AnyNumberOfThreadsGivesTheSameBits) {
  for (const OpCase& c : GetParam().cases->make()) {
    const Outcome one = run_cpu(c, GetParam().isa, 1);
    for (const uint32_t n_ranks : {2u, 3u, 4u, 7u}) {
      ASSERT_EQ(one, run_cpu(c, GetParam().isa, n_ranks)) << c.name << ", ranks " << n_ranks;
    }
  }
}

// Rows of the outputs of `part` (rows `rows` of `c`) must be those of `whole`.
void expect_same_rows(const OpCase& c, const Outcome& whole, const std::vector<uint32_t>& rows,
                      cpu::Isa isa, uint32_t n_ranks) {
  const OpCase part_case = with_rows(c, rows);
  const Outcome part = run_cpu(part_case, isa, n_ranks);
  ASSERT_EQ(part.overrun, "") << c.name;
  for (const ValueId id : c.outputs) {
    const uint32_t width = c.program.values[id].width;
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto want = whole.values[id].begin() + static_cast<ptrdiff_t>(rows[i]) * width;
      const auto got = part.values[id].begin() + static_cast<ptrdiff_t>(i) * width;
      ASSERT_TRUE(std::equal(got, got + width, want))
          << c.name << ": row " << rows[i] << " of value " << id << " among " << rows.size();
    }
  }
}

TEST_P(OpTest, ARowDoesNotDependOnItsNeighbours) {
  Random random(77);
  for (const OpCase& c : GetParam().cases->make()) {
    if (c.outputs.empty()) continue;
    const uint32_t n_rows = c.rows(c.outputs[0]);
    if (n_rows < 2) continue;
    const Outcome whole = run_cpu(c, GetParam().isa);
    // Alone (some of them when there are many), in micro-batches, in another order.
    for (uint32_t row = 0; row < n_rows; row += 1 + n_rows / 24) {
      expect_same_rows(c, whole, {row}, GetParam().isa, 1);
    }
    for (const uint32_t size : {2u, 3u, 7u, 64u}) {
      for (uint32_t begin = 0; begin < n_rows && size < n_rows; begin += size) {
        std::vector<uint32_t> rows;
        for (uint32_t r = begin; r < std::min(begin + size, n_rows); ++r) rows.push_back(r);
        expect_same_rows(c, whole, rows, GetParam().isa, 1 + size % 2);
        if (n_rows > 100 && begin > 100) break;
      }
    }
    expect_same_rows(c, whole, random.permutation(n_rows), GetParam().isa, 2);
    if (testing::Test::HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, OpTest, testing::ValuesIn(all_params()), [](const auto& test) {
  return test.param.cases->name + "_" + std::string(cpu::name_of(test.param.isa));
});

// Where a block lies in the cache does not matter.
TEST_P(OpTest, PhysicalPlaceOfBlocksDoesNotMatter) {
  Random random(78);
  for (const OpCase& c : GetParam().cases->make()) {
    if (c.kv.empty() || c.outputs.empty()) continue;
    const uint64_t block_bytes = c.program.kv_layers[0].block_bytes();
    const auto n_blocks = static_cast<uint32_t>(c.kv[0].size() / block_bytes);
    const auto to = random.permutation(n_blocks);
    OpCase moved = c;
    for (uint32_t b = 0; b < n_blocks; ++b) {
      const auto from = c.kv[0].begin() + static_cast<ptrdiff_t>(b * block_bytes);
      std::copy(from, from + static_cast<ptrdiff_t>(block_bytes),
                moved.kv[0].begin() + static_cast<ptrdiff_t>(to[b] * block_bytes));
    }
    for (auto& table : moved.batch.block_tables) {
      for (uint32_t& block : table) block = to[block];
    }
    ASSERT_EQ(run_cpu(c, GetParam().isa).values, run_cpu(moved, GetParam().isa).values) << c.name;
  }
}

}  // namespace
}  // namespace strata::test
