#include "cache/paged_kv.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "base/error.h"

namespace strata::cache {
namespace {

TEST(PagedKv, takes_blocks_as_it_grows_and_gives_them_back) {
  PagedKv kv(4, 32);
  const SequenceId a = kv.create();
  EXPECT_TRUE(kv.extend(a, 32).empty());
  EXPECT_EQ(kv.blocks(a).size(), 1u);
  kv.extend(a, 1);
  EXPECT_EQ(kv.blocks(a).size(), 2u);
  EXPECT_EQ(kv.free_blocks(), 2u);
  kv.truncate(a, 32);
  EXPECT_EQ(kv.free_blocks(), 3u);
  kv.remove(a);
  EXPECT_EQ(kv.free_blocks(), 4u);
}

TEST(PagedKv, a_full_pool_changes_nothing) {
  PagedKv kv(2, 32);
  const SequenceId a = kv.create();
  kv.extend(a, 40);
  const auto blocks = kv.blocks(a);
  try {
    kv.extend(a, 30);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::does_not_fit);
  }
  EXPECT_EQ(kv.length(a), 40u);
  EXPECT_EQ(kv.blocks(a), blocks);
  EXPECT_NO_THROW(kv.extend(a, 24));
}

TEST(PagedKv, a_fork_shares_until_one_writes) {
  PagedKv kv(8, 32);
  const SequenceId a = kv.create();
  kv.extend(a, 40);
  const SequenceId b = kv.fork(a);
  EXPECT_EQ(kv.free_blocks(), 6u);
  const auto copies = kv.extend(b, 1);
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(copies[0].from, kv.blocks(a)[1]);
  EXPECT_EQ(copies[0].to, kv.blocks(b)[1]);
  EXPECT_EQ(kv.blocks(a)[0], kv.blocks(b)[0]);
  // The original is alone again: no copy.
  EXPECT_TRUE(kv.extend(a, 1).empty());
  kv.remove(a);
  kv.remove(b);
  EXPECT_EQ(kv.free_blocks(), 8u);
}

TEST(PagedKv, a_fork_at_a_block_border_copies_nothing) {
  PagedKv kv(8, 32);
  const SequenceId a = kv.create();
  kv.extend(a, 64);
  const SequenceId b = kv.fork(a);
  EXPECT_TRUE(kv.extend(b, 5).empty());
  EXPECT_EQ(kv.blocks(b).size(), 3u);
}

// Random work against a plain model: what a sequence wrote at a position is what it reads there.
TEST(PagedKv, random_work_keeps_every_past) {
  std::mt19937 random(3);
  PagedKv kv(24, 4);
  std::map<SequenceId, std::vector<uint32_t>> truth;  // values by position
  std::vector<std::vector<uint32_t>> memory(24, std::vector<uint32_t>(4, 0));
  uint32_t next = 1;
  for (int step = 0; step < 20000; ++step) {
    const uint32_t what = random() % 10;
    if (truth.empty() || (what == 0 && truth.size() < 8)) {
      truth[kv.create()] = {};
      continue;
    }
    auto it = truth.begin();
    std::advance(it, random() % truth.size());
    const SequenceId id = it->first;
    if (what == 1 && truth.size() < 8) {
      truth[kv.fork(id)] = it->second;
    } else if (what == 2) {
      kv.remove(id);
      truth.erase(it);
    } else if (what == 3) {
      const uint32_t length = random() % (static_cast<uint32_t>(it->second.size()) + 1);
      kv.truncate(id, length);
      it->second.resize(length);
    } else {
      const uint32_t n = 1 + random() % 6;
      try {
        for (const auto& copy : kv.extend(id, n)) memory[copy.to] = memory[copy.from];
      } catch (const Error&) {
        continue;
      }
      for (uint32_t i = 0; i < n; ++i) {
        const uint32_t position = static_cast<uint32_t>(it->second.size());
        memory[kv.blocks(id)[position / 4]][position % 4] = next;
        it->second.push_back(next++);
      }
    }
    std::set<uint32_t> used;
    for (const auto& [sequence, values] : truth) {
      ASSERT_EQ(kv.length(sequence), values.size());
      used.insert(kv.blocks(sequence).begin(), kv.blocks(sequence).end());
      for (uint32_t p = 0; p < values.size(); ++p) {
        ASSERT_EQ(memory[kv.blocks(sequence)[p / 4]][p % 4], values[p]);
      }
    }
    ASSERT_EQ(used.size() + kv.free_blocks(), 24u);
  }
}

}  // namespace
}  // namespace strata::cache
