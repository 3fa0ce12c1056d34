// OpenAI's conversations: /v1/chat/completions, at once or as a stream, and the template alone.
#include "base/error.h"
#include "base/json.h"
#include "server/api.h"
#include "server/call.h"
#include "server/request.h"

namespace strata::server {
namespace {

constexpr const char* k_chunk = "chat.completion.chunk";

}  // namespace

HttpResponse Api::apply_template(const HttpRequest& request) const {
  const Json body = parse_body(request);
  Fields fields(body);
  const auto tokens = engine_.chat_tokens(messages_of(fields));
  HttpResponse out;
  out.body = Json::object({{"prompt", engine_.detokenize(tokens, true)}}).dump();
  return out;
}

HttpResponse Api::chat(const HttpRequest& request) {
  const Json body = parse_body(request);
  Fields fields(body);
  const auto call = new_call(request, "chatcmpl-");
  call->chat = true;
  fields.string("model");  // there is one model, whatever it is called

  GenerationRequest wanted;
  wanted.prompt = engine_.chat_tokens(messages_of(fields));
  read_generation(fields, request.path, options_, wanted, *call);
  for (const char* later : {"tools", "functions"}) {
    if (fields.has(later)) {
      fail(ErrorCode::unsupported, "'{}' is not something this server does yet", later);
    }
  }
  warn_unknown(fields, request.path);
  submit(scheduler_, metrics_, std::move(wanted), call);

  HttpResponse response;
  if (!call->stream) {
    const auto [texts, samples, results] = collect(scheduler_, *call, request.connected);
    Json choices = Json::array();
    for (uint32_t i = 0; i < call->n; ++i) {
      choices.push(
          Json::object({{"index", i},
                        {"message", Json::object({{"role", "assistant"}, {"content", texts[i]}})},
                        {"logprobs", call->logprobs_json(engine_, samples[i])},
                        {"finish_reason", finish_reason(results[i].reason)}}));
    }
    Json out = call->base("chat.completion");
    out.set("choices", std::move(choices));
    out.set("usage", usage_of(results, call->n));
    out.set("timings", timings_of(results[0]));
    response.body = out.dump();
    return response;
  }

  response.type = "text/event-stream";
  response.stream = [this, call](const HttpResponse::Write& write,
                                 const std::function<bool()>& connected) {
    const auto send = [&](const Json& json) { return write("data: " + json.dump() + "\n\n"); };
    const auto chunk = [&](uint32_t choice, Json delta, Json logprobs, Json reason) {
      Json out = call->base(k_chunk);
      out.set("choices", Json(Json::Array{Json::object({{"index", choice},
                                                        {"delta", std::move(delta)},
                                                        {"logprobs", std::move(logprobs)},
                                                        {"finish_reason", std::move(reason)}})}));
      return out;
    };
    for (uint32_t i = 0; i < call->n; ++i) {
      send(chunk(i, Json::object({{"role", "assistant"}, {"content", ""}}), Json(), Json()));
    }
    std::vector<GenerateResult> results(call->n);
    uint32_t open = call->n;
    const auto take = [&](Call::Event& event) {
      std::vector<Sample> samples;
      if (event.sample) samples.push_back(std::move(*event.sample));
      bool alive = true;
      if (!event.text.empty() || (call->logprobs && !samples.empty())) {
        Json delta = Json::object();
        if (!event.text.empty()) delta.set("content", event.text);
        alive = send(
            chunk(event.choice, std::move(delta), call->logprobs_json(engine_, samples), Json()));
      }
      if (event.result && alive) {
        GenerateResult& result = results[event.choice];
        result = std::move(*event.result);
        Json last = chunk(event.choice, Json::object(), Json(), finish_reason(result.reason));
        if (--open == 0) last.set("timings", timings_of(result));
        alive = send(last);
      }
      return alive;
    };
    try {
      if (!follow(
              scheduler_, *call, connected, [&] { return write(": \n\n"); }, take)) {
        return;
      }
    } catch (const Error& error) {
      // The status is out already: the error is an event.
      write("data: " + error_response(error).body + "\n\n");
      return;
    }
    if (call->include_usage) {
      Json last = call->base(k_chunk);
      last.set("choices", Json::array());
      last.set("usage", usage_of(results, call->n));
      send(last);
    }
    write("data: [DONE]\n\n");
  };
  return response;
}

}  // namespace strata::server
