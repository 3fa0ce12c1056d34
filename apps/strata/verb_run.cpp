// strata run: one prompt, one answer, streamed to standard output.
#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
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

Json result_json(const Engine& engine, const Options& options, std::span<const TokenId> prompt,
                 const GenerateResult& result, const std::vector<Sample>& samples) {
  const auto rate = [](double count, double seconds) {
    return seconds > 0 ? Json(count / seconds) : Json();
  };
  Json tokens = Json::array();
  for (const TokenId id : result.tokens) tokens.push(id);
  Json out =
      Json::object({{"prompt", engine.detokenize(prompt, options.special)},
                    {"text", result.text},
                    {"tokens", std::move(tokens)},
                    {"stop", name_of(result.reason)},
                    {"seed", result.seed},
                    {"prompt_tokens", result.prompt_tokens},
                    {"prompt_per_second",
                     rate(result.prompt_tokens - result.cached_tokens, result.prompt_seconds)},
                    {"predicted_tokens", static_cast<uint64_t>(result.tokens.size())},
                    {"predicted_per_second",
                     rate(static_cast<double>(result.tokens.size()) - 1, result.generate_seconds)},
                    {"pipeline", engine.info().pipeline}});
  if (!samples.empty()) {
    Json list = Json::array();
    for (const Sample& sample : samples) {
      Json top = Json::array();
      for (const TokenProbability& one : sample.top) {
        top.push(Json::object({{"id", one.id}, {"log_probability", double{one.log_probability}}}));
      }
      list.push(Json::object({{"id", sample.id},
                              {"log_probability", double{sample.log_probability}},
                              {"top", std::move(top)}}));
    }
    out.set("probabilities", std::move(list));
  }
  Json devices = Json::array();
  for (const MemoryUse& use : engine.memory()) {
    devices.push(Json::object({{"device", use.device},
                               {"weights", use.weights},
                               {"kv_cache", use.kv_cache},
                               {"compute", use.compute}}));
  }
  out.set("memory", std::move(devices));
  if (options.audit_memory) out.set("audit", audit_json(engine.audit_memory()));
  return out;
}

// Which device holds the others up: the one that is always busy.
void print_device_use(const Engine& engine, const GenerateResult& result) {
  const double seconds = result.prompt_seconds + result.generate_seconds;
  if (seconds <= 0) return;
  for (const DeviceUse& use : engine.device_use()) {
    log::debug("{}: busy {:.3f} s ({:.0f} %), copying {:.3f} s, waiting {:.3f} s, {} runs",
               use.device, use.busy_seconds, 100 * use.busy_seconds / seconds, use.copy_seconds,
               std::max(0.0, seconds - use.busy_seconds - use.copy_seconds), use.runs);
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
  const bool json = options.output_format == "json";
  const auto show = [&](std::string_view piece) {
    if (piece.empty() || json) return;
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
  if (options.audit_memory) check_audit(engine->audit_memory(), /*tell=*/!json);
  if (json) print(result_json(*engine, options, prompt, result, samples).dump(2) + "\n");
  flush_output();
  if (!json) print_probabilities(*engine, samples);
  print_device_use(*engine, result);
  engine->write_trace();
  log::info("{}", speed_line(result));
  if (result.reason == StopReason::context_full) {
    log::warning("stopped: the context of {} tokens is full; a larger -c goes further",
                 engine->info().n_context);
  }
  return result.reason == StopReason::cancelled ? 130 : 0;
}

}  // namespace strata::app
