// Plans: what every device will hold and run, in bytes, decided before anything is allocated.
//
// Purpose: from a model's description, the devices' descriptions and a request to a complete
// placement. The runtime allocates exactly this.
// Not for: touching a device. Pure functions of their arguments.
// Errors: ErrorCode::usage for a request that makes no sense; ErrorCode::does_not_fit with the
// shortfall and the changes that would fit.
// Threads: pure functions, plain data.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "device/device.h"
#include "model/lower.h"
#include "model/spec.h"

namespace strata::plan {

// A device as the planner sees it: what it is, and how many bytes it keeps for things.
struct DeviceDescription {
  device::DeviceInfo info;
  std::function<uint64_t(const device::WeightSpec&)> weight_bytes;
  // Of a program with so many tokens and outputs.
  std::function<uint64_t(const device::Program&, uint32_t, uint32_t)> scratch_bytes;
};
DeviceDescription describe(const device::Device& device);

struct Request {
  std::optional<uint64_t> n_context;  // tokens in the cache, all sequences; absent: what fits
  uint32_t n_sequences = 1;
  uint32_t n_batch = 2048;  // tokens handed to the model at once
  uint32_t n_ubatch = 512;  // tokens computed at once
  ElementType type_k = ElementType::f16;
  ElementType type_v = ElementType::f16;
};

// Bytes on one device by purpose.
struct DeviceBytes {
  uint64_t weights = 0;
  uint64_t kv = 0;
  uint64_t activations = 0;  // the arena shared by the stage's and the head's programs
  uint64_t boundary = 0;     // the stage's output
  uint64_t logits = 0;
  uint64_t scratch = 0;
  uint64_t total() const { return weights + kv + activations + boundary + logits + scratch; }
};

struct Plan {
  std::string device;
  uint64_t n_context = 0;  // a multiple of kv_block_tokens
  uint32_t n_kv_blocks = 0;
  uint32_t kv_block_tokens = 0;
  uint32_t n_batch = 0;
  uint32_t n_ubatch = 0;     // as asked
  uint32_t max_tokens = 0;   // n_ubatch rounded up to k_row_granule
  uint32_t max_outputs = 0;  // rows of logits computed at once
  model::Lowered stage;
  model::Lowered head;
  DeviceBytes bytes;
};

Plan make(const model::ModelSpec& spec, const DeviceDescription& device, const Request& request);

}  // namespace strata::plan
