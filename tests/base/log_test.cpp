#include "base/log.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace strata {
namespace {

class LogTest : public ::testing::Test {
 protected:
  void SetUp() override {
    log::set_sink([this](log::Level level, std::string_view line) {
      lines_.emplace_back(level, std::string(line));
    });
  }
  void TearDown() override {
    log::set_sink({});
    log::set_level(before_);
  }
  std::vector<std::pair<log::Level, std::string>> lines_;
  const log::Level before_ = log::level();
};

TEST_F(LogTest, DropsWhatIsBelowTheLevel) {
  log::set_level(log::Level::warning);
  log::error("e {}", 1);
  log::warning("w");
  log::info("i");
  log::debug("d");
  ASSERT_EQ(lines_.size(), 2u);
  EXPECT_EQ(lines_[0], std::make_pair(log::Level::error, std::string("e 1")));
  EXPECT_EQ(lines_[1].second, "w");
  log::set_level(log::Level::debug);
  log::info("i");
  log::debug("d");
  EXPECT_EQ(lines_.size(), 4u);
}

TEST_F(LogTest, ThreadsDoNotMixLines) {
  log::set_level(log::Level::info);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([i] {
      for (int j = 0; j < 100; ++j) log::info("{}", std::string(50, static_cast<char>('a' + i)));
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(lines_.size(), 400u);
  for (const auto& [level, line] : lines_) EXPECT_EQ(line, std::string(50, line[0]));
}

}  // namespace
}  // namespace strata
