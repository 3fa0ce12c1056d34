// Descriptions: a device as the planner sees it, whether it is here or only imagined.
//
// Purpose: how much memory a device has and how many bytes it keeps for things; how fast it is.
// From a device of this machine, or from words: "gpu:24GiB:936GB/s:71TFLOPS".
// Not for: measuring (calibrate.h), deciding (plan/).
// Errors: ErrorCode::usage naming the word that makes no sense and what would.
// Threads: plain data; the functions of a Description of a device must not outlive it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "device/device.h"

namespace strata::device {

// Speed of an op at its two ends: one row, where the bytes that are read take the time, and many,
// where the multiplications do.
struct Rate {
  double bytes_per_second = 0;       // at one row
  double operations_per_second = 0;  // at many rows; a multiplication and an addition count as two
};

// How fast a device carries out programs. All zero: not known.
struct Profile {
  std::map<ElementType, Rate> linear;   // by the weight's type; bytes as in the file
  Rate other_linear;                    // of types that are not listed
  Rate attention;                       // bytes of the cache; operations of q.k and p.v
  double seconds_per_op = 0;            // whatever its size
  double element_bytes_per_second = 0;  // of ops that only read and write activations
  double copy_bytes_per_second = 0;     // activations to another device
  double copy_seconds = 0;              // of a copy, whatever its size
  bool measured = false;                // else derived from what the maker says
  bool disturbed = false;               // others used the device meanwhile: not worth keeping

  bool known() const { return other_linear.bytes_per_second > 0; }
};

struct Description {
  DeviceInfo info;
  bool here = true;  // can be opened; else only planned for
  Profile profile;
  std::function<uint64_t(const WeightSpec&)> weight_bytes;
  // Of a program with so many tokens and outputs.
  std::function<uint64_t(const Program&, uint32_t, uint32_t)> activation_bytes;
  std::function<uint64_t(const Program&, uint32_t, uint32_t)> scratch_bytes;
};

// Of a device that is open; the profile is left empty.
Description describe(const Device& device);

// Whether the word describes a device (NAME:SIZE[:BANDWIDTH[:RATE]]) rather than naming one.
bool is_described(std::string_view word);

// "gpu:24GiB:936GB/s:71TFLOPS": a name, memory, read bandwidth, arithmetic of matrices in 8 or 16
// bits. What is left out is derived: rate from bandwidth, a slow bandwidth for "cpu". A name that
// does not end in a number gets `index` behind it: gpu0, gpu1; the kind is the name without it.
Description described_device(std::string_view word, uint32_t index);

}  // namespace strata::device
