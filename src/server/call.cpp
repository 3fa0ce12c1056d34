#include "server/call.h"

#include <random>

#include "base/error.h"
#include "base/field_error.h"
#include "base/held_error.h"
#include "base/stopping_error.h"
#include "server/api.h"

namespace strata::server {
namespace {

// How often a client that waits is looked after.
constexpr double k_look_seconds = 0.1;
// Something every so often keeps proxies from closing a stream that has nothing to say yet.
constexpr double k_ping_seconds = 15;

}  // namespace

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string random_id(const char* prefix) {
  static thread_local std::mt19937_64 random{std::random_device{}()};
  return fmt::format("{}{:016x}{:08x}", prefix, random(), static_cast<uint32_t>(random()));
}

const char* finish_reason(StopReason reason) {
  switch (reason) {
    case StopReason::length:
    case StopReason::context_full:
      return "length";
    default:
      return "stop";
  }
}

const char* stop_type(StopReason reason) {
  switch (reason) {
    case StopReason::end_of_generation:
      return "eos";
    case StopReason::stop_string:
      return "word";
    case StopReason::length:
    case StopReason::context_full:
      return "limit";
    case StopReason::cancelled:
      return "none";
  }
  return "none";
}

Json timings_of(const GenerateResult& r) {
  const uint32_t read = r.prompt_tokens - r.cached_tokens;
  const auto prompt = static_cast<double>(read);
  const auto predicted = static_cast<double>(r.tokens.size());
  const auto rate = [](double n, double seconds) { return seconds > 0 ? n / seconds : 0; };
  const auto each = [](double n, double seconds) { return n > 0 ? 1e3 * seconds / n : 0; };
  return Json::object({{"cache_n", r.cached_tokens},
                       {"prompt_n", read},
                       {"prompt_ms", r.prompt_seconds * 1e3},
                       {"prompt_per_token_ms", each(prompt, r.prompt_seconds)},
                       {"prompt_per_second", rate(prompt, r.prompt_seconds)},
                       {"predicted_n", static_cast<uint64_t>(r.tokens.size())},
                       {"predicted_ms", r.generate_seconds * 1e3},
                       {"predicted_per_token_ms", each(predicted, r.generate_seconds)},
                       {"predicted_per_second", rate(predicted, r.generate_seconds)}});
}

Json usage_of(const std::vector<GenerateResult>& results, uint32_t n) {
  uint64_t completion = 0, prompt = 0, cached = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    completion += results[i].tokens.size();
    if (i % n != 0) continue;
    prompt += results[i].prompt_tokens;
    cached += results[i].cached_tokens;
  }
  return Json::object({{"prompt_tokens", prompt},
                       {"completion_tokens", completion},
                       {"total_tokens", prompt + completion},
                       {"prompt_tokens_details", Json::object({{"cached_tokens", cached}})}});
}

Json Call::logprobs_json(const Engine& engine, const std::vector<Sample>& samples) const {
  if (!logprobs) return Json();
  Json content = Json::array();
  const auto entry = [&](TokenId token, float value) {
    const std::string text = engine.detokenize({&token, 1}, true);
    Json bytes = Json::array();
    for (const char c : text) bytes.push(static_cast<int64_t>(static_cast<unsigned char>(c)));
    return Json::object(
        {{"token", text}, {"logprob", double{value}}, {"bytes", std::move(bytes)}, {"id", token}});
  };
  for (const Sample& sample : samples) {
    Json one = entry(sample.id, sample.log_probability);
    Json top = Json::array();
    for (const TokenProbability& other : sample.top) {
      top.push(entry(other.id, other.log_probability));
    }
    one.set("top_logprobs", std::move(top));
    content.push(std::move(one));
  }
  return Json::object({{"content", std::move(content)}});
}

std::exception_ptr Call::named(const Error& error, const std::string& of_prompt) const {
  const auto* of_field = dynamic_cast<const FieldError*>(&error);
  // Its own text: a copied exception shares it with one that another thread lets go.
  if (of_field == nullptr) return held_error<Error>(error.code(), std::string(error.what()));
  std::string field = of_field->field();
  if (field == "prompt") field = of_prompt;
  if (field == "grammar") field = grammar_field;
  if (const auto* context = dynamic_cast<const ContextError*>(&error)) {
    return held_error<ContextError>(field, error.what(), context->n_prompt_tokens(),
                                    context->n_context());
  }
  return held_error<FieldError>(field, error.what());
}

