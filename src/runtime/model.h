// A model made ready to run: the plan carried out on its device.
//
// Purpose: allocates what the plan says (and nothing else), loads the weights, and computes logits
// of micro-batches of any sequences.
// Not for: tokens as text, sampling, scheduling of requests (engine/).
// Errors: loading: see gguf/ and model/; non-finite weights are ErrorCode::bad_file naming the
// tensor. Evaluation: ErrorCode::bad_request for a token outside the vocabulary,
// ErrorCode::does_not_fit when the cache is full; the cache is then as it was before the call.
// Ownership: owns device, arenas and programs; the file may be closed after loading.
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "cache/paged_kv.h"
#include "device/device.h"
#include "gguf/file.h"
#include "model/spec.h"
#include "plan/plan.h"

namespace strata::runtime {

using cache::SequenceId;

// Which positions of a chunk give logits.
enum class Outputs : uint8_t { none, last, all };

// New tokens of one sequence, appended to what its cache holds. Several chunks may belong to the
// same sequence; they follow each other in order.
struct Chunk {
  SequenceId sequence = 0;
  std::span<const int32_t> tokens;
  Outputs outputs = Outputs::last;
};

// Called once per asked-for position, in order of chunks and tokens. `logits` [n_vocab] is valid
// during the call only.
using LogitsSink = std::function<void(size_t chunk, size_t token, std::span<const float> logits)>;

struct LoadOptions {
  // Bytes read so far of all; may throw to cancel.
  std::function<void(uint64_t done, uint64_t total)> progress;
  bool mmap = true;  // else files are read piece by piece
};

class Model {
 public:
  static std::unique_ptr<Model> load(const gguf::File& file, model::ModelSpec spec, plan::Plan plan,
                                     std::unique_ptr<device::Device> device,
                                     const LoadOptions& options = {});
  ~Model();

  const model::ModelSpec& spec() const { return spec_; }
  const plan::Plan& plan() const { return plan_; }
  const device::Device& device() const { return *device_; }
  const cache::PagedKv& cache() const { return cache_; }

  SequenceId create_sequence() { return cache_.create(); }
  SequenceId fork_sequence(SequenceId id) { return cache_.fork(id); }
  void remove_sequence(SequenceId id) { cache_.remove(id); }
  void truncate_sequence(SequenceId id, uint32_t length) { cache_.truncate(id, length); }
  uint32_t length(SequenceId id) const { return cache_.length(id); }

  // Evaluates the chunks in micro-batches of the plan's size. `units`: compute units to use, 0 for
  // all.
  void evaluate(std::span<const Chunk> chunks, const LogitsSink& sink, uint32_t units = 0);

 private:
  Model(model::ModelSpec spec, plan::Plan plan, std::unique_ptr<device::Device> device);
  uint64_t load_weight(const gguf::File& file, const model::Weight& weight,
                       const device::BufferRef& to, const LoadOptions& options, uint64_t done,
                       uint64_t total);
  void load_weights(const gguf::File& file, const LoadOptions& options);
  void compile();

  struct Row {
    size_t chunk;
    size_t token;
    int32_t id;
    int32_t position;
    SequenceId sequence;
    bool output;
  };
  void evaluate_rows(std::span<const Row> rows, const LogitsSink& sink, uint32_t units);
  void copy_blocks(const std::vector<cache::PagedKv::BlockCopy>& copies);

  model::ModelSpec spec_;
  plan::Plan plan_;
  std::unique_ptr<device::Device> device_;
  cache::PagedKv cache_;
  std::unique_ptr<device::Arena> weights_, kv_, activations_, boundary_, logits_, scratch_;
  std::vector<device::BufferRef> weight_refs_;  // by model weight
  std::vector<device::BufferRef> kv_refs_;      // by KV layer
  std::unique_ptr<device::Executable> stage_, head_;
  std::unique_ptr<device::Queue> queue_;
  std::vector<float> host_logits_;  // only for devices with a memory of their own
};

}  // namespace strata::runtime
