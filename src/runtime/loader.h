// Loading: from the tensors of a file to the weights that the plan puts on each device.
//
// Purpose: reads every tensor once, in pieces, and hands each device its part: the whole, or the
// rows, columns or experts of its shard. Devices store their parts at the same time.
// Errors: ErrorCode::bad_file naming the tensor; ErrorCode::io naming the file when it becomes
// shorter meanwhile, mapped or not; a device that fails is named; whatever `progress` throws, to
// cancel.
// Threads: one loading at a time; starts threads of its own where devices share no tensor.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "device/device.h"
#include "gguf/file.h"
#include "model/shard.h"
#include "model/spec.h"

namespace strata::runtime {

struct LoadOptions {
  // Bytes read so far of all; may throw to cancel.
  std::function<void(uint64_t done, uint64_t total)> progress;
  bool mmap = true;  // else files are read piece by piece
};

// What goes to one device: parts of weights and where they go.
struct DeviceLoad {
  std::string device;  // its name, for messages
  device::Queue* queue = nullptr;
  std::vector<model::WeightPart> parts;
  std::vector<device::BufferRef> to;
};

void load_weights(const gguf::File& file, const model::ModelSpec& spec,
                  const std::vector<DeviceLoad>& loads, const LoadOptions& options);

}  // namespace strata::runtime