void submit(Scheduler& scheduler, const std::shared_ptr<Metrics>& metrics, GenerationRequest wanted,
            const std::shared_ptr<Call>& call, uint32_t first_choice) {
  // The listener may outlive whoever asks: a client leaves, and the scheduler lets go later.
  Listener listener;
  // The time of each answer's last token; the listener's thread only.
  const auto last = std::make_shared<std::vector<double>>(wanted.n, 0);
  listener.token = [metrics, call, last, first_choice](uint32_t choice, const std::string& text,
                                                       const Sample& sample) {
    const double at = seconds_now();
    if ((*last)[choice] == 0) {
      metrics->first_token.add(at - call->arrived);
    } else {
      metrics->between_tokens.add(at - (*last)[choice]);
    }
    (*last)[choice] = at;
    call->push({first_choice + choice, text, sample, std::nullopt, nullptr});
  };
  listener.done = [metrics, call, first_choice](uint32_t choice, const std::string& rest,
                                                const GenerateResult& result) {
    // Who has left is told nothing; who is still there is told that the server stops, and not that
    // the answer is complete. The times of neither say how long an answer takes.
    if (result.reason == StopReason::cancelled) {
      call->push(
          {first_choice + choice, "", std::nullopt, std::nullopt, held_error<StoppingError>()});
      return;
    }
    metrics->whole.add(seconds_now() - call->arrived);
    metrics->queued.add(std::max(
        0.0, seconds_now() - call->arrived - result.prompt_seconds - result.generate_seconds));
    call->push({first_choice + choice, rest, std::nullopt, result, nullptr});
  };
  // Its own: the call's changes with the next prompt of a list, while this one may fail already.
  listener.failed = [call, of_prompt = call->prompt_field](const Error& error) {
    call->push({0, "", std::nullopt, std::nullopt, call->named(error, of_prompt)});
  };
  wanted.cache_scope = call->cache_scope;
  try {
    call->requests.push_back(scheduler.submit(std::move(wanted), std::move(listener)));
  } catch (const FieldError& error) {
    std::rethrow_exception(call->named(error, call->prompt_field));
  }
}

void submit_all(Scheduler& scheduler, const std::shared_ptr<Metrics>& metrics,
                const GenerationRequest& wanted, const std::vector<std::vector<TokenId>>& prompts,
                const std::shared_ptr<Call>& call) {
  call->n = static_cast<uint32_t>(prompts.size()) * wanted.n;
  uint32_t first = 0;
  if (prompts.size() > 1) scheduler.check_room(prompts.size());
  try {
    for (size_t i = 0; i < prompts.size(); ++i) {
      GenerationRequest one = wanted;
      one.prompt = prompts[i];
      if (prompts.size() > 1) call->prompt_field = fmt::format("prompt[{}]", i);
      submit(scheduler, metrics, std::move(one), call, first);
      first += wanted.n;
    }
  } catch (...) {
    cancel(scheduler, *call);
    throw;
  }
}

void cancel(Scheduler& scheduler, const Call& call) {
  for (const RequestId id : call.requests) scheduler.cancel(id);
}

bool follow(Scheduler& scheduler, Call& call, const std::function<bool()>& connected,
            const std::function<bool()>& ping,
            const std::function<bool(Call::Event& event)>& take) {
  double pinged = seconds_now();
  for (uint32_t open = call.n; open > 0;) {
    auto event = call.pop(k_look_seconds);
    bool alive = true;
    if (!event) {
      alive = connected();
      if (alive && seconds_now() - pinged > k_ping_seconds) {
        alive = ping();
        pinged = seconds_now();
      }
    } else if (event->error) {
      cancel(scheduler, call);
      std::rethrow_exception(event->error);
    } else {
      if (event->result) --open;
      alive = take(*event);
    }
    if (!alive) {
      cancel(scheduler, call);
      return false;
    }
  }
  return true;
}

bool follow_stream(Scheduler& scheduler, Call& call, const HttpResponse::Write& write,
                   const std::function<bool()>& connected,
                   const std::function<bool(Call::Event& event)>& take) {
  try {
    return follow(
        scheduler, call, connected, [&] { return write(": \n\n"); }, take);
  } catch (const Error& error) {
    write("data: " + error_response(error).body + "\n\n");
    return false;
  }
}

void end_stream(const Call& call, const char* object, const std::vector<GenerateResult>& results,
                uint32_t n, const HttpResponse::Write& write) {
  if (call.include_usage) {
    Json last = call.base(object);
    last.set("choices", Json::array());
    last.set("usage", usage_of(results, n));
    write("data: " + last.dump() + "\n\n");
  }
  write("data: [DONE]\n\n");
}

Collected collect(Scheduler& scheduler, Call& call, const std::function<bool()>& connected) {
  Collected out;
  out.texts.resize(call.n);
  out.samples.resize(call.n);
  out.results.resize(call.n);
  const bool all = follow(
      scheduler, call, connected, [] { return true; },
      [&](Call::Event& event) {
        out.texts[event.choice] += event.text;
        if (event.sample) out.samples[event.choice].push_back(std::move(*event.sample));
        if (event.result) out.results[event.choice] = std::move(*event.result);
        // Tokens come one by one; the connection is looked at now and then.
        const double now = seconds_now();
        if (now - call.looked < k_look_seconds) return true;
        call.looked = now;
        return connected();
      });
  if (!all) fail(ErrorCode::cancelled, "the client left before its answer was there");
  return out;
}

}  // namespace strata::server
