// Figures for Prometheus: counters and histograms in its text form.
//
// Threads: safe.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "engine/scheduler.h"

namespace strata::server {

class Histogram {
 public:
  explicit Histogram(std::vector<double> bounds) : bounds_(std::move(bounds)) {
    counts_.resize(bounds_.size() + 1);
  }
  void add(double value);
  std::string text(const std::string& name, const std::string& help) const;

 private:
  std::vector<double> bounds_;
  mutable std::mutex mutex_;
  std::vector<uint64_t> counts_;  // the last: above every bound
  double sum_ = 0;
};

class Metrics {
 public:
  Metrics();
  Histogram first_token, between_tokens, whole, queued;  // seconds

  // Everything, with what the scheduler and the devices say.
  std::string text(const SchedulerState& state, const std::vector<MemoryUse>& memory,
                   double up_seconds) const;
};

}  // namespace strata::server
