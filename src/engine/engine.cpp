#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "device/registry.h"
#include "engine/engine_impl.h"

namespace strata {
namespace {

ElementType cache_type(const std::string& name, const char* flag) {
  const auto type = parse_type(name);
  for (const auto known : {ElementType::f32, ElementType::f16, ElementType::bf16, ElementType::q8_0,
                           ElementType::q4_0}) {
    if (type == known) return known;
  }
  fail(ErrorCode::usage, "{} '{}' is not a cache type; known are f32, f16, bf16, q8_0 and q4_0",
       flag, printable(name));
}

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

std::optional<text::ChatTemplate> read_template(const EngineOptions& options,
                                                const gguf::Metadata& metadata) {
  if (options.chat_template) return text::ChatTemplate::parse(*options.chat_template);
  const auto source = metadata.find_string("tokenizer.chat_template");
  if (!source || source->empty()) return std::nullopt;
  try {
    return text::ChatTemplate::parse(*source);
  } catch (const Error& error) {
    // The model still runs; a chat needs --chat-template-file then.
    log::warning("the model's chat template cannot be used: {}", error.what());
    return std::nullopt;
  }
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
Engine::~Engine() = default;

std::unique_ptr<Engine> Engine::open(const EngineOptions& options) {
  auto impl = std::make_unique<Impl>();
  impl->options = options;
  plan::Request request;
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
  impl->chat_template = read_template(options, file.metadata());
  warn_unused(spec);

  device::DeviceRequest wanted;
  wanted.name = options.device;
  wanted.threads = options.threads == 0 && options.threads_batch == 0
                       ? 0
                       : std::max(options.threads, options.threads_batch);
  wanted.lock_memory = options.mlock;
  std::unique_ptr<device::Device> device = device::open_device(wanted);
  plan::Plan plan = plan::make(spec, plan::describe(*device), request);
  if (plan.n_context > spec.n_context + plan.kv_block_tokens && options.n_sequences == 1) {
    log::warning("the context of {} tokens is longer than the {} that the model was trained for",
                 plan.n_context, spec.n_context);
  }

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
  info.n_context = options.n_context.value_or(plan.n_context);
  info.device = device->info().name;
  info.device_description = device->info().description + ", " + device->info().isa;
  info.threads = device->info().units;

  runtime::LoadOptions load;
  load.progress = options.load_progress;
  load.mmap = options.mmap;
  impl->model =
      runtime::Model::load(file, std::move(spec), std::move(plan), std::move(device), load);
  return std::unique_ptr<Engine>(new Engine(std::move(impl)));
}

const ModelInfo& Engine::info() const { return impl_->info; }

MemoryUse Engine::memory() const {
  const plan::DeviceBytes& bytes = impl_->model->plan().bytes;
  return {bytes.weights, bytes.kv, bytes.total() - bytes.weights - bytes.kv};
}

std::vector<TokenId> Engine::tokenize(std::string_view text, bool add_special,
                                      bool parse_special) const {
  return impl_->tokenizer->encode(text, {add_special, parse_special});
}

std::string Engine::detokenize(std::span<const TokenId> tokens, bool show_special) const {
  return impl_->tokenizer->decode(tokens, show_special);
}

bool Engine::has_chat_template() const { return impl_->chat_template.has_value(); }

std::vector<TokenId> Engine::chat_tokens(std::span<const ChatMessage> messages,
                                         bool add_generation_prompt) const {
  if (!impl_->chat_template) {
    fail(ErrorCode::bad_request,
         "the model has no chat template; give one with --chat-template-file, or use the prompt as "
         "it is (-no-cnv)");
  }
  const text::Tokenizer& tokenizer = *impl_->tokenizer;
  Json list = Json::array();
  for (const ChatMessage& message : messages) {
    list.push(Json::object({{"role", message.role}, {"content", message.content}}));
  }
  Json variables = Json::object();
  variables.set("messages", std::move(list));
  variables.set("add_generation_prompt", add_generation_prompt);
  const auto token_text = [&](std::optional<TokenId> id) {
    return std::string(id ? tokenizer.token_text(*id) : std::string_view());
  };
  variables.set("bos_token", token_text(tokenizer.bos()));
  variables.set("eos_token", token_text(tokenizer.eos()));

  const auto segments = impl_->chat_template->render_segments(variables);
  std::vector<text::TextSpan> spans;
  for (const auto& segment : segments) spans.push_back({segment.text, segment.from_template});
  return tokenizer.encode_spans(spans, /*add_special=*/true);
}

void Engine::logits(std::span<const TokenId> tokens, size_t first,
                    const std::function<void(size_t, std::span<const float>)>& sink) {
  runtime::Model& model = *impl_->model;
  const runtime::SequenceId sequence = model.create_sequence();
  const auto evaluate = [&](size_t begin, size_t end, runtime::Outputs outputs) {
    const runtime::Chunk chunk{sequence, tokens.subspan(begin, end - begin), outputs};
    model.evaluate(
        {&chunk, 1},
        [&](size_t, size_t token, std::span<const float> row) { sink(begin + token, row); },
        impl_->options.threads_batch);
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

}  // namespace strata
