// Chat and completions: from a request's fields to a generation and back, at once or as a stream.
#include <algorithm>
#include <ctime>

#include "base/error.h"
#include "base/json.h"
#include "server/api.h"
#include "server/call.h"
#include "server/fields.h"

namespace strata::server {
namespace {

// A comment every so often keeps proxies from closing a stream that has nothing to say yet.
constexpr double k_ping_seconds = 15;

}  // namespace

HttpResponse Api::apply_template(const HttpRequest& request) const {
  const Json body = Json::parse(request.body, 100);
  Fields fields(body);
  const auto tokens = engine_.chat_tokens(messages_of(fields));
  HttpResponse out;
  out.body = Json::object({{"prompt", engine_.detokenize(tokens, true)}}).dump();
  return out;
}

HttpResponse Api::generate(const HttpRequest& request, Form form) {
  if (request.body.empty()) fail(ErrorCode::bad_request, "the request has no body; send JSON");
  const Json body = Json::parse(request.body, 100);
  Fields fields(body);
  const auto call = std::make_shared<Call>();
  call->chat = form == Form::chat;
  call->arrived = seconds_now();
  call->created = static_cast<int64_t>(std::time(nullptr));
  call->id = random_id(form == Form::chat ? "chatcmpl-" : "cmpl-");
  call->model = options_.model_name;
  fields.string("model");  // there is one model, whatever it is called

  GenerationRequest wanted;
  if (form == Form::chat) {
    wanted.prompt = engine_.chat_tokens(messages_of(fields));
  } else {
    const Json* prompt = fields.find("prompt");
    if (prompt == nullptr) fields.refuse("prompt", "is missing: a string or a list of token ids");
    if (prompt->is_string()) {
      wanted.prompt = engine_.tokenize(prompt->as_string());
    } else if (prompt->is_array() && !prompt->as_array().empty() &&
               prompt->as_array()[0].is_int()) {
      for (const Json& one : prompt->as_array()) {
        if (!one.is_int() || one.as_int() < 0 || one.as_int() > INT32_MAX) {
          fields.refuse("prompt", "must hold token ids");
        }
        wanted.prompt.push_back(static_cast<TokenId>(one.as_int()));
      }
    } else if (prompt->is_array() && prompt->as_array().size() == 1 &&
               prompt->as_array()[0].is_string()) {
      wanted.prompt = engine_.tokenize(prompt->as_array()[0].as_string());
    } else {
      fields.refuse("prompt", "must be a string or a list of token ids");
    }
  }
  wanted.sampling = sampling_of(fields, options_.sampling);
  wanted.max_tokens = options_.max_tokens;
  for (const char* name : {"n_predict", "max_tokens", "max_completion_tokens"}) {
    if (const auto v = fields.integer(name, -1, INT32_MAX)) wanted.max_tokens = *v;
  }
  wanted.stop = fields.strings("stop", 64);
  wanted.n = static_cast<uint32_t>(fields.integer("n", 1, 128).value_or(1));
  wanted.cache_prompt = fields.boolean("cache_prompt").value_or(true);
  wanted.priority = static_cast<int32_t>(fields.integer("priority", -1000, 1000).value_or(0));
  call->n = wanted.n;
  call->stream = fields.boolean("stream").value_or(false);
  if (const Json* options = fields.object("stream_options")) {
    Fields stream(*options, "stream_options");
    call->include_usage = stream.boolean("include_usage").value_or(false);
  }
  // Chat: true and how many; completions: how many.
  const Json* logprobs = fields.find("logprobs");
  if (logprobs != nullptr && logprobs->is_int()) {
    call->n_probs = static_cast<uint32_t>(fields.integer("logprobs", 0, 20).value_or(0));
    call->logprobs = true;
  } else if (fields.boolean("logprobs").value_or(false)) {
    call->n_probs = static_cast<uint32_t>(fields.integer("top_logprobs", 0, 20).value_or(0));
    call->logprobs = true;
  }
  if (const auto v = fields.integer("n_probs", 0, 100); v && *v > 0) {
    call->n_probs = static_cast<uint32_t>(*v);
    call->logprobs = true;
  }
  wanted.sampling.n_probs = call->logprobs ? std::max(call->n_probs, 1u) : 0;
  wanted.grammar = grammar_of(fields, request.path);
  for (const char* later : {"tools", "functions"}) {
    if (fields.has(later)) {
      fail(ErrorCode::unsupported, "'{}' is not something this server does yet", later);
    }
  }
  warn_unknown(fields, request.path);

  submit(scheduler_, metrics_, std::move(wanted), call);

  HttpResponse response;
  if (!call->stream) {
    const auto [texts, samples, results] = collect(*call);
    if (form == Form::native) {
      const GenerateResult& r = results[0];
      response.body = Json::object({{"index", 0},
                                    {"content", texts[0]},
                                    {"id_slot", -1},
                                    {"stop", true},
                                    {"model", call->model},
                                    {"tokens_predicted", static_cast<uint64_t>(r.tokens.size())},
                                    {"tokens_evaluated", r.prompt_tokens},
                                    {"tokens_cached", r.cached_tokens},
                                    {"truncated", false},
                                    {"stop_type", stop_type(r.reason)},
                                    {"stopping_word", r.stop_string},
                                    {"generation_settings", Json::object({{"seed", r.seed}})},
                                    {"timings", timings_of(r)}})
                          .dump();
      return response;
    }
    Json choices = Json::array();
    for (uint32_t i = 0; i < call->n; ++i) {
      choices.push(call->choice_json(engine_, i, texts[i], samples[i], &results[i], false));
    }
    Json out = call->base(form == Form::chat ? "chat.completion" : "text_completion");
    out.set("choices", std::move(choices));
    out.set("usage", usage_of(results));
    out.set("timings", timings_of(results[0]));
    response.body = out.dump();
    return response;
  }

  response.type = "text/event-stream";
  response.stream = [this, call, form](const HttpResponse::Write& write,
                                       const std::function<bool()>& connected) {
    const auto send = [&](const Json& json) { return write("data: " + json.dump() + "\n\n"); };
    const char* object = call->chat ? "chat.completion.chunk" : "text_completion";
    bool alive = true;
    if (call->chat) {
      for (uint32_t i = 0; i < call->n && alive; ++i) {
        Json first = call->base(object);
        first.set("choices", Json(Json::Array{Json::object(
                                 {{"index", i},
                                  {"delta", Json::object({{"role", "assistant"}, {"content", ""}})},
                                  {"logprobs", Json()},
                                  {"finish_reason", Json()}})}));
        alive = send(first);
      }
    }
    std::vector<GenerateResult> results(call->n);
    double pinged = seconds_now();
    for (uint32_t open = call->n; open > 0 && alive;) {
      // Looks after the client often, so that one who has gone frees its place at once.
      auto event = call->pop(0.1);
      if (!event) {
        alive = connected();
        if (alive && seconds_now() - pinged > k_ping_seconds) {
          alive = write(": \n\n");
          pinged = seconds_now();
        }
        continue;
      }
      if (event->error) {
        // The status is out already: the error is an event.
        const HttpResponse error = error_response(*event->error);
        write("data: " + error.body + "\n\n");
        return;
      }
      std::vector<Sample> samples;
      if (event->sample) samples.push_back(std::move(*event->sample));
      const GenerateResult* result = nullptr;
      if (event->result) {
        results[event->choice] = std::move(*event->result);
        result = &results[event->choice];
        --open;
      }
      if (form == Form::native) {
        Json out =
            Json::object({{"index", 0}, {"content", event->text}, {"stop", result != nullptr}});
        if (result != nullptr) {
          out.set("stop_type", stop_type(result->reason));
          out.set("tokens_predicted", static_cast<uint64_t>(result->tokens.size()));
          out.set("tokens_evaluated", result->prompt_tokens);
          out.set("timings", timings_of(*result));
        }
        alive = send(out);
        continue;
      }
      if (!event->text.empty() || (call->logprobs && !samples.empty())) {
        Json chunk = call->base(object);
        chunk.set("choices", Json(Json::Array{call->choice_json(engine_, event->choice, event->text,
                                                                samples, nullptr, true)}));
        alive = send(chunk);
      }
      if (result != nullptr && alive) {
        Json chunk = call->base(object);
        chunk.set(
            "choices",
            Json(Json::Array{call->choice_json(engine_, event->choice, "", {}, result, true)}));
        if (open == 0) chunk.set("timings", timings_of(*result));
        alive = send(chunk);
      }
    }
    if (!alive) {
      scheduler_.cancel(call->request);
      return;
    }
    if (call->include_usage) {
      Json chunk = call->base(object);
      chunk.set("choices", Json::array());
      chunk.set("usage", usage_of(results));
      send(chunk);
    }
    if (form != Form::native) write("data: [DONE]\n\n");
  };
  return response;
}

}  // namespace strata::server
