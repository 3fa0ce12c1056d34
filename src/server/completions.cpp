// OpenAI's completions: /v1/completions, one prompt or many, at once or as a stream.
#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "server/api.h"
#include "server/call.h"
#include "server/request.h"

namespace strata::server {
namespace {

uint64_t characters_of(const std::string& text) {
  uint64_t n = 0;
  for (size_t at = 0; at < text.size(); at += decode_utf8(text, at).length) ++n;
  return n;
}

// The older shape: parallel lists. `offset` counts the characters of the answer so far.
Json token_lists(const Engine& engine, const Call& call, const std::vector<Sample>& samples,
                 uint64_t& offset) {
  if (!call.logprobs) return Json();
  Json tokens = Json::array(), logprobs = Json::array(), top = Json::array(),
       offsets = Json::array();
  for (const Sample& sample : samples) {
    const std::string text = replace_invalid_utf8(engine.detokenize({&sample.id, 1}, true));
    tokens.push(text);
    logprobs.push(double{sample.log_probability});
    offsets.push(offset);
    offset += characters_of(text);
    Json others = Json::object();
    for (const TokenProbability& other : sample.top) {
      others.set(replace_invalid_utf8(engine.detokenize({&other.id, 1}, true)),
                 double{other.log_probability});
    }
    top.push(std::move(others));
  }
  return Json::object({{"tokens", std::move(tokens)},
                       {"token_logprobs", std::move(logprobs)},
                       {"top_logprobs", std::move(top)},
                       {"text_offset", std::move(offsets)}});
}

}  // namespace

HttpResponse Api::completions(const HttpRequest& request) {
  const Json body = parse_body(request);
  Fields fields(body);
  const auto call = new_call(request, "cmpl-");
  fields.string("model");  // there is one model, whatever it is called
  const std::vector<std::vector<TokenId>> prompts = prompts_of(engine_, fields);
  GenerationRequest wanted;
  read_generation(fields, options_, wanted, *call);
  read_grammar(fields, request.path, wanted, *call);
  if (fields.boolean("echo").value_or(false)) {
    fields.refuse("echo", "is not something this server does; the prompt is the client's own");
  }
  warn_unknown(fields, request.path);
  submit_all(scheduler_, metrics_, wanted, prompts, call);
  const uint32_t n = wanted.n;

  HttpResponse response;
  if (!call->stream) {
    const auto [texts, samples, results] = collect(scheduler_, *call, request.connected);
    Json choices = Json::array();
    for (uint32_t i = 0; i < call->n; ++i) {
      uint64_t offset = 0;
      choices.push(Json::object({{"index", i},
                                 {"text", texts[i]},
                                 {"logprobs", token_lists(engine_, *call, samples[i], offset)},
                                 {"finish_reason", finish_reason(results[i].reason)}}));
    }
    Json out = call->base("text_completion");
    out.set("choices", std::move(choices));
    out.set("usage", usage_of(results, n));
    out.set("timings", timings_of(results[0]));
    response.body = out.dump();
    return response;
  }

  response.type = "text/event-stream";
  response.stream = [this, call, n](const HttpResponse::Write& write,
                                    const std::function<bool()>& connected) {
    const auto send = [&](const Json& json) { return write("data: " + json.dump() + "\n\n"); };
    const auto chunk = [&](uint32_t choice, const std::string& text, Json logprobs, Json reason) {
      Json out = call->base("text_completion");
      out.set("choices", Json(Json::Array{Json::object({{"index", choice},
                                                        {"text", text},
                                                        {"logprobs", std::move(logprobs)},
                                                        {"finish_reason", std::move(reason)}})}));
      return out;
    };
    std::vector<GenerateResult> results(call->n);
    std::vector<uint64_t> offsets(call->n, 0);
    uint32_t open = call->n;
    const auto take = [&](Call::Event& event) {
      std::vector<Sample> samples;
      if (event.sample) samples.push_back(std::move(*event.sample));
      bool alive = true;
      if (!event.text.empty() || (call->logprobs && !samples.empty())) {
        alive = send(chunk(event.choice, event.text,
                           token_lists(engine_, *call, samples, offsets[event.choice]), Json()));
      }
      if (event.result && alive) {
        GenerateResult& result = results[event.choice];
        result = std::move(*event.result);
        Json last = chunk(event.choice, "", Json(), finish_reason(result.reason));
        if (--open == 0) last.set("timings", timings_of(result));
        alive = send(last);
      }
      return alive;
    };
    if (follow_stream(scheduler_, *call, write, connected, take)) {
      end_stream(*call, "text_completion", results, n, write);
    }
  };
  return response;
}

}  // namespace strata::server
