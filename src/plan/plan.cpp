#include "plan/plan.h"

#include <algorithm>
#include <set>

#include "base/checked.h"
#include "base/error.h"
#include "strata/engine.h"

namespace strata::plan {
namespace {

constexpr uint32_t k_block_tokens = 32;
// Logits of so many bytes are computed at once; more rows take turns.
constexpr uint64_t k_logits_bytes = uint64_t{8} << 20;
constexpr uint32_t k_max_output_rows = 64;
// Left to the rest of the process and of the system when the context is chosen automatically.
constexpr double k_auto_share = 0.9;
// And so many tokens per sequence at most: a file's claim of a huge context costs nothing to make,
// but would take all the memory there is.
constexpr uint64_t k_auto_context = uint64_t{1} << 20;

double mib(uint64_t bytes) { return static_cast<double>(bytes) / 1048576.0; }

uint32_t output_rows(uint32_t n_vocab) {
  const uint64_t rows = k_logits_bytes / (uint64_t{n_vocab} * 4);
  const uint64_t clamped = std::clamp<uint64_t>(rows, device::k_row_granule, k_max_output_rows);
  return static_cast<uint32_t>(clamped / device::k_row_granule * device::k_row_granule);
}

void check(const Request& request) {
  const auto in_range = [](uint64_t value, uint64_t low, uint64_t high, const char* what) {
    if (value < low || value > high) {
      fail(ErrorCode::usage, "{} is {}, but must lie from {} to {}", what, value, low, high);
    }
  };
  if (request.n_context) in_range(*request.n_context, 1, k_max_context, "the context (-c)");
  in_range(request.n_sequences, 1, 65536, "the number of sequences (-np)");
  in_range(request.n_batch, 1, k_max_batch, "the batch (-b)");
  in_range(request.n_ubatch, 1, k_max_ubatch, "the micro-batch (-ub)");
}

uint64_t weight_total(const model::ModelSpec& spec, const DeviceDescription& device,
                      const Plan& plan) {
  std::set<model::WeightId> all(plan.stage.weights.begin(), plan.stage.weights.end());
  all.insert(plan.head.weights.begin(), plan.head.weights.end());
  uint64_t total = 0;
  for (const model::WeightId id : all) total += device.weight_bytes(spec.weights[id].spec);
  return total;
}

void check_cache_rows(const device::Program& program) {
  for (const device::KvLayer& layer : program.kv_layers) {
    const auto check_row = [](ElementType type, uint32_t head_dim, const char* flag) {
      const TypeInfo& type_info = info(type);
      if (head_dim % type_info.block_elems != 0) {
        fail(ErrorCode::usage, "{} {}: the head size {} is not a multiple of its block of {}", flag,
             type_info.name, head_dim, type_info.block_elems);
      }
    };
    check_row(layer.type_k, layer.head_dim_k, "-ctk");
    check_row(layer.type_v, layer.head_dim_v, "-ctv");
  }
}

}  // namespace

DeviceDescription describe(const device::Device& device) {
  return {device.info(),
          [&device](const device::WeightSpec& spec) { return device.weight_bytes(spec); },
          [&device](const device::Program& program, uint32_t max_tokens, uint32_t max_outputs) {
            return device.scratch_bytes(program, max_tokens, max_outputs);
          }};
}

Plan make(const model::ModelSpec& spec, const DeviceDescription& device, const Request& request) {
  check(request);
  Plan plan;
  plan.device = device.info.name;
  plan.kv_block_tokens = k_block_tokens;
  plan.n_batch = request.n_batch;
  plan.n_ubatch = std::min(request.n_ubatch, request.n_batch);
  plan.max_tokens = static_cast<uint32_t>(align_up(plan.n_ubatch, device::k_row_granule));
  plan.max_outputs = output_rows(spec.n_vocab);

  model::LowerOptions lower;
  lower.end_block = static_cast<uint32_t>(spec.blocks.size());
  lower.type_k = request.type_k;
  lower.type_v = request.type_v;
  lower.kv_block_tokens = k_block_tokens;
  plan.stage = model::lower_stage(spec, lower);
  plan.head = model::lower_head(spec);
  check_cache_rows(plan.stage.program);

  DeviceBytes& bytes = plan.bytes;
  bytes.weights = weight_total(spec, device, plan);
  bytes.activations =
      std::max(device::plan_arena(plan.stage.program).bytes(plan.max_tokens, 0),
               device::plan_arena(plan.head.program).bytes(plan.max_tokens, plan.max_outputs));
  bytes.boundary = uint64_t{plan.max_tokens} * spec.n_embd * 4;
  bytes.logits = uint64_t{plan.max_outputs} * spec.n_vocab * 4;
  bytes.scratch =
      std::max(device.scratch_bytes(plan.stage.program, plan.max_tokens, plan.max_outputs),
               device.scratch_bytes(plan.head.program, plan.max_tokens, plan.max_outputs));
  uint64_t block_bytes = 0;  // of all layers
  for (const device::KvLayer& layer : plan.stage.program.kv_layers) {
    block_bytes += layer.block_bytes();
  }

  const uint64_t fixed = bytes.total();
  const uint64_t budget = device.info.budget_bytes;
  if (request.n_context) {
    plan.n_kv_blocks =
        static_cast<uint32_t>((*request.n_context + k_block_tokens - 1) / k_block_tokens);
  } else {
    // Each sequence may take the model's whole context, as far as there is memory.
    const uint64_t own = std::min<uint64_t>(spec.n_context, k_auto_context);
    const uint64_t wanted =
        (own + k_block_tokens - 1) / k_block_tokens * uint64_t{request.n_sequences};
    const uint64_t free = std::min(
        budget, static_cast<uint64_t>(k_auto_share * static_cast<double>(device.info.free_bytes)));
    const uint64_t room = free > fixed && block_bytes > 0 ? (free - fixed) / block_bytes : 0;
    plan.n_kv_blocks = static_cast<uint32_t>(
        std::min<uint64_t>({wanted, room, (uint64_t{1} << 31) / k_block_tokens}));
    if (plan.n_kv_blocks == 0) {
      fail(ErrorCode::does_not_fit,
           "device '{}': the model needs {:.1f} MiB before any context, {:.1f} MiB are free; use a "
           "smaller model or element type{}",
           plan.device, mib(fixed), mib(free),
           plan.n_ubatch > 64 ? ", or a smaller micro-batch (-ub 64)" : "");
    }
  }
  plan.n_context = uint64_t{plan.n_kv_blocks} * k_block_tokens;
  bytes.kv = block_bytes * plan.n_kv_blocks;
  if (bytes.total() > budget) {
    const uint64_t room = budget > fixed && block_bytes > 0 ? (budget - fixed) / block_bytes : 0;
    std::string way_out = room > 0 ? fmt::format("-c {} would fit", room * k_block_tokens)
                                   : std::string("no context would fit; use a smaller model");
    if (room > 0 && (request.type_k == ElementType::f32 || request.type_v == ElementType::f32)) {
      way_out += ", or -ctk f16 -ctv f16";
    }
    fail(
        ErrorCode::does_not_fit,
        "device '{}': {:.1f} MiB are needed (weights {:.1f}, KV cache {:.1f}, activations {:.1f}), "
        "{:.1f} MiB are there; {}",
        plan.device, mib(bytes.total()), mib(bytes.weights), mib(bytes.kv),
        mib(bytes.total() - bytes.weights - bytes.kv), mib(budget), way_out);
  }
  return plan;
}

}  // namespace strata::plan
