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
  kv.settle(copies);
  // The original is alone again: no copy.
  EXPECT_TRUE(kv.extend(a, 1).empty());
  kv.remove(a);
  kv.remove(b);
  EXPECT_EQ(kv.free_blocks(), 8u);
}

TEST(PagedKv, a_copy_that_was_not_made_is_undone) {
  PagedKv kv(8, 32);
  const SequenceId a = kv.create();
  kv.extend(a, 40);
  const SequenceId b = kv.fork(a);
  const std::vector<uint32_t> before = kv.blocks(b);
  const auto copies = kv.extend(b, 60);
  // Whoever shared the original may go: it is kept.
  kv.remove(a);
  kv.truncate(b, 40);
  kv.undo(copies);
  EXPECT_EQ(kv.blocks(b), before);
  EXPECT_EQ(kv.free_blocks(), 6u);
  // The sequence itself may be gone.
  const SequenceId c = kv.fork(b);
  const auto more = kv.extend(c, 1);
  kv.remove(c);
  kv.undo(more);
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
      std::vector<PagedKv::BlockCopy> copies;
      try {
        copies = kv.extend(id, n);
      } catch (const Error&) {
        continue;
      }
      if (random() % 5 == 0) {  // it came to nothing
        kv.truncate(id, static_cast<uint32_t>(it->second.size()));
        kv.undo(copies);
        continue;
      }
      for (const auto& copy : copies) memory[copy.to] = memory[copy.from];
      kv.settle(copies);
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

// Prompts from few words begin alike all the time; what is found must be what was stored.
TEST(PagedKv, kept_blocks_hold_what_they_say) {
  constexpr uint32_t k_blocks = 24, k_block = 4;
  std::mt19937 random(7);
  PagedKv kv(k_blocks, k_block);
  std::vector<std::vector<int32_t>> memory(k_blocks, std::vector<int32_t>(k_block, -1));
  std::map<SequenceId, std::vector<int32_t>> truth;
  uint64_t found = 0;
  for (int step = 0; step < 60000; ++step) {
    const uint32_t what = random() % 8;
    if (truth.empty() || (what == 0 && truth.size() < 8)) {
      std::vector<int32_t> prompt(random() % 24);
      for (int32_t& token : prompt) token = static_cast<int32_t>(random() % 2);
      const SequenceId id = kv.create();
      const uint32_t expected = kv.find(prompt);
      const uint32_t n = kv.adopt(id, prompt);
      ASSERT_EQ(n, expected);
      ASSERT_LE(n, prompt.size());
      ASSERT_EQ(kv.length(id), n);
      found += n;
      prompt.resize(n);
      truth[id] = prompt;
    }
    auto it = truth.begin();
    std::advance(it, random() % truth.size());
    const SequenceId id = it->first;
    std::vector<int32_t>& tokens = it->second;
    if (what == 1 && truth.size() < 8) {
      truth[kv.fork(id)] = std::vector<int32_t>(tokens);
    } else if (what == 2) {
      kv.remove(id);
      truth.erase(it);
    } else if (what == 3) {
      tokens.resize(random() % (tokens.size() + 1));
      kv.truncate(id, static_cast<uint32_t>(tokens.size()));
    } else if (what == 4) {
      kv.keep(id, tokens);
    } else if (what == 5 && random() % 50 == 0) {
      kv.forget();
      ASSERT_EQ(kv.kept_blocks(), 0u);
    } else {
      const uint32_t n = 1 + random() % 6;
      try {
        const auto copies = kv.extend(id, n);
        for (const auto& copy : copies) memory[copy.to] = memory[copy.from];
        kv.settle(copies);
      } catch (const Error&) {
        continue;
      }
      for (uint32_t i = 0; i < n; ++i) {
        const auto value = static_cast<int32_t>(random() % 2);
        memory[kv.blocks(id)[tokens.size() / k_block]][tokens.size() % k_block] = value;
        tokens.push_back(value);
      }
    }
    std::set<uint32_t> used;
    for (const auto& [sequence, values] : truth) {
      ASSERT_EQ(kv.length(sequence), values.size());
      used.insert(kv.blocks(sequence).begin(), kv.blocks(sequence).end());
      for (uint32_t p = 0; p < values.size(); ++p) {
        ASSERT_EQ(memory[kv.blocks(sequence)[p / k_block]][p % k_block], values[p]) << step;
      }
    }
    ASSERT_EQ(used.size() + kv.free_blocks(), k_blocks);
  }
  EXPECT_GT(found, 1000u);  // it does find some
}

TEST(PagedKv, scopes_do_not_see_each_others_blocks) {
  PagedKv kv(8, 2);
  const std::vector<int32_t> text{1, 2, 3, 4};
  for (const uint32_t scope : {0u, 1u}) {
    EXPECT_EQ(kv.find(text, scope), 0u);
    const SequenceId a = kv.create(scope);
    kv.extend(a, 4);
    kv.keep(a, text);
    kv.remove(a);
    EXPECT_EQ(kv.find(text, scope), 4u);
  }
  EXPECT_EQ(kv.kept_blocks(), 4u);  // each has its own
  EXPECT_EQ(kv.find(text, 2), 0u);
  const SequenceId b = kv.create(2);
  EXPECT_EQ(kv.adopt(b, text), 0u);
  const SequenceId c = kv.create(1), d = kv.create();
  EXPECT_EQ(kv.adopt(c, text), 4u);
  EXPECT_EQ(kv.adopt(d, text), 4u);
  EXPECT_NE(kv.blocks(c), kv.blocks(d));
}

TEST(PagedKv, kept_blocks_go_when_the_pool_needs_them) {
  PagedKv kv(4, 2);
  const std::vector<int32_t> text{1, 2, 3, 4};
  const SequenceId a = kv.create();
  kv.extend(a, 4);
  kv.keep(a, text);
  kv.remove(a);
  EXPECT_EQ(kv.free_blocks(), 4u);
  EXPECT_EQ(kv.find(text), 4u);
  const SequenceId b = kv.create();
  kv.extend(b, 6);  // two empty ones, and the end of the old text
  EXPECT_EQ(kv.find(text), 2u);
  kv.extend(b, 2);
  EXPECT_EQ(kv.find(text), 0u);
}

}  // namespace
}  // namespace strata::cache
