// strata run: one prompt, one answer, streamed to standard output.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "strata/inputs.h"
#include "strata/interrupt.h"
#include "strata/messages.h"
#include "strata/open_engine.h"
#include "strata/output.h"
#include "strata/verb.h"

namespace strata::app {
namespace {

std::vector<TokenId> prompt_tokens(const Engine& engine, const Options& options,
                                   const std::string& text) {
  std::vector<ChatMessage> messages = messages_of(text, options.file.value_or("the prompt"));
  const bool is_chat = !messages.empty() || options.system_prompt.has_value();
  const bool wanted = options.conversation.value_or(is_chat && engine.has_chat_template());
  if (!wanted) {
    if (options.system_prompt) {
      fail(ErrorCode::usage, "-sys needs a chat template, and {}",
           options.conversation ? "-no-cnv turns it off" : "the model has none");
    }
    return engine.tokenize(text);
  }
  if (messages.empty()) messages.push_back({"user", text});
  if (options.system_prompt) {
    messages.insert(messages.begin(), {"system", *options.system_prompt});
  }
  return engine.chat_tokens(messages);
}

void print_probabilities(const Engine& engine, const std::vector<Sample>& samples) {
  const auto shown = [&](TokenId id) {
    return "'" + printable(engine.detokenize({&id, 1}, true)) + "'";
  };
  for (const Sample& sample : samples) {
    std::string line = fmt::format("{:<16} {:8.4f} |", shown(sample.id), sample.log_probability);
    for (const TokenProbability& one : sample.top) {
      line += fmt::format(" {} {:.4f}", shown(one.id), one.log_probability);
    }
    log::info("{}", line);
  }
}

}  // namespace

int run_verb(const Options& options) {
  require_model(options);
  const std::string text = input_text(options);
  const std::unique_ptr<Engine> engine = open_engine(options);
  const std::vector<TokenId> prompt = prompt_tokens(*engine, options, text);

  const Interrupt interrupt;
  GenerateOptions generate;
  generate.max_tokens = options.n_predict;
  generate.sampling = sampling_options(options);
  generate.stop = options.reverse_prompt;
  generate.show_special = options.special;
  generate.cancelled = [] { return Interrupt::requested(); };
  std::vector<Sample> samples;
  if (options.n_probs > 0) generate.on_token = [&](const Sample& s) { samples.push_back(s); };
  bool ends_line = true;
  const auto show = [&](std::string_view piece) {
    if (piece.empty()) return;
    print(piece);
    flush_output();
    ends_line = piece.back() == '\n';
  };
  generate.on_text = show;

  Session session(*engine);
  session.check_prompt(prompt);
  if (options.display_prompt) show(engine->detokenize(prompt, options.special));
  const GenerateResult result = session.generate(prompt, generate);
  if (!ends_line) print("\n");
  flush_output();
  print_probabilities(*engine, samples);
  log::info("{}", speed_line(result));
  if (result.reason == StopReason::context_full) {
    log::warning("stopped: the context of {} tokens is full; a larger -c goes further",
                 engine->info().n_context);
  }
  return result.reason == StopReason::cancelled ? 130 : 0;
}

}  // namespace strata::app
