#include "base/progress.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/log.h"
#include "base/terminal.h"

namespace strata {
namespace {

constexpr uint64_t k_gib = uint64_t{1} << 30;

TEST(FormatBytes, UsesBinaryUnits) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.0 KiB");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes((1 << 20) - 1), "1.0 MiB");  // never "1024.0 KiB"
  EXPECT_EQ(format_bytes(12 * k_gib), "12.0 GiB");
  EXPECT_EQ(format_bytes(UINT64_MAX), "16.0 EiB");
}

TEST(FormatSeconds, Scales) {
  EXPECT_EQ(format_seconds(0.04), "0.0 s");
  EXPECT_EQ(format_seconds(1.26), "1.3 s");
  EXPECT_EQ(format_seconds(9.97), "10 s");
  EXPECT_EQ(format_seconds(59.6), "1 min 0 s");
  EXPECT_EQ(format_seconds(65), "1 min 5 s");
  EXPECT_EQ(format_seconds(2 * 3600 + 3 * 60 + 4), "2 h 3 min");
  EXPECT_EQ(format_seconds(-1), "0.0 s");
  EXPECT_EQ(format_seconds(1e300), "ages");
}

TEST(Progress, BarShowsPartAmountAndTimeLeft) {
  const Progress progress("loading weights", 4 * k_gib);
  EXPECT_EQ(progress.bar(k_gib, 5.0, 100),
            "loading weights [#######.......................]  25% 1.0 GiB/4.0 GiB, 15 s left");
  EXPECT_EQ(progress.bar(0, 0.5, 100),
            "loading weights [..............................]   0% 0 B/4.0 GiB");
  EXPECT_EQ(progress.bar(4 * k_gib, 20.0, 100),
            "loading weights [##############################] 100% 4.0 GiB/4.0 GiB");
  EXPECT_EQ(progress.bar(9 * k_gib, 20.0, 100), progress.bar(4 * k_gib, 20.0, 100));
}

TEST(Progress, BarNeverFillsTheLine) {
  Progress progress("perplexity", 1000, Progress::Unit::items);
  for (int columns = 1; columns < 120; ++columns) {
    EXPECT_LT(terminal::display_width(progress.bar(333, 60.0, columns)), std::max(columns, 1))
        << columns;
  }
  EXPECT_EQ(progress.bar(333, 60, 40), "perplexity   33% 333/1000, 2 min 0 s le");
}

TEST(Progress, UnknownTotal) {
  const Progress progress("reading", 0);
  EXPECT_EQ(progress.bar(2048, 1.0, 80), "reading  2.0 KiB");
}

TEST(Progress, NoteStandsAtTheEnd) {
  Progress progress("perplexity", 10, Progress::Unit::items);
  progress.update(5, "perplexity 5.91");
  const std::string bar = progress.bar(5, 0.5, 100);
  EXPECT_TRUE(bar.ends_with(" 50% 5/10, perplexity 5.91")) << bar;
}

TEST(Progress, ClosingLine) {
  const Progress bytes("loading weights", k_gib);
  EXPECT_EQ(bytes.summary(k_gib, 0.5), "loading weights: 1.0 GiB in 0.5 s (2.0 GiB/s)");
  const Progress items("perplexity", 20, Progress::Unit::items);
  EXPECT_EQ(items.summary(20, 61), "perplexity: 20 in 1 min 1 s");
}

TEST(Progress, OneLinePerStageWhenThereIsNoTerminal) {
  const log::Level before = log::level();
  std::vector<std::string> lines;
  log::set_sink([&](log::Level, std::string_view line) { lines.emplace_back(line); });
  log::set_level(log::Level::info);
  {
    Progress progress("packing", 100, Progress::Unit::items);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (uint64_t n = 1; n <= 100; ++n) progress.update(n);
      });
    }
    for (std::thread& thread : threads) thread.join();
    progress.done();
    progress.done();
  }
  { const Progress unfinished("broken", 100); }
  log::set_level(log::Level::warning);
  {
    Progress quiet("quiet", 100);
    quiet.done();
  }
  log::set_sink({});
  log::set_level(before);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_TRUE(lines[0].starts_with("packing: 100 in ")) << lines[0];
}

}  // namespace
}  // namespace strata
