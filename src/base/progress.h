// Progress on standard error: a bar that redraws itself on a terminal, one line per stage
// elsewhere.
//
// Purpose: the one way in which long work shows how far it is.
// Not for: results, or logs (base/log.h). A log line written meanwhile lands on the line of
// the bar, which is drawn anew below it.
// Threads: update() may be called from any thread; the rest from the one that owns the
// object.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

namespace strata {

// "17 B", "1.5 KiB", "3.2 MiB", "12.0 GiB".
std::string format_bytes(uint64_t bytes);
// "0.8 s", "1 min 5 s", "2 h 3 min".
std::string format_seconds(double seconds);

class Progress {
 public:
  enum class Unit { bytes, items };

  // `stage` is what is being done: "loading weights". A total of 0 is not known. Nothing is shown
  // when the log level is below info.
  Progress(std::string stage, uint64_t total, Unit unit = Unit::bytes);
  // A stage that done() did not end (an error did): the bar is removed, nothing is said.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // So much is done now. Cheap: it draws at most ten times a second.
  void update(uint64_t done);
  // As update, with a text at the end of the bar ("perplexity 5.91").
  void update(uint64_t done, std::string note);
  // Ends the stage: the bar gives way to "loading weights: 3.2 GiB in 1.4 s (2.3 GiB/s)".
  void done();

  // What is drawn in `columns` columns after `seconds`, and the closing line; for tests.
  std::string bar(uint64_t done, double seconds, int columns) const;
  std::string summary(uint64_t done, double seconds) const;

 private:
  using Clock = std::chrono::steady_clock;
  double elapsed() const;
  std::string amount(uint64_t done) const;
  void erase();

  const std::string stage_;
  const uint64_t total_;
  const Unit unit_;
  const bool shown_;
  const bool redraws_;
  const Clock::time_point start_ = Clock::now();
  std::atomic<uint64_t> done_{0};
  std::atomic<int64_t> next_draw_ms_;
  mutable std::mutex mutex_;  // what follows, and drawing
  std::string note_;
  bool drawn_ = false;
  bool ended_ = false;
};

}  // namespace strata
