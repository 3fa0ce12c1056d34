// The device contract: what every kind of device offers, on one page.
//
// A device is a set of compute units with one memory and a budget. Work is asynchronous for every
// device, the CPU too: it goes to a queue, which carries it out in order; events order queues
// among each other.
// Errors: what is wrong with a call throws at once; what fails while a queue works is kept and
// thrown by the next synchronize() of that queue, naming the device.
// Memory: every byte comes from allocate(), which refuses what the budget does not hold
// (ErrorCode::does_not_fit). Nothing else is allocated during a run.
// Ownership: arenas, queues and executables must not outlive their device.
// Threads: a Device may be used from many threads; a Queue, an Executable and an Arena from one at
// a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/batch.h"
#include "device/host_group.h"
#include "device/program.h"

namespace strata::device {

struct DeviceInfo {
  std::string name;           // "cpu", "cpu:0-3", "vulkan0": unique, as on the command line
  std::string kind;           // "cpu", "vulkan"
  std::string description;    // processor or card, instruction set
  std::string isa;            // instruction set in use, or empty
  uint32_t units = 0;         // cores used
  uint64_t memory_bytes = 0;  // what the device has in all
  uint64_t free_bytes = 0;    // what the system has free of it now
  uint64_t budget_bytes = 0;  // what may be allocated
  uint64_t most_bytes = 0;    // what a budget may be raised to
};

// Rows of a weight, counted through all its matrices.
struct RowRange {
  uint64_t first = 0;
  uint64_t count = 0;
};

class Device;

class Arena {
 public:
  virtual ~Arena() = default;
  virtual uint64_t size() const = 0;
  // Base address when the device's memory is this process's memory, else nullptr.
  virtual std::byte* host() = 0;
};

// A range of an arena.
struct BufferRef {
  Arena* arena = nullptr;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

class Event {
 public:
  virtual ~Event() = default;
  virtual bool done() const = 0;
  virtual void wait() = 0;  // blocks the calling thread
};

// A program made ready for one device: weights and cache bound, memory offsets resolved.
class Executable {
 public:
  virtual ~Executable() = default;
};

struct CompileArgs {
  const Program* program = nullptr;  // copied
  std::vector<BufferRef> weights;    // by WeightId, filled by Queue::store_weight
  std::vector<BufferRef> kv_layers;  // by layer: the layer's whole region
  uint32_t max_tokens = 0;           // multiples of k_row_granule
  uint32_t max_outputs = 0;
};

// A run's part in a group that runs one program on each of its members.
struct GroupRun {
  std::shared_ptr<HostGroup> group;  // null: the device runs alone
  uint32_t member = 0;
  uint64_t number = 0;  // see host_group.h
};

// When a run had the device, in nanoseconds of the steady clock; written when it is done.
struct RunTimes {
  int64_t begin = 0;
  int64_t end = 0;
};

struct RunArgs {
  std::shared_ptr<const Batch> batch;
  BufferRef activations;  // at least Device::activation_bytes
  BufferRef scratch;      // at least Device::scratch_bytes
  // By Value::external. They may lie with another device whose memory this one can write.
  std::vector<BufferRef> externals;
  uint32_t units = 0;               // compute units to use; 0: all
  GroupRun group;                   // a run that fails before it joins must abandon it
  std::shared_ptr<RunTimes> times;  // or null
};

class Queue {
 public:
  virtual ~Queue() = default;
  // Copies; the host memory must stay valid until the queue has passed the call.
  virtual void upload(const BufferRef& to, const void* from) = 0;
  virtual void download(void* to, const BufferRef& from) = 0;
  // Within the device or from another device whose memory this process can read.
  // `times`, if any, as of a run.
  virtual void copy(const BufferRef& to, const BufferRef& from,
                    std::shared_ptr<RunTimes> times) = 0;
  virtual void fill_zero(const BufferRef& to) = 0;
  // Puts rows of a weight in the device's own layout; `from` holds them in file layout, `to` is the
  // whole weight, at least Device::weight_bytes(spec). A range begins and ends at the border of a
  // matrix or at a multiple of k_row_granule rows within one. Values that are not finite are
  // ErrorCode::bad_file, naming the weight.
  virtual void store_weight(const WeightSpec& spec, const BufferRef& to, const void* from,
                            RowRange rows) = 0;
  virtual void run(Executable& executable, RunArgs args) = 0;
  // The event is done when everything queued before it is done.
  virtual std::shared_ptr<Event> record() = 0;
  // Later work of this queue starts only when `event` (of any device) is done.
  virtual void wait(std::shared_ptr<Event> event) = 0;
  // Blocks until the queue is empty; throws the first error since the last call.
  virtual void synchronize() = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const = 0;
  virtual uint64_t allocated_bytes() const = 0;
  // `purpose` ("weights", "KV cache", "activations") is used in messages. Zero-filled.
  virtual std::unique_ptr<Arena> allocate(uint64_t bytes, const std::string& purpose) = 0;
  virtual std::unique_ptr<Queue> make_queue() = 0;
  // Bytes that the device keeps for a weight, a multiple of the alignment of weights (64).
  virtual uint64_t weight_bytes(const WeightSpec& spec) const = 0;
  // Bytes that the program's arena values take; runs of one device may share them in turn.
  virtual uint64_t activation_bytes(const Program& program, uint32_t max_tokens,
                                    uint32_t max_outputs) const = 0;
  // Working memory that a run of the program with so many rows needs beside its values.
  virtual uint64_t scratch_bytes(const Program& program, uint32_t max_tokens,
                                 uint32_t max_outputs) const = 0;
  // Empty when the device can run the program, else the first thing that it cannot do.
  virtual std::string unsupported(const Program& program) const = 0;
  virtual std::unique_ptr<Executable> compile(const CompileArgs& args) = 0;
};

}  // namespace strata::device
