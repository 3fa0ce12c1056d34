#include "strata/open_engine.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/progress.h"
#include "strata/verb.h"

namespace strata::app {
namespace {

// Smaller models are there before a bar could be read.
constexpr uint64_t k_shown_bytes = uint64_t{64} << 20;

uint32_t count_or_zero(const std::optional<int64_t>& value) {
  return value ? static_cast<uint32_t>(*value) : 0;
}

}  // namespace

PlacementOptions placement_of(const Options& options) {
  const auto number = [](const std::optional<int64_t>& value) {
    return value ? std::optional<uint32_t>(static_cast<uint32_t>(*value)) : std::nullopt;
  };
  PlacementOptions out;
  out.devices = options.device;
  out.memory = options.memory;
  out.split = options.split_mode.value_or("");
  if (out.split == "row") log::info("-sm row is another word for -sm tensor");
  out.tensor_parallel = number(options.tensor_parallel);
  out.tensor_split = options.tensor_split;
  out.main_device = number(options.main_gpu);
  out.pipeline_copies = number(options.pipeline_copies);
  out.override_tensor = options.override_tensor;
  out.gpu_layers = number(options.gpu_layers);
  out.cpu_moe = options.cpu_moe;
  out.n_cpu_moe = number(options.n_cpu_moe);
  out.kv_offload = options.kv_offload;
  return out;
}

void check_audit(const std::vector<MemoryAudit>& rows, bool tell) {
  for (const MemoryAudit& row : rows) {
    if (row.planned == row.allocated && row.allocated == row.used) continue;
    fail(ErrorCode::internal,
         "--audit-memory: device '{}', {}: {} bytes were planned, {} allocated, {} used",
         row.device, row.purpose, row.planned, row.allocated, row.used);
  }
  if (!tell) return;
  for (const MemoryAudit& row : rows) {
    log::info("--audit-memory: {}, {}: {} bytes planned, allocated and used", row.device,
              row.purpose, row.planned);
  }
}

Json audit_json(const std::vector<MemoryAudit>& rows) {
  Json list = Json::array();
  for (const MemoryAudit& row : rows) {
    list.push(Json::object({{"device", row.device},
                            {"purpose", row.purpose},
                            {"planned", row.planned},
                            {"allocated", row.allocated},
                            {"used", row.used}}));
  }
  return list;
}

std::unique_ptr<Engine> open_engine(const Options& options, std::optional<uint64_t> n_context,
                                    uint32_t n_sequences) {
  // Accepted, because command lines from elsewhere have them.
  const auto says_nothing = [](bool given, const char* flag, const char* why) {
    if (given) log::info("{} changes nothing: {}", flag, why);
  };
  says_nothing(options.flash_attn.has_value(), "-fa", "attention always streams");
  says_nothing(options.op_offload.has_value(), "--op-offload", "an op runs where its weights are");
  says_nothing(options.cont_batching.has_value(), "-cb", "batches are always continuous");
  says_nothing(options.jinja.has_value(), "--jinja", "templates are always rendered by Jinja");
  EngineOptions engine;
  engine.model = require_model(options);
  engine.placement = placement_of(options);
  engine.trace = options.trace;
  engine.threads = count_or_zero(options.threads);
  engine.threads_batch = count_or_zero(options.threads_batch);
  if (engine.threads_batch == 0) engine.threads_batch = engine.threads;
  if (n_context) {
    engine.n_context = n_context;
  } else if (options.ctx_size) {
    engine.n_context = static_cast<uint64_t>(*options.ctx_size);
  }
  engine.n_sequences = n_sequences;
  engine.n_batch = static_cast<uint32_t>(options.batch_size);
  engine.n_ubatch = static_cast<uint32_t>(options.ubatch_size);
  engine.mmap = options.mmap;
  engine.mlock = options.mlock;
  engine.cache_type_k = options.cache_type_k;
  engine.cache_type_v = options.cache_type_v;
  if (options.chat_template_file) engine.chat_template = read_file(*options.chat_template_file);
  std::optional<Progress> progress;
  engine.load_progress = [&](uint64_t done, uint64_t total) {
    if (!progress && total >= k_shown_bytes) progress.emplace("loading weights", total);
    if (progress) progress->update(done);
  };
  std::unique_ptr<Engine> opened = Engine::open(engine);
  if (progress) progress->done();

  const ModelInfo& info = opened->info();
  for (const auto& [id, bias] : options.logit_bias) {
    if (id < 0 || static_cast<uint32_t>(id) >= info.n_tokens) {
      fail(ErrorCode::usage, "-l (--logit-bias): the vocabulary has no token {}; ids are 0 to {}",
           id, int64_t{info.n_tokens} - 1);
    }
  }
  const auto mib = [](uint64_t bytes) { return static_cast<double>(bytes) / 1048576.0; };
  log::debug("{}: {} {:.2f} M parameters, {} layers, context {}", engine.model, info.family,
             static_cast<double>(info.parameters) / 1e6, info.n_layers, info.n_context);
  const std::vector<MemoryUse> memory = opened->memory();
  // Fewer layers than there are: the plan has said so.
  says_nothing(memory.size() == 1 && options.gpu_layers.value_or(0) >= info.n_layers, "-ngl",
               (memory[0].device + " is the only device").c_str());
  // With several devices this is what one wants to know; with one, only when asked.
  const auto line = [&](const std::string& text) {
    if (memory.size() > 1) {
      log::info("{}", text);
    } else {
      log::debug("{}", text);
    }
  };
  line("pipeline: " + info.pipeline);
  for (const MemoryUse& use : memory) {
    line(fmt::format("{}: weights {:.1f} MiB, KV cache {:.1f} MiB, compute {:.1f} MiB", use.device,
                     mib(use.weights), mib(use.kv_cache), mib(use.compute)));
    log::debug("{}: {}, {} threads", use.device, use.description, use.threads);
  }
  return opened;
}

std::string speed_line(const GenerateResult& result) {
  const auto rate = [](double count, double seconds) {
    return seconds > 0 ? count / seconds : 0.0;
  };
  const double read = static_cast<double>(result.prompt_tokens - result.cached_tokens);
  std::string line =
      fmt::format("{} token{}", result.tokens.size(), result.tokens.size() == 1 ? "" : "s");
  // The first token comes from the prompt's own logits: the time is that of the others.
  if (result.tokens.size() > 1) {
    line += fmt::format(", {:.1f} tokens/s", rate(static_cast<double>(result.tokens.size() - 1),
                                                  result.generate_seconds));
  }
  return line + fmt::format(" (prompt {} tokens, {:.1f} tokens/s), seed {}", result.prompt_tokens,
                            rate(read, result.prompt_seconds), result.seed);
}

}  // namespace strata::app
