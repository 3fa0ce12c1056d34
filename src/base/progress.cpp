#include "base/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "base/log.h"
#include "base/terminal.h"

namespace strata {
namespace {

constexpr int64_t k_first_draw_ms = 200;  // what is quicker needs no bar
constexpr int64_t k_redraw_ms = 100;
constexpr int k_widest_bar = 30;
constexpr int k_tail_room = 44;  // " 100% 1000.0 MiB/1000.0 GiB, 59 min 59 s left"

void put(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

std::string format_bytes(uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  const char* const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (value >= 1023.95 && unit + 1 < std::size(units)) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, units[unit]);
}

std::string format_seconds(double seconds) {
  if (!(seconds >= 0)) seconds = 0;
  if (seconds < 9.95) return fmt::format("{:.1f} s", seconds);
  if (seconds > 1e9) return "ages";
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

Progress::Progress(std::string stage, uint64_t total, Unit unit)
    : stage_(std::move(stage)),
      total_(total),
      unit_(unit),
      shown_(log::level() >= log::Level::info),
      redraws_(shown_ && terminal::is_terminal(terminal::Stream::error)),
      next_draw_ms_(k_first_draw_ms) {}

Progress::~Progress() {
  const std::lock_guard lock(mutex_);
  if (!ended_) erase();
}

double Progress::elapsed() const {
  return std::chrono::duration<double>(Clock::now() - start_).count();
}

void Progress::update(uint64_t done) {
  done_ = done;
  if (!redraws_) return;
  const double seconds = elapsed();
  const auto now = static_cast<int64_t>(seconds * 1000);
  int64_t due = next_draw_ms_.load();
  // Of many threads one draws; the others go on.
  if (now < due || !next_draw_ms_.compare_exchange_strong(due, now + k_redraw_ms)) return;
  const std::string line = bar(done, seconds, terminal::width(terminal::Stream::error));
  const std::lock_guard lock(mutex_);
  if (ended_) return;
  drawn_ = true;
  put("\r" + line + "\033[K");
}

void Progress::update(uint64_t done, std::string note) {
  {
    const std::lock_guard lock(mutex_);
    note_ = std::move(note);
  }
  update(done);
}

void Progress::done() {
  const std::lock_guard lock(mutex_);
  if (ended_) return;
  ended_ = true;
  erase();
  if (shown_) log::info("{}", summary(done_.load(), elapsed()));
}

std::string Progress::amount(uint64_t done) const {
  return unit_ == Unit::bytes ? format_bytes(done) : fmt::format("{}", done);
}

std::string Progress::bar(uint64_t done, double seconds, int columns) const {
  std::string tail;
  if (total_ == 0) {
    tail = " " + amount(done);
  } else {
    done = std::min(done, total_);
    const double part = static_cast<double>(done) / static_cast<double>(total_);
    tail = fmt::format(" {:3.0f}% {}/{}", std::floor(part * 100), amount(done), amount(total_));
    if (seconds > 1 && done > 0 && done < total_) {
      tail += fmt::format(", {} left", format_seconds(seconds / part - seconds));
    }
  }
  {
    const std::lock_guard lock(mutex_);
    if (!note_.empty()) tail += ", " + note_;
  }

  std::string line = stage_ + " ";
  // The bar keeps its length while the text behind it grows and shrinks. One column stays free:
  // some terminals wrap a line that fills the last one.
  const int tail_room = std::max(terminal::display_width(tail), k_tail_room);
  const int room = columns - 1 - terminal::display_width(line) - tail_room - 2;
  if (total_ > 0 && room >= 10) {
    const int width = std::min(room, k_widest_bar);
    const auto full = static_cast<int>(static_cast<double>(width) * static_cast<double>(done) /
                                       static_cast<double>(total_));
    line += "[" + std::string(static_cast<size_t>(full), '#') +
            std::string(static_cast<size_t>(width - full), '.') + "]";
  }
  line += tail;
  if (terminal::display_width(line) >= columns) {
    line.resize(std::min(line.size(), static_cast<size_t>(std::max(columns - 1, 0))));
  }
  return line;
}

std::string Progress::summary(uint64_t done, double seconds) const {
  std::string line = fmt::format("{}: {} in {}", stage_, amount(done), format_seconds(seconds));
  if (unit_ == Unit::bytes && seconds >= 0.05) {
    const double speed = static_cast<double>(done) / seconds;
    line += fmt::format(" ({}/s)", format_bytes(static_cast<uint64_t>(speed)));
  }
  return line;
}

void Progress::erase() {
  if (drawn_) put("\r\033[K");
  drawn_ = false;
}

}  // namespace strata
