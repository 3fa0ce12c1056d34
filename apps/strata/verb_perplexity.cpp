// strata perplexity: how well a model predicts a text.
//
// The text is cut into chunks of the context's length, as llama.cpp's tool does it, so that values
// compare: each chunk begins afresh (its first token replaced by BOS where the model wants one),
// the first half is only read, and every later position predicts its successor.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/progress.h"
#include "engine/engine_impl.h"
#include "strata/inputs.h"
#include "strata/interrupt.h"
#include "strata/open_engine.h"
#include "strata/output.h"
#include "strata/verb.h"

namespace strata::app {
namespace {

constexpr uint64_t k_default_context = 512;

// -log p(target), in double.
double negative_log_likelihood(std::span<const float> logits, TokenId target) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - top);
  return std::log(sum) + top - logits[static_cast<size_t>(target)];
}

}  // namespace

int perplexity_verb(const Options& options) {
  require_model(options);
  const std::string text = input_text(options);
  const uint64_t n_context =
      options.ctx_size ? static_cast<uint64_t>(*options.ctx_size) : k_default_context;
  if (n_context < 4) {
    fail(ErrorCode::usage, "-c {} is too short for a perplexity; use 4 or more", n_context);
  }
  const std::unique_ptr<Engine> engine = open_engine(options, n_context);
  std::vector<TokenId> ids = engine->tokenize(text, true, false);
  if (ids.size() < 2 * n_context) {
    fail(ErrorCode::bad_request,
         "the text has {} tokens, but two chunks of {} are needed; use a longer text or a smaller "
         "-c",
         ids.size(), n_context);
  }
  uint64_t n_chunks = ids.size() / n_context;
  if (options.chunks)
    n_chunks = std::min<uint64_t>(n_chunks, static_cast<uint64_t>(*options.chunks));
  const text::Tokenizer& tokenizer = *engine->impl().tokenizer;
  const bool add_bos = tokenizer.add_bos() && tokenizer.bos().has_value();

  const Interrupt interrupt;
  Progress progress("perplexity", n_chunks, Progress::Unit::items);
  const uint64_t first = n_context / 2;
  double sum = 0;
  double sum_of_squares = 0;
  uint64_t count = 0;
  uint64_t done = 0;
  for (; done < n_chunks && !Interrupt::requested(); ++done) {
    const auto chunk = std::span(ids).subspan(done * n_context, n_context);
    std::vector<TokenId> tokens(chunk.begin(), chunk.end());
    if (add_bos) tokens[0] = *tokenizer.bos();
    engine->logits(tokens, first, [&](size_t position, std::span<const float> logits) {
      if (position + 1 >= n_context) return;
      const double nll = negative_log_likelihood(logits, chunk[position + 1]);
      sum += nll;
      sum_of_squares += nll * nll;
      ++count;
    });
    const double mean = sum / static_cast<double>(count);
    progress.update(done + 1, fmt::format("perplexity {:.4f}", std::exp(mean)));
  }
  progress.done();
  if (count < 2) fail(ErrorCode::cancelled, "stopped before the first chunk was done");
  const double n = static_cast<double>(count);
  const double mean = sum / n;
  const double perplexity = std::exp(mean);
  // Standard error of the mean, carried through exp.
  const double error =
      perplexity * std::sqrt(std::max(0.0, sum_of_squares / n - mean * mean) / (n - 1));
  print(fmt::format("perplexity {:.4f} +/- {:.4f} ({} chunks of {}, {} predictions)\n", perplexity,
                    error, done, n_context, count));
  flush_output();
  return done == n_chunks ? 0 : 130;
}

}  // namespace strata::app
