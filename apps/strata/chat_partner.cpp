#include "strata/chat_partner.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>

#include "base/error.h"
#include "base/terminal.h"
#include "server/client.h"
#include "strata/inputs.h"
#include "strata/interrupt.h"
#include "strata/open_engine.h"
#include "strata/output.h"
#include "strata/verb.h"

namespace strata::app {
namespace {

using terminal::Stream;
using terminal::Style;

void say_aside(std::string_view text) {
  flush_output();
  std::fwrite(text.data(), 1, text.size(), stderr);
}

class Model : public ChatPartner {
 public:
  explicit Model(const Options& options)
      : options_(options), engine_(open_engine(options)), session_(*engine_) {
    if (!engine_->has_chat_template()) {
      fail(ErrorCode::unsupported,
           "'{}' has no chat template; give one with --chat-template-file FILE.jinja, or use "
           "'strata run'",
           printable(options.model, 400));
    }
  }

  std::string greeting() const override {
    const ModelInfo& info = engine_->info();
    return fmt::format("{}, context {} tokens",
                       info.name.empty() ? info.family : printable(info.name), info.n_context);
  }

  void forget() override { session_.clear(); }

  Reply answer(const std::vector<ChatMessage>& conversation) override {
    GenerateOptions generate;
    generate.max_tokens = options_.n_predict;
    generate.sampling = sampling_options(options_);
    generate.stop = options_.reverse_prompt;
    generate.show_special = options_.special;
    generate.cancelled = [] { return Interrupt::requested(); };
    generate.on_text = [](std::string_view piece) {
      print(piece);
      flush_output();
    };
    const GenerateResult result = session_.generate(engine_->chat_tokens(conversation), generate);
    return {result.text, result.reason, speed_line(result)};
  }

 private:
  const Options& options_;
  std::unique_ptr<Engine> engine_;
  Session session_;
};

// What was said on the command line; the server decides the rest.
Json fields_of(const Options& options) {
  Json out = Json::object();
  const auto add = [&](const char* field, const char* name, Json value) {
    if (options.given.contains(field)) out.set(name, std::move(value));
  };
  const SamplingOptions sampling = sampling_options(options);
  add("temp", "temperature", sampling.temperature);
  add("top_k", "top_k", sampling.top_k);
  add("top_p", "top_p", sampling.top_p);
  add("min_p", "min_p", sampling.min_p);
  add("typical_p", "typical_p", sampling.typical_p);
  add("repeat_penalty", "repeat_penalty", sampling.repeat_penalty);
  add("presence_penalty", "presence_penalty", sampling.presence_penalty);
  add("frequency_penalty", "frequency_penalty", sampling.frequency_penalty);
  add("repeat_last_n", "repeat_last_n", sampling.penalty_window);
  add("ignore_eos", "ignore_eos", sampling.ignore_eos);
  if (sampling.seed) out.set("seed", static_cast<int64_t>(*sampling.seed & INT64_MAX));
  if (options.n_predict >= 0) out.set("max_tokens", options.n_predict);
  if (!options.reverse_prompt.empty()) {
    Json stop = Json::array();
    for (const std::string& one : options.reverse_prompt) stop.push(one);
    out.set("stop", std::move(stop));
  }
  if (!sampling.logit_bias.empty()) {
    Json bias = Json::object();
    for (const auto& [id, value] : sampling.logit_bias) {
      bias.set(std::to_string(id), std::isfinite(value) ? value : std::copysign(100.0, value));
    }
    out.set("logit_bias", std::move(bias));
  }
  return out;
}

class Remote : public ChatPartner {
 public:
  explicit Remote(const Options& options)
      : fields_(fields_of(options)),
        client_({*options.url, options.api_key.empty() ? "" : options.api_key.front(), 30}),
        url_(*options.url),
        model_(client_.model()) {}

  std::string greeting() const override {
    return fmt::format("{} at {}", printable(model_, 200), printable(url_, 200));
  }

  void forget() override {}

  Reply answer(const std::vector<ChatMessage>& conversation) override {
    bool thinking = false, printed = false;
    server::ChatClient::Sinks sinks;
    // What a model thinks is no part of its answer: it goes where notes go.
    sinks.reasoning = [&](std::string_view piece) {
      thinking = true;
      say_aside(terminal::styled(Stream::error, Style::dim, piece));
    };
    sinks.content = [&](std::string_view piece) {
      if (thinking) say_aside("\n");
      thinking = false;
      printed = true;
      print(piece);
      flush_output();
    };
    sinks.cancelled = [] { return Interrupt::requested(); };
    const auto answer = client_.chat(conversation, fields_, sinks);
    if (thinking && !printed) say_aside("\n");
    const GenerateResult& r = answer.result;
    std::string speed = fmt::format("{} token{}", answer.tokens, answer.tokens == 1 ? "" : "s");
    if (r.generate_seconds > 0 && answer.tokens > 1) {
      speed += fmt::format(", {:.1f} tokens/s",
                           static_cast<double>(answer.tokens - 1) / r.generate_seconds);
    }
    speed +=
        fmt::format(" (prompt {} tokens, {} of them cached)", r.prompt_tokens, r.cached_tokens);
    // Who leaves is not told the counts.
    if (r.reason == StopReason::cancelled) speed.clear();
    return {r.text, r.reason, speed};
  }

 private:
  Json fields_;
  server::ChatClient client_;
  std::string url_, model_;
};

}  // namespace

std::unique_ptr<ChatPartner> find_partner(const Options& options) {
  if (!options.url) return std::make_unique<Model>(options);
  if (options.given.contains("model")) {
    fail(ErrorCode::usage,
         "-m and --url exclude each other: a model of this machine, or a server that has one");
  }
  return std::make_unique<Remote>(options);
}

}  // namespace strata::app
