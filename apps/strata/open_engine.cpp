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

std::unique_ptr<Engine> open_engine(const Options& options, std::optional<uint64_t> n_context) {
  EngineOptions engine;
  engine.model = require_model(options);
  engine.device = options.device;
  engine.threads = count_or_zero(options.threads);
  engine.threads_batch = count_or_zero(options.threads_batch);
  if (engine.threads_batch == 0) engine.threads_batch = engine.threads;
  if (n_context) {
    engine.n_context = n_context;
  } else if (options.ctx_size) {
    engine.n_context = static_cast<uint64_t>(*options.ctx_size);
  }
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
  const MemoryUse memory = opened->memory();
  const auto mib = [](uint64_t bytes) { return static_cast<double>(bytes) / 1048576.0; };
  log::debug("{}: {} {:.2f} M parameters, {} layers, context {}", engine.model, info.family,
             static_cast<double>(info.parameters) / 1e6, info.n_layers, info.n_context);
  log::debug("{}: {}, {} threads; weights {:.1f} MiB, KV cache {:.1f} MiB, compute {:.1f} MiB",
             info.device, info.device_description, info.threads, mib(memory.weights),
             mib(memory.kv_cache), mib(memory.compute));
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
