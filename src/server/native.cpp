// llama-server's own form of a completion: /completion, with its field names.
#include <cmath>

#include "base/error.h"
#include "base/json.h"
#include "server/api.h"
#include "server/call.h"
#include "server/request.h"

namespace strata::server {
namespace {

// What the request was taken to ask for.
Json settings_of(const GenerationRequest& wanted, const Call& call, uint64_t seed) {
  const SamplingOptions& s = wanted.sampling;
  Json stop = Json::array();
  for (const std::string& one : wanted.stop) stop.push(one);
  Json bias = Json::array();
  for (const auto& [token, value] : s.logit_bias) {
    bias.push(Json::object({{"token", token},
                            // JSON has no infinity; llama-server prints null as well.
                            {"bias", std::isfinite(value) ? Json(value) : Json()}}));
  }
  Json out = sampling_json(s, wanted.max_tokens);
  out.set("seed", seed);
  out.set("min_keep", s.min_keep);
  out.set("n_probs", call.n_probs);
  out.set("logit_bias", std::move(bias));
  out.set("stop", std::move(stop));
  out.set("stream", call.stream);
  return out;
}

Json token_list(const std::vector<TokenId>& tokens) {
  Json out = Json::array();
  for (const TokenId id : tokens) out.push(id);
  return out;
}

// What a request and its answers have in common.
struct Native {
  std::shared_ptr<Call> call;
  GenerationRequest wanted;
  std::vector<std::vector<TokenId>> prompts;
  bool return_tokens = false;

  const std::vector<TokenId>& prompt(uint32_t choice) const { return prompts[choice / wanted.n]; }

  Json probabilities(const Engine& engine, const std::vector<Sample>& samples) const {
    Json logprobs = call->logprobs_json(engine, samples);
    return logprobs.is_null() ? Json() : *logprobs.find("content");
  }

  // The last word on an answer. Where the text was streamed it is not repeated.
  Json final_json(const Engine& engine, uint32_t choice, const std::string& text,
                  const GenerateResult& r) const {
    Json out = Json::object({{"index", choice},
                             {"content", text},
                             {"tokens", return_tokens ? token_list(r.tokens) : Json::array()},
                             {"id_slot", -1},
                             {"stop", true},
                             {"model", call->model},
                             {"tokens_predicted", static_cast<uint64_t>(r.tokens.size())},
                             {"tokens_evaluated", r.prompt_tokens},
                             {"tokens_cached", r.cached_tokens},
                             {"prompt", engine.detokenize(prompt(choice), true)},
                             {"generation_settings", settings_of(wanted, *call, r.seed)},
                             {"has_new_line", r.text.find('\n') != std::string::npos},
                             {"truncated", false},
                             {"stop_type", stop_type(r.reason)},
                             {"stopping_word", r.stop_string},
                             {"timings", timings_of(r)}});
    return out;
  }
};

}  // namespace

HttpResponse Api::native(const HttpRequest& request) {
  const Json body = parse_body(request);
  Fields fields(body);
  const auto native = std::make_shared<Native>();
  const auto call = new_call(request, "cmpl-");
  native->call = call;
  fields.string("model");  // there is one model, whatever it is called
  native->prompts = prompts_of(engine_, fields);
  read_generation(fields, options_, native->wanted, *call);
  read_grammar(fields, request.path, native->wanted, *call);
  native->return_tokens = fields.boolean("return_tokens").value_or(false);
  // Requests are not bound to places here; any will do.
  fields.integer("id_slot", -1, INT32_MAX);
  warn_unknown(fields, request.path);
  submit_all(scheduler_, metrics_, native->wanted, native->prompts, call);

  HttpResponse response;
  if (!call->stream) {
    const auto [texts, samples, results] = collect(scheduler_, *call, request.connected);
    Json all = Json::array();
    for (uint32_t i = 0; i < call->n; ++i) {
      Json one = native->final_json(engine_, i, texts[i], results[i]);
      if (call->logprobs) {
        one.set("completion_probabilities", native->probabilities(engine_, samples[i]));
      }
      all.push(std::move(one));
    }
    response.body = (call->n == 1 ? all.as_array()[0] : all).dump();
    return response;
  }

  response.type = "text/event-stream";
  response.stream = [this, native](const HttpResponse::Write& write,
                                   const std::function<bool()>& connected) {
    const Call& own = *native->call;
    const auto send = [&](const Json& json) { return write("data: " + json.dump() + "\n\n"); };
    std::vector<uint64_t> predicted(own.n, 0);
    const auto take = [&](Call::Event& event) {
      std::vector<Sample> samples;
      Json tokens = Json::array();
      if (event.sample) {
        ++predicted[event.choice];
        if (native->return_tokens) tokens.push(event.sample->id);
        samples.push_back(std::move(*event.sample));
      }
      bool alive = true;
      if (!event.text.empty() || !tokens.as_array().empty() || (own.logprobs && !samples.empty())) {
        Json out = Json::object(
            {{"index", event.choice},
             {"content", event.text},
             {"tokens", std::move(tokens)},
             {"stop", false},
             {"id_slot", -1},
             {"tokens_predicted", predicted[event.choice]},
             {"tokens_evaluated", static_cast<uint64_t>(native->prompt(event.choice).size())}});
        if (own.logprobs) {
          out.set("completion_probabilities", native->probabilities(engine_, samples));
        }
        alive = send(out);
      }
      if (event.result && alive) {
        alive = send(native->final_json(engine_, event.choice, "", *event.result));
      }
      return alive;
    };
    follow_stream(scheduler_, *native->call, write, connected, take);
  };
  return response;
}

}  // namespace strata::server
