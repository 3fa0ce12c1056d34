#include <algorithm>
#include <chrono>
#include <utility>

#include "base/error.h"
#include "engine/engine_impl.h"
#include "text/sampler.h"
#include "text/stop_strings.h"

namespace strata {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

size_t common_prefix(std::span<const TokenId> a, std::span<const TokenId> b) {
  const size_t n = std::min(a.size(), b.size());
  size_t i = 0;
  while (i < n && a[i] == b[i]) ++i;
  return i;
}

}  // namespace

const char* name_of(StopReason reason) {
  switch (reason) {
    case StopReason::end_of_generation:
      return "end";
    case StopReason::length:
      return "length";
    case StopReason::stop_string:
      return "stop";
    case StopReason::context_full:
      return "context full";
    case StopReason::cancelled:
      return "cancelled";
  }
  return "end";
}

Session::Session(Engine& engine)
    : engine_(engine), sequence_(engine.impl().model->create_sequence()) {}

Session::~Session() { engine_.impl().model->remove_sequence(sequence_); }

void Session::clear() {
  engine_.impl().model->truncate_sequence(sequence_, 0);
  tokens_.clear();
}

void Session::check_prompt(std::span<const TokenId> prompt) const {
  const uint64_t capacity = engine_.info().n_context;
  if (prompt.empty()) {
    fail(ErrorCode::bad_request,
         "the prompt is empty and the model has no BOS token to begin with");
  }
  if (prompt.size() > capacity) {
    fail(ErrorCode::does_not_fit,
         "the prompt has {} tokens, the context holds {}; use -c {} or more, or a shorter prompt",
         prompt.size(), capacity, prompt.size() + 1);
  }
}

GenerateResult Session::generate(std::span<const TokenId> prompt, const GenerateOptions& options) {
  check_prompt(prompt);
  Engine::Impl& impl = engine_.impl();
  runtime::Model& model = *impl.model;
  const text::Tokenizer& tokenizer = *impl.tokenizer;
  const uint64_t capacity = impl.info.n_context;
  text::validate(options.sampling, tokenizer.size());
  text::Sampler sampler(options.sampling, tokenizer);
  text::StopStrings stops(options.stop);
  text::Detokenizer detokenizer(tokenizer, options.show_special);
  for (const TokenId id : prompt) {
    sampler.accept(id, /*generated=*/false);
    detokenizer.push(id);
  }
  detokenizer.finish();

  GenerateResult result;
  result.seed = sampler.seed();
  result.prompt_tokens = static_cast<uint32_t>(prompt.size());

  // The last token of the prompt is always evaluated: its logits are needed.
  const size_t kept = std::min(common_prefix(tokens_, prompt), prompt.size() - 1);
  model.truncate_sequence(sequence_, static_cast<uint32_t>(kept));
  tokens_.resize(kept);
  result.cached_tokens = static_cast<uint32_t>(kept);

  const auto emit = [&](const std::string& text) {
    if (text.empty()) return;
    result.text += text;
    if (options.on_text) options.on_text(text);
  };
  const auto cancelled = [&] { return options.cancelled && options.cancelled(); };

  Sample next;
  bool want_sample = options.max_tokens != 0;
  // A prompt may be left in the middle; a step is too short for it.
  const auto evaluate = [&](std::span<const TokenId> tokens, bool last, uint32_t units,
                            bool may_stop) {
    const runtime::Chunk chunk{
        sequence_, tokens, last && want_sample ? runtime::Outputs::last : runtime::Outputs::none};
    model.evaluate({&chunk, 1},
                   [&](size_t, size_t, std::span<const float> row) {
                     // Rows past the tokenizer's last token only pad the matrix.
                     next = sampler.sample(row.first(tokenizer.size()));
                   },
                   {units, may_stop ? options.cancelled : nullptr});
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  };

  const Clock::time_point start = Clock::now();
  const uint32_t n_batch = model.plan().n_batch;
  for (size_t at = kept; at < prompt.size();) {
    if (cancelled()) {
      result.reason = StopReason::cancelled;
      result.prompt_seconds = seconds_since(start);
      return result;
    }
    const size_t n = std::min<size_t>(n_batch, prompt.size() - at);
    try {
      evaluate(prompt.subspan(at, n), at + n == prompt.size(), impl.options.threads_batch, true);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::cancelled) throw;
      continue;  // which is noticed above
    }
    at += n;
  }
  result.prompt_seconds = seconds_since(start);

  const Clock::time_point generate_start = Clock::now();
  result.reason = StopReason::length;
  for (int64_t made = 0; options.max_tokens < 0 || made < options.max_tokens; ++made) {
    if (cancelled()) {
      result.reason = StopReason::cancelled;
      break;
    }
    const TokenId id = next.id;
    if (options.on_token) options.on_token(next);
    result.tokens.push_back(id);
    if (tokenizer.is_end_of_generation(id)) {
      if (options.show_special) emit(stops.push(detokenizer.push(id)));
      result.reason = StopReason::end_of_generation;
      break;
    }
    sampler.accept(id, /*generated=*/true);
    emit(stops.push(detokenizer.push(id)));
    if (stops.stopped()) {
      result.reason = StopReason::stop_string;
      result.stop_string = stops.matched();
      break;
    }
    if (options.max_tokens >= 0 && made + 1 == options.max_tokens) break;
    const bool block_full = tokens_.size() % model.cache().block_tokens() == 0;
    if (tokens_.size() + 1 > capacity || (block_full && model.cache().free_blocks() == 0)) {
      result.reason = StopReason::context_full;
      break;
    }
    evaluate({&id, 1}, true, impl.options.threads, false);
  }
  if (!stops.stopped()) {
    emit(stops.push(detokenizer.finish()));
    emit(stops.finish());
    if (stops.stopped()) {
      result.reason = StopReason::stop_string;
      result.stop_string = stops.matched();
    }
  }
  result.generate_seconds = seconds_since(generate_start);
  return result;
}

}  // namespace strata
