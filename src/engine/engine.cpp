#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "engine/engine_impl.h"
#include "engine/placement.h"

namespace strata {
namespace {

void warn_unused(const model::ModelSpec& spec) {
  if (spec.unused_tensors.empty()) return;
  std::string names;
  const size_t shown = std::min<size_t>(3, spec.unused_tensors.size());
  for (size_t i = 0; i < shown; ++i) {
    names += (i > 0 ? ", " : "") + printable(spec.unused_tensors[i]);
  }
  if (spec.unused_tensors.size() > shown) names += ", ...";
  log::warning("{} tensors of the file are not part of a '{}' model and stay unread: {}",
               spec.unused_tensors.size(), spec.family, names);
}

void read_template(Engine::Impl& impl, const gguf::Metadata& metadata) {
  if (impl.options.chat_template) {
    impl.chat.emplace(*impl.options.chat_template, *impl.tokenizer);
    impl.chat_source = *impl.options.chat_template;
    return;
  }
  const auto source = metadata.find_string("tokenizer.chat_template");
  if (!source || source->empty()) return;
  try {
    impl.chat.emplace(*source, *impl.tokenizer);
    impl.chat_source = *source;
  } catch (const Error& error) {
    // The model still runs; a chat needs --chat-template-file then.
    log::warning("the model's chat template cannot be used: {}", error.what());
  }
}

// What the file says of embeddings, as llama.cpp's numbers have it.
std::optional<Pooling> read_pooling(const gguf::Metadata& metadata, const std::string& family) {
  const std::string key = family + ".pooling_type";
  const auto number = metadata.find_uint(key);
  if (!number) return std::nullopt;
  if (*number <= static_cast<uint64_t>(Pooling::last)) return static_cast<Pooling>(*number);
  log::warning("the file's {} = {} is not a pooling that is known here", key, *number);
  return std::nullopt;
}

// Runs `read` and lets its errors name the file, where they do not yet.
template <class Read>
auto naming(const std::string& path, Read read) {
  try {
    return read();
  } catch (const Error& error) {
    const std::string what = error.what();
    const std::string shown = printable(path, 400);
    if (what.find(shown) != std::string::npos) throw;
    throw Error(error.code(), "'" + shown + "': " + what);
  }
}

}  // namespace

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
void Engine::write_trace() {
  if (!impl_->trace || impl_->trace_written) return;
  impl_->trace_written = true;
  impl_->trace->write(*impl_->options.trace);
}

Engine::~Engine() {
  try {
    write_trace();
  } catch (const Error& error) {
    log::error("--trace: {}", error.what());
  }
}

std::unique_ptr<Engine> Engine::open(const EngineOptions& options) {
  auto impl = std::make_unique<Impl>();
  impl->options = options;
  plan::Request request = request_of(options.placement);
  request.n_context = options.n_context;
  request.n_sequences = options.n_sequences;
  request.n_batch = options.n_batch;
  request.n_ubatch = options.n_ubatch;
  request.type_k = cache_type(options.cache_type_k, "-ctk");
  request.type_v = cache_type(options.cache_type_v, "-ctv");

  const gguf::File file = gguf::File::open(options.model);
  model::ModelSpec spec = naming(options.model, [&] { return model::read_spec(file); });
  impl->tokenizer = naming(options.model, [&] { return text::Tokenizer::load(file.metadata()); });
  if (impl->tokenizer->size() > spec.n_vocab) {
    fail(ErrorCode::bad_file, "the tokenizer has {} tokens, the model's embedding only {}",
         impl->tokenizer->size(), spec.n_vocab);
  }
  read_template(*impl, file.metadata());
  warn_unused(spec);

  const uint32_t threads = options.threads == 0 && options.threads_batch == 0
                               ? 0
                               : std::max(options.threads, options.threads_batch);
  OpenDevices open = open_devices(options.placement, threads, options.mlock);
  if (!open.all_here()) {
    fail(ErrorCode::usage,
         "-dev {}: a device that is only described can be planned for (strata plan), not run on",
         printable(options.placement.devices));
  }
  know_speeds(open, options.placement, spec, /*always=*/false);
  plan::Plan plan = plan::make(spec, open.descriptions, request);
  for (const std::string& note : plan.notes) log::debug("{}", note);
  for (const std::string& warning : plan.warnings) log::warning("{}", warning);

  ModelInfo& info = impl->info;
  info.family = spec.family;
  info.name = spec.name;
  info.parameters = spec.parameters();
  info.n_layers = static_cast<uint32_t>(spec.blocks.size());
  info.n_embd = spec.n_embd;
  info.n_vocab = spec.n_vocab;
  info.n_tokens = static_cast<uint32_t>(impl->tokenizer->size());
  info.n_context_trained = spec.n_context;
  // The cache holds whole blocks; what was asked for counts.
  info.n_cache = options.n_context.value_or(plan.n_context);
  // An automatic one has room for several sequences, none of which outgrows the model.
  info.n_context = options.n_context.value_or(std::min(info.n_cache, spec.n_context));
  if (info.n_context > spec.n_context) {
    log::warning("the context of {} tokens is longer than the {} that the model was trained for",
                 info.n_context, spec.n_context);
  }
  info.pooling = read_pooling(file.metadata(), spec.family);
  info.pipeline = plan::pipeline_text(plan, request);

  runtime::LoadOptions load;
  load.progress = options.load_progress;
  load.mmap = options.mmap;
  if (options.trace) {
    OutputFile::check(*options.trace);
    std::vector<std::string> names;
    for (const plan::DevicePlan& device : plan.devices) names.push_back(device.name);
    impl->trace.emplace(std::move(names));
  }
  impl->model =
      runtime::Model::load(file, std::move(spec), std::move(plan), std::move(open.devices), load);
  if (impl->trace) impl->model->set_trace(&*impl->trace);
  return std::unique_ptr<Engine>(new Engine(std::move(impl)));
}

const ModelInfo& Engine::info() const { return impl_->info; }

std::vector<MemoryUse> Engine::memory() const {
  std::vector<MemoryUse> out;
  const runtime::Model& model = *impl_->model;
  for (size_t d = 0; d < model.n_devices(); ++d) {
    const plan::DeviceBytes& bytes = model.plan().devices[d].bytes;
    const device::DeviceInfo& info = model.device(d).info();
    out.push_back({info.name, info.description + ", " + info.isa, info.units, bytes.weights,
                   bytes.kv, bytes.compute()});
  }
  return out;
}

std::vector<MemoryAudit> Engine::audit_memory() const {
  std::vector<MemoryAudit> out;
  for (const runtime::MemoryAudit& row : impl_->model->audit()) {
    out.push_back({row.device, row.purpose, row.planned, row.allocated, row.used});
  }
  return out;
}

std::vector<DeviceUse> Engine::device_use() const {
  std::vector<DeviceUse> out;
  for (const runtime::DeviceUse& use : impl_->model->use()) {
    out.push_back({use.name, use.busy_seconds, use.copy_seconds, use.runs});
  }
  return out;
}

std::vector<TokenId> Engine::tokenize(std::string_view text, bool add_special,
                                      bool parse_special) const {
  return impl_->tokenizer->encode(text, {add_special, parse_special});
}

std::string Engine::detokenize(std::span<const TokenId> tokens, bool show_special) const {
  return impl_->tokenizer->decode(tokens, show_special);
}

bool Engine::has_chat_template() const { return impl_->chat.has_value(); }
const std::string& Engine::chat_template() const { return impl_->chat_source; }

std::vector<TokenId> Engine::chat_tokens(std::span<const ChatMessage> messages,
                                         const ChatOptions& options) const {
  const auto parse = [](const std::string& text) {
    return text.empty() ? Json() : Json::parse(text);
  };
  const Json tools = parse(options.tools);
  const Json variables = parse(options.variables);
  if (!variables.is_null() && !variables.is_object()) {
    fail(ErrorCode::bad_request, "the template's variables must be an object, not {}",
         variables.type_name());
  }
  return chat_of(*impl_)
      .prompt(messages, tools.is_null() ? std::vector<text::Tool>() : read_tools(tools, "tools"),
              variables, options.add_generation_prompt)
      .tokens;
}

namespace {

// What the positions of `tokens` from `first` on give, as a sequence of its own.
void evaluate_rows(Engine::Impl& impl, std::span<const TokenId> tokens, size_t first,
                   runtime::Gives gives,
                   const std::function<void(size_t, std::span<const float>)>& sink) {
  runtime::Model& model = *impl.model;
  const runtime::SequenceId sequence = model.create_sequence();
  const auto evaluate = [&](size_t begin, size_t end, runtime::Outputs outputs) {
    const runtime::Chunk chunk{sequence, tokens.subspan(begin, end - begin), outputs, gives};
    model.evaluate(
        {&chunk, 1},
        [&](size_t, size_t token, std::span<const float> row) { sink(begin + token, row); },
        {impl.options.threads_batch, nullptr});
  };
  try {
    const size_t n_batch = model.plan().n_batch;
    first = std::min(first, tokens.size());
    for (size_t at = 0; at < first; at += n_batch) {
      evaluate(at, std::min(at + n_batch, first), runtime::Outputs::none);
    }
    for (size_t at = first; at < tokens.size(); at += n_batch) {
      evaluate(at, std::min(at + n_batch, tokens.size()), runtime::Outputs::all);
    }
  } catch (...) {
    model.remove_sequence(sequence);
    throw;
  }
  model.remove_sequence(sequence);
}

}  // namespace

void Engine::logits(std::span<const TokenId> tokens, size_t first,
                    const std::function<void(size_t, std::span<const float>)>& sink) {
  evaluate_rows(*impl_, tokens, first, runtime::Gives::logits, sink);
}

void Engine::hidden_states(std::span<const TokenId> tokens, size_t first,
                           const std::function<void(size_t, std::span<const float>)>& sink) {
  evaluate_rows(*impl_, tokens, first, runtime::Gives::hidden, sink);
}

}  // namespace strata
