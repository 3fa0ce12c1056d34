// Figures for Prometheus in its text form: counters, gauges and histograms, all with the label
// model_name. Names are llama-server's and vLLM's after "strata_".
//
// Threads: safe.
#pragma once

#include <cstdint>
#include <deque>
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
  // `labels`: as they stand between the braces.
  std::string text(const std::string& name, const std::string& help,
                   const std::string& labels) const;

 private:
  std::vector<double> bounds_;
  mutable std::mutex mutex_;
  std::vector<uint64_t> counts_;  // the last: above every bound
  double sum_ = 0;
};

// The share of the last minute in which devices were busy, whoever asks how often.
class BusyShare {
 public:
  // By device, from what each was busy since the start, which was `at` seconds ago.
  std::vector<double> share(double at, const std::vector<double>& busy_seconds);

 private:
  struct Look {
    double at = 0;
    std::vector<double> busy;
  };
  std::mutex mutex_;
  std::deque<Look> looks_;
};

class Metrics {
 public:
  Metrics();
  Histogram first_token, between_tokens, whole, queued;  // seconds

  // Everything, with what the scheduler and the devices say.
  std::string text(const std::string& model, const SchedulerState& state,
                   const std::vector<MemoryUse>& memory, double up_seconds);

 private:
  BusyShare busy_;
};

}  // namespace strata::server
