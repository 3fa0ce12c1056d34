// Plans: what every device will hold and run, in bytes, decided before anything is allocated.
//
// Purpose: from a model's description, the devices' descriptions and a request to a complete
// placement. The runtime allocates exactly this.
// Not for: touching a device. Pure functions of their arguments.
// Errors: ErrorCode::usage for a request that makes no sense; ErrorCode::does_not_fit (a Refusal)
// with the shortfall of every device and the changes that would fit.
// Threads: pure functions, plain data.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/description.h"
#include "model/lower.h"
#include "model/spec.h"
#include "strata/error.h"

namespace strata::plan {

// Tokens of a block of the cache.
inline constexpr uint32_t k_kv_block_tokens = 32;

// How a model is divided over devices.
enum class Split : uint8_t {
  none,    // one device has all
  layer,   // stages: runs of layers, one after another
  tensor,  // shards: each device has a part of every layer
};

// Tensors whose name the pattern (PCRE2, anywhere in the name) matches go to the device.
struct Rule {
  std::string pattern;
  std::string device;
};

struct Request {
  std::optional<uint64_t> n_context;  // tokens in the cache, all sequences; absent: what fits
  uint32_t n_sequences = 1;
  uint32_t n_batch = 2048;  // tokens handed to the model at once
  uint32_t n_ubatch = 512;  // tokens computed at once
  ElementType type_k = ElementType::f16;
  ElementType type_v = ElementType::f16;

  Split split = Split::layer;
  uint32_t tensor_parallel = 0;  // devices of a group (-tp); 0: all, when split is tensor
  // Of each device, or of each one that is no processor (-ts); empty: by speed and memory.
  std::vector<double> shares;
  std::optional<uint32_t> main_device;         // the one that has all when split is none (-mg); 0
  std::optional<uint32_t> copies;              // lanes (--pipeline-copies); absent: as is useful
  std::vector<Rule> rules;                     // -ot, the first that matches counts
  std::optional<uint32_t> device_layers;       // layers that are not on the host (-ngl)
  std::optional<uint32_t> host_expert_layers;  // layers whose experts are (-ncmoe; -cmoe: all)
  bool kv_on_host = false;                     // -nkvo
  std::vector<std::string> warnings;           // of words that contradict each other, for the plan
};

// Bytes on one device by purpose.
struct DeviceBytes {
  uint64_t weights = 0;
  uint64_t kv = 0;
  uint64_t activations = 0;  // the arena that the device's programs share in turn
  uint64_t boundary = 0;     // residual streams that come in, one for each lane
  uint64_t logits = 0;
  uint64_t scratch = 0;
  uint64_t compute() const { return activations + boundary + logits + scratch; }
  uint64_t total() const { return weights + kv + compute(); }
};

// One device's program in a segment.
struct Member {
  uint32_t device = 0;
  model::Lowered lowered;
  uint32_t kv_device = 0;      // whose memory has its part of the cache
  uint32_t output_device = 0;  // into whose boundary slot it writes
};

// The residual stream of a lane is handed on inside the lane's slots.
struct SlotCopy {
  uint32_t from = 0;  // devices
  uint32_t to = 0;
};

// Consecutive halves of blocks that run on the same devices.
struct Segment {
  uint32_t first_half = 0;
  uint32_t end_half = 0;
  bool embeds = false;
  std::vector<Member> members;   // several: a tensor-parallel group
  std::vector<SlotCopy> copies;  // after it, where the next ones outnumber its members
};

struct HeadPart {
  uint32_t device = 0;
  model::Lowered lowered;
  model::Interval vocabulary;  // columns of the logits
};

// Hidden states after the final norm, for embeddings. They are written where the logits of the
// device are, so that they take no memory of their own.
struct HiddenPart {
  uint32_t device = 0;
  model::Lowered lowered;
  uint32_t max_outputs = 0;  // rows that fit at once
};

struct DevicePlan {
  std::string name;
  DeviceBytes bytes;
  uint64_t budget = 0;
  std::vector<model::WeightPart> weights;  // each once, in order of their ids
  uint32_t slots = 0;                      // boundary slots of each lane, 0 or 1
  std::vector<uint32_t> attention_blocks;  // what it has of the model
  std::vector<uint32_t> ffn_blocks;
  double share = 1;  // of the work of its group
  bool embeds = false, head = false;
  double prefill_seconds = 0;  // of a full micro-batch; 0: not known
  double decode_seconds = 0;   // of a token
};

struct Pipeline {
  uint32_t stages = 1;
  uint32_t copies = 1;
  uint32_t least_tokens = 1;  // micro-batches that flow through stages are not made smaller
  bool asked = false;         // the number of copies was given
  bool fewer = false;         // than stages + 1: more would gain little
  bool scarce = false;        // than stages + 1: more do not fit
  uint64_t bytes = 0;         // of all copies beyond the first
  std::string off_because;    // why it is off, when it is
};

// What the plan promises, when the devices' speed is known; else 0.
struct Prediction {
  double prefill_tokens_per_second = 0;  // of a prompt of 2048 tokens
  double decode_tokens_per_second = 0;   // of one sequence, at its beginning
};

struct Plan {
  Split split = Split::layer;
  uint64_t n_context = 0;  // a multiple of kv_block_tokens
  bool context_chosen = false;
  uint32_t n_kv_blocks = 0;
  uint32_t kv_block_tokens = 0;
  uint32_t n_batch = 0;
  uint32_t n_ubatch = 0;            // as asked
  uint32_t max_tokens = 0;          // n_ubatch rounded up to k_row_granule
  uint32_t max_outputs = 0;         // rows of logits computed at once
  std::vector<DevicePlan> devices;  // as given; some may be left without work
  std::vector<Segment> segments;
  std::vector<HeadPart> head;
  HiddenPart hidden;                // on one of the head's devices
  std::vector<double> shares;       // by device, such as would give this plan again
  uint32_t host_expert_layers = 0;  // layers whose experts the host has by count
  Pipeline pipeline;
  Prediction predicted;
  std::vector<std::string> notes;     // decisions and their reasons, one line each
  std::vector<std::string> warnings;  // of the request's words that do nothing, or not all they say

  DeviceBytes bytes() const;  // of all devices
};

// What is missing where, and what would fit.
class Refusal : public Error {
 public:
  struct Shortfall {
    std::string device;
    uint64_t needed = 0;
    uint64_t budget = 0;
  };
  Refusal(const std::string& message, std::vector<Shortfall> shortfalls,
          std::vector<std::string> suggestions, std::optional<Shortfall> memory)
      : Error(ErrorCode::does_not_fit, message),
        shortfalls_(std::move(shortfalls)),
        suggestions_(std::move(suggestions)),
        memory_(std::move(memory)) {}
  const std::vector<Shortfall>& shortfalls() const { return shortfalls_; }
  // Of this machine's memory, when the devices that are parts of it need more than it has;
  // `device` names them all.
  const std::optional<Shortfall>& memory() const { return memory_; }
  // Flags to add, each of which fits by itself.
  const std::vector<std::string>& suggestions() const { return suggestions_; }

 private:
  std::vector<Shortfall> shortfalls_;
  std::vector<std::string> suggestions_;
  std::optional<Shortfall> memory_;
};

Plan make(const model::ModelSpec& spec, const std::vector<device::Description>& devices,
          const Request& request);

// "2 stages, copies=3 (auto: 4 sequences allowed), +5.2 MiB", or "off (one stage)".
std::string pipeline_text(const Plan& plan, const Request& request);

}  // namespace strata::plan
