#include "base/suggest.h"

#include <gtest/gtest.h>

#include <vector>

namespace strata {
namespace {

TEST(Suggest, EditDistance) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("ab", "ba"), 1u);  // neighbours swapped
  EXPECT_EQ(edit_distance("rnu", "run"), 1u);
  EXPECT_EQ(edit_distance("flaw", "lawn"), 2u);
}

TEST(Suggest, NearestName) {
  const std::vector<std::string> names{"--temp", "--top-k", "--top-p", "--ctx-size", "--seed"};
  EXPECT_EQ(nearest_name("--tmp", names), "--temp");
  EXPECT_EQ(nearest_name("--ctx-szie", names), "--ctx-size");
  EXPECT_EQ(nearest_name("--tempr", names), "--temp");
  EXPECT_EQ(nearest_name("--zzzzzzzz", names), "");
  EXPECT_EQ(nearest_name(std::string(100000, 'x'), names), "");  // no quadratic surprise
  EXPECT_EQ(nearest_name("x", {}), "");
}

TEST(Suggest, JoinNames) {
  EXPECT_EQ(join_names({}), "");
  EXPECT_EQ(join_names(std::vector<std::string>{"a"}), "a");
  EXPECT_EQ(join_names(std::vector<std::string>{"a", "b"}), "a and b");
  EXPECT_EQ(join_names(std::vector<std::string>{"a", "b", "c"}), "a, b and c");
}

}  // namespace
}  // namespace strata
