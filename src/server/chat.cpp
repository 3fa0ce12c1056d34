// OpenAI's conversations: /v1/chat/completions, at once or as a stream, and the template alone.
#include "base/error.h"
#include "base/json.h"
#include "server/answer.h"
#include "server/api.h"
#include "server/call.h"
#include "server/conversation.h"
#include "server/request.h"

namespace strata::server {
namespace {

using text::AnswerPiece;

constexpr const char* k_chunk = "chat.completion.chunk";

Json message_json(const text::ParsedAnswer& answer) {
  Json out = Json::object({{"role", "assistant"}});
  const bool calls = !answer.calls.empty();
  out.set("content", calls && answer.content.empty() ? Json() : Json(answer.content));
  if (!answer.reasoning.empty()) out.set("reasoning_content", answer.reasoning);
  if (calls) {
    Json list = Json::array();
    for (const text::ParsedCall& call : answer.calls) {
      list.push(Json::object(
          {{"id", call.id},
           {"type", "function"},
           {"function", Json::object({{"name", call.name}, {"arguments", call.arguments}})}}));
    }
    out.set("tool_calls", std::move(list));
  }
  return out;
}

Json delta_of(const AnswerPiece& piece) {
  switch (piece.kind) {
    case AnswerPiece::Kind::reasoning:
      return Json::object({{"reasoning_content", piece.text}});
    case AnswerPiece::Kind::content:
      return Json::object({{"content", piece.text}});
    case AnswerPiece::Kind::call:
    case AnswerPiece::Kind::arguments:
      break;
  }
  // Id, type and name come once; the arguments follow in parts.
  const bool first = piece.kind == AnswerPiece::Kind::call;
  Json call = Json::object({{"index", piece.index}});
  Json function = Json::object();
  if (first) {
    call.set("id", piece.id);
    call.set("type", "function");
    function.set("name", piece.name);
  }
  function.set("arguments", first ? "" : piece.text);
  call.set("function", std::move(function));
  return Json::object({{"tool_calls", Json(Json::Array{std::move(call)})}});
}

}  // namespace

HttpResponse Api::apply_template(const HttpRequest& request) const {
  const Json body = parse_body(request);
  Fields fields(body);
  const Conversation c = conversation_of(fields, options_);
  const Chat::Prompt prompt = prompt_of(engine_, c);
  HttpResponse out;
  out.body = Json::object({{"prompt", engine_.detokenize(prompt.tokens, true)}}).dump();
  return out;
}

HttpResponse Api::chat(const HttpRequest& request) {
  const Json body = parse_body(request);
  Fields fields(body);
  const auto call = new_call(request, "chatcmpl-");
  call->chat = true;
  fields.string("model");  // there is one model, whatever it is called

  GenerationRequest wanted;
  const Conversation conversation = conversation_of(fields, options_);
  read_generation(fields, options_, wanted, *call);
  const auto form = std::make_shared<const AnswerForm>(
      prepare(engine_, conversation, shape_of(fields, request.path), request.path, wanted, *call));
  warn_unknown(fields, request.path);
  submit(scheduler_, metrics_, std::move(wanted), call);

  HttpResponse response;
  if (!call->stream) {
    const auto answers = collect_answers(scheduler_, *call, *form, request.connected);
    Json choices = Json::array();
    std::vector<GenerateResult> results;
    for (uint32_t i = 0; i < call->n; ++i) {
      const auto calls = static_cast<uint32_t>(answers[i].parsed.calls.size());
      results.push_back(answers[i].result);
      choices.push(
          Json::object({{"index", i},
                        {"message", message_json(answers[i].parsed)},
                        {"logprobs", call->logprobs_json(engine_, answers[i].samples)},
                        {"finish_reason", finish_reason(*form, answers[i].result.reason, calls)}}));
    }
    Json out = call->base("chat.completion");
    out.set("choices", std::move(choices));
    out.set("usage", usage_of(results, call->n));
    out.set("timings", timings_of(results[0]));
    response.body = out.dump();
    return response;
  }

  response.type = "text/event-stream";
  response.stream = [this, call, form](const HttpResponse::Write& write,
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
    AnswerReader reader(*form, call->n);
    std::vector<GenerateResult> results(call->n);
    uint32_t open = call->n;
    const auto take = [&](Call::Event& event) {
      const std::vector<AnswerPiece> pieces = reader.read(event);
      std::vector<Sample> samples;
      if (event.sample) samples.push_back(std::move(*event.sample));
      bool alive = true;
      // A token is told of with the first that comes of it.
      if (pieces.empty() && call->logprobs && !samples.empty()) {
        alive = send(
            chunk(event.choice, Json::object(), call->logprobs_json(engine_, samples), Json()));
      }
      for (const AnswerPiece& piece : pieces) {
        if (!alive) return false;
        Json logprobs = samples.empty() ? Json() : call->logprobs_json(engine_, samples);
        samples.clear();
        alive = send(chunk(event.choice, delta_of(piece), std::move(logprobs), Json()));
      }
      if (event.result && alive) {
        GenerateResult& result = results[event.choice];
        result = std::move(*event.result);
        Json last = chunk(event.choice, Json::object(), Json(),
                          finish_reason(*form, result.reason, reader.calls(event.choice)));
        if (--open == 0) last.set("timings", timings_of(result));
        alive = send(last);
      }
      return alive;
    };
    if (follow_stream(scheduler_, *call, write, connected, take)) {
      end_stream(*call, k_chunk, results, call->n, write);
    }
  };
  return response;
}

}  // namespace strata::server
