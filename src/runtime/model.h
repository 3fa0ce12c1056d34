// A model made ready to run: the plan carried out on its devices.
//
// Purpose: allocates what the plan says (and nothing else), loads the weights, and computes logits
// or hidden states of micro-batches of any sequences.
// Lanes: as many micro-batches may be in flight as the plan has copies. A micro-batch goes through
// the segments in order; on each segment micro-batches follow one another, so that a sequence finds
// its past in the cache. evaluate() keeps the lanes fed with the micro-batches of one call;
// start() and finish() let a caller keep them fed with different sequences.
// Not for: tokens as text, sampling, scheduling of requests (engine/).
// Errors: loading: see gguf/ and model/; non-finite weights are ErrorCode::bad_file naming the
// tensor. Evaluation: ErrorCode::bad_request for a token outside the vocabulary,
// ErrorCode::does_not_fit when the cache is full; the cache is then as it was before the call.
// A device that fails is named. Micro-batches in flight that follow a failed one in the same
// sequence fail too; others do not.
// Ownership: owns devices, arenas and programs; the file may be closed after loading.
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "cache/paged_kv.h"
#include "device/device.h"
#include "gguf/file.h"
#include "model/spec.h"
#include "plan/plan.h"
#include "runtime/loader.h"
#include "runtime/trace.h"

namespace strata::runtime {

using cache::SequenceId;

// Which positions of a chunk give something, and what: logits, or the hidden state after the final
// norm, of which the head makes the logits.
enum class Outputs : uint8_t { none, last, all };
enum class Gives : uint8_t { logits, hidden };

// New tokens of one sequence, appended to what its cache holds. Several chunks may belong to the
// same sequence; they follow each other in order.
struct Chunk {
  SequenceId sequence = 0;
  std::span<const int32_t> tokens;
  Outputs outputs = Outputs::last;
  Gives gives = Gives::logits;
};

// Called once per asked-for position: in order of chunks and tokens, those of a micro-batch that
// give logits before those that give hidden states. `row`, [n_vocab] or [n_embd], is valid during
// the call only.
using RowSink = std::function<void(size_t chunk, size_t token, std::span<const float> row)>;

struct EvaluateOptions {
  uint32_t units = 0;          // compute units of each device to use; 0: all
  std::function<bool()> stop;  // asked between micro-batches; true: ErrorCode::cancelled
};

// Planned, allocated and used bytes of one purpose on one device.
struct MemoryAudit {
  std::string device;
  std::string purpose;
  uint64_t planned = 0;
  uint64_t allocated = 0;
  uint64_t used = 0;  // the highest byte that programs, weights and caches were given, at most
  bool equal() const { return planned == allocated && allocated == used; }
};

struct DeviceUse {
  std::string name;
  double busy_seconds = 0;  // running programs, which write boundaries where they can
  double copy_seconds = 0;  // copying boundaries and blocks of the cache
  uint64_t runs = 0;
};

class Model {
 public:
  using Devices = std::vector<std::unique_ptr<device::Device>>;

  // `devices` are the plan's, in its order.
  static std::unique_ptr<Model> load(const gguf::File& file, model::ModelSpec spec, plan::Plan plan,
                                     Devices devices, const LoadOptions& options = {});
  ~Model();

  const model::ModelSpec& spec() const { return spec_; }
  const plan::Plan& plan() const { return plan_; }
  size_t n_devices() const { return places_.size(); }
  const device::Device& device(size_t index = 0) const { return *places_[index].device; }
  const cache::PagedKv& cache() const { return cache_; }

  SequenceId create_sequence(uint32_t scope = 0) { return cache_.create(scope); }
  SequenceId fork_sequence(SequenceId id) { return cache_.fork(id); }
  void remove_sequence(SequenceId id) { cache_.remove(id); }
  void truncate_sequence(SequenceId id, uint32_t length) { cache_.truncate(id, length); }
  uint32_t length(SequenceId id) const { return cache_.length(id); }

  // What the sequence holds of `tokens`, its own from the beginning, may be found by later ones.
  void keep_prefix(SequenceId id, std::span<const int32_t> tokens) { cache_.keep(id, tokens); }
  // Gives an empty sequence what the cache has kept of the beginning of `tokens`; its new length.
  uint32_t adopt_prefix(SequenceId id, std::span<const int32_t> tokens) {
    return cache_.adopt(id, tokens);
  }

  // Evaluates the chunks in micro-batches of at most the plan's size. Needs a free lane.
  void evaluate(std::span<const Chunk> chunks, const RowSink& sink,
                const EvaluateOptions& options = {});

  // One micro-batch on its way: the chunks' tokens together are at most the plan's micro-batch.
  // Needs a free lane. What the chunks point at may go after the call.
  using JobId = uint64_t;
  JobId start(std::span<const Chunk> chunks, const EvaluateOptions& options = {});
  // Waits for it and hands out its logits. When it failed, or `sink` threw, its sequences are as
  // before start(). A sequence may be removed while it is in flight, but not cut or forked.
  void finish(JobId job, const RowSink& sink);
  uint32_t n_lanes() const { return static_cast<uint32_t>(lanes_.size()); }
  uint32_t free_lanes() const;

