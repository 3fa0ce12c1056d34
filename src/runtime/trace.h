// What the devices did and when: for --verbose, for tables after a benchmark, and as a trace that
// Perfetto and Chrome show (chrome://tracing), one row per device and lane.
//
// Ownership: the runtime adds to it what a step's runs report; it belongs to whoever made it.
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace strata::runtime {

// One run of a program on a device.
struct TraceRun {
  uint32_t device = 0;  // index into the plan's devices
  uint32_t lane = 0;
  const char* what = "";  // "stage", "head"; static
  uint32_t first_layer = 0, last_layer = 0;
  uint32_t tokens = 0;
  int64_t begin = 0, end = 0;  // nanoseconds of the steady clock
};

class Trace {
 public:
  explicit Trace(std::vector<std::string> devices) : devices_(std::move(devices)) {}
  void add(const TraceRun& run) { runs_.push_back(run); }
  const std::vector<TraceRun>& runs() const { return runs_; }
  // Chrome's trace event format, times in microseconds from the first run.
  std::string json() const;
  // ErrorCode::io when the file cannot be written.
  void write(const std::string& path) const;

 private:
  std::vector<std::string> devices_;
  std::vector<TraceRun> runs_;
};

}  // namespace strata::runtime
