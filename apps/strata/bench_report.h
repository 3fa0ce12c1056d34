// Results of strata bench and the tables that they are printed in.
//
// Threads: pure functions; the JSON form is one array, the others are streamed line by line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace strata::app {

struct BenchResult {
  std::string model;
  std::string type;  // mixture or element type of the weights
  uint64_t parameters = 0;
  uint64_t weight_bytes = 0;  // in the file's element types

  bool prefill = false;  // else decode
  uint64_t count = 0;    // tokens of the prompt, or decode steps
  uint64_t depth = 0;
  uint64_t sequences = 1;
  uint32_t threads = 0;
  std::string devices;
  std::string isa;
  std::string cache_type_k, cache_type_v;
  uint32_t n_batch = 0, n_ubatch = 0;

  std::vector<double> seconds;  // of each repetition
  // What each repetition reads and computes at least, and what the device can do.
  double bytes = 0, operations = 0;
  double peak_bytes_per_second = 0, peak_operations_per_second = 0;
  std::optional<double> joules;  // of all repetitions
  struct Use {
    std::string device;
    double busy_seconds = 0;  // of all repetitions
    double copy_seconds = 0;
    double seconds = 0;       // that they took
    uint64_t runs = 0;
  };
  std::vector<Use> use;  // by device

  std::string test() const;  // "pp512", "tg64"
  uint64_t tokens() const { return count * sequences; }
  double tokens_per_second() const;            // mean over the repetitions
  double tokens_per_second_deviation() const;  // sample standard deviation; 0 for one repetition
  // At the mean speed; nullopt where the peak is not known.
  std::optional<double> bandwidth_share() const;
  std::optional<double> compute_share() const;
  std::optional<double> joules_per_token() const;
};

// One line: how busy each device was, and which one holds the others up.
std::string use_text(const BenchResult& result);

Json to_json(const BenchResult& result);

std::string md_header();
std::string md_row(const BenchResult& result);
std::string csv_header();
std::string csv_row(const BenchResult& result);

}  // namespace strata::app