  std::vector<MemoryAudit> audit() const;
  // Since the last reset.
  std::vector<DeviceUse> use() const;
  const DeviceUse& use(size_t device) const { return places_[device].use; }
  void reset_use();
  // Where runs are noted from now on; null: nowhere.
  void set_trace(Trace* trace) { trace_ = trace; }

 private:
  struct Row {
    size_t chunk;
    size_t token;
    int32_t id;
    int32_t position;
    SequenceId sequence;
    Outputs outputs;  // none: it gives nothing
    Gives gives;
  };
  struct Place {  // a device and what it holds
    std::unique_ptr<device::Device> device;
    std::unique_ptr<device::Arena> weights, kv, activations, boundary, logits, scratch;
    std::vector<device::BufferRef> weight_refs;  // by DevicePlan::weights
    uint64_t weights_used = 0, kv_used = 0, activations_used = 0, boundary_used = 0;
    uint64_t logits_used = 0, scratch_used = 0;
    DeviceUse use;
  };
  struct Unit {  // a program on its device
    uint32_t device = 0;
    std::unique_ptr<device::Executable> executable;
    std::vector<device::BufferRef> kv;  // by the program's KV layers
  };
  struct Group {  // devices that run together
    std::shared_ptr<device::HostGroup> group;
    uint64_t runs = 0;
  };
  struct Lane {
    std::vector<std::unique_ptr<device::Queue>> queues;  // by device; null where it has no work
    bool busy = false;
  };
  struct Run {  // for use and trace
    uint32_t device;
    uint32_t segment;
    std::shared_ptr<device::RunTimes> times;
    bool copies = false;  // instead of a program
  };
  using Events = std::vector<std::shared_ptr<device::Event>>;
  // Rows of a job that give something, and where that is being written: rows of the logits buffers.
  struct Asked {
    std::vector<uint32_t> rows;
    int64_t at = -1;  // -1: not yet asked for
    uint64_t taken = 0;
  };
  struct Job {
    uint32_t lane = 0;
    std::vector<Row> rows;
    Asked asked[2];  // by Gives
    std::shared_ptr<const device::Batch> batch;
    std::map<SequenceId, uint32_t> before;          // lengths to go back to, of start()
    std::vector<cache::PagedKv::BlockCopy> copies;  // to settle or undo, of start()
    std::set<SequenceId> sequences;
    std::exception_ptr error;  // known before it is finished
    bool waited = false;       // its runs are over
    uint32_t units = 0;
    Events stream;  // the last segment is done
    std::vector<Run> runs;
  };

  Model(model::ModelSpec spec, plan::Plan plan, Devices devices);
  void allocate();
  void load(const gguf::File& file, const LoadOptions& options);
  void compile();

  void check(std::span<const Chunk> chunks) const;
  std::vector<Row> make_room(std::span<const Chunk> chunks, std::map<SequenceId, uint32_t>& before,
                             std::vector<cache::PagedKv::BlockCopy>& copies);
  JobId start_rows(std::vector<Row> rows, std::span<const cache::PagedKv::BlockCopy> copies,
                   uint32_t units);
  static std::shared_ptr<device::RunTimes> timed_copy(Job& job, uint32_t device, size_t segment);
  void run_segments(Job& job, std::span<const cache::PagedKv::BlockCopy> copies);
  void run_head(Job& job, Unit& unit, uint32_t segment, std::span<const uint32_t> rows,
                device::BufferRef to);
  void run_outputs(Job& job, Gives gives, std::span<const uint32_t> rows, uint64_t at);
  void wait_lane(Lane& lane);
  void wait_job(Job& job);
  void give_up(JobId id);
  void go_back(const std::map<SequenceId, uint32_t>& before,
               std::span<const cache::PagedKv::BlockCopy> copies);
  void deliver(const Job& job, Gives gives, std::span<const uint32_t> rows, uint64_t at,
               const RowSink& sink);
  void hand_out(Job& job, Gives gives, const RowSink& sink);
  void drop(JobId id);
  std::shared_ptr<const device::Batch> batch_of(const std::vector<Row>& rows);
  device::BufferRef slot(uint32_t device, uint32_t lane) const;
  device::RunArgs run_args(const Job& job, uint32_t device);
  void note(const Job& job);
  void log_step(const Job& job) const;
  uint64_t output_rows(Gives gives, uint64_t n) const;
  int64_t take_output_rows(uint64_t n, uint64_t keep);
  void give_output_rows(int64_t at, uint64_t n);

  model::ModelSpec spec_;
  plan::Plan plan_;
  std::vector<Place> places_;  // as the plan's devices
  cache::PagedKv cache_;
  std::vector<std::vector<Unit>> segments_;  // by segment, by member
  std::vector<Unit> head_;
  Unit hidden_;
  std::map<std::vector<uint32_t>, Group> groups_;  // by devices
  std::vector<Group*> segment_groups_;             // by segment; null: one device
  std::vector<Lane> lanes_;
  std::map<JobId, Job> jobs_;
  JobId next_job_ = 1;
  std::vector<Events> last_events_;  // by segment: of the latest micro-batch
  std::vector<bool> output_rows_;    // of the logits buffers: taken
  uint64_t hidden_row_bytes_ = 0;    // of a row of the logits buffer where hidden states go
  std::vector<float> host_row_;      // a row of logits put together from the parts of the head
  Trace* trace_ = nullptr;
};

}  // namespace strata::runtime
