// Anthropic's form of a conversation: /v1/messages, at once or as a stream of named events.
#include "base/error.h"
#include "base/json.h"
#include "server/answer.h"
#include "server/api.h"
#include "server/call.h"
#include "server/conversation.h"
#include "server/fields.h"
#include "server/request.h"

namespace strata::server {
namespace {

using text::AnswerPiece;

const char* stop_reason(StopReason reason, uint32_t calls) {
  switch (reason) {
    case StopReason::length:
    case StopReason::context_full:
      return "max_tokens";
    case StopReason::stop_string:
      return "stop_sequence";
    default:
      return calls > 0 ? "tool_use" : "end_turn";
  }
}

Json stop_sequence(const GenerateResult& r) {
  return r.reason == StopReason::stop_string ? Json(r.stop_string) : Json();
}

Json usage(uint64_t input, uint64_t cached, uint64_t output) {
  return Json::object({{"input_tokens", input - cached},
                       {"cache_read_input_tokens", cached},
                       {"output_tokens", output}});
}

Json text_block(const std::string& text) {
  return Json::object({{"type", "text"}, {"text", text}});
}

Json thinking_block(const std::string& text) {
  return Json::object({{"type", "thinking"}, {"thinking", text}, {"signature", ""}});
}

Json call_block(const std::string& id, const std::string& name, Json input) {
  return Json::object(
      {{"type", "tool_use"}, {"id", id}, {"name", name}, {"input", std::move(input)}});
}

// Arguments that were cut off are no JSON.
Json input_of(const std::string& arguments) {
  try {
    Json value = Json::parse(arguments);
    if (value.is_object()) return value;
  } catch (const Error&) {
  }
  return Json::object();
}

Json content_json(const text::ParsedAnswer& answer) {
  Json out = Json::array();
  if (!answer.reasoning.empty()) out.push(thinking_block(answer.reasoning));
  if (!answer.content.empty() || (answer.calls.empty() && answer.reasoning.empty())) {
    out.push(text_block(answer.content));
  }
  for (const text::ParsedCall& call : answer.calls) {
    out.push(call_block(call.id, call.name, input_of(call.arguments)));
  }
  return out;
}

// Tells the pieces of an answer as blocks, one after the other.
class BlockWriter {
 public:
  using Send = std::function<bool(const char* name, Json data)>;
  explicit BlockWriter(Send send) : send_(std::move(send)) {}

  bool write(const AnswerPiece& piece) {
    switch (piece.kind) {
      case AnswerPiece::Kind::reasoning:
        return open(Kind::thinking, thinking_block("")) &&
               delta("thinking_delta", "thinking", piece.text);
      case AnswerPiece::Kind::content:
        return open(Kind::text, text_block("")) && delta("text_delta", "text", piece.text);
      case AnswerPiece::Kind::call:
        return close() && open(Kind::call, call_block(piece.id, piece.name, Json::object()));
      case AnswerPiece::Kind::arguments:
        return delta("input_json_delta", "partial_json", piece.text);
    }
    return true;
  }
  // Every answer has a block, if an empty one.
  bool finish() {
    if (blocks_ == 0 && !open(Kind::text, text_block(""))) return false;
    return close();
  }

 private:
  enum class Kind { none, thinking, text, call };

  bool open(Kind kind, Json block) {
    if (kind == kind_ && kind != Kind::call) return true;
    if (!close()) return false;
    kind_ = kind;
    return send_("content_block_start",
                 Json::object({{"index", blocks_++}, {"content_block", std::move(block)}}));
  }
  bool delta(const char* type, const char* key, const std::string& text) {
    return send_("content_block_delta",
                 Json::object({{"index", blocks_ - 1},
                               {"delta", Json::object({{"type", type}, {key, text}})}}));
  }
  bool close() {
    if (kind_ == Kind::none) return true;
    kind_ = Kind::none;
    return send_("content_block_stop", Json::object({{"index", blocks_ - 1}}));
  }

  Send send_;
  Kind kind_ = Kind::none;
  uint32_t blocks_ = 0;
};

}  // namespace

HttpResponse Api::count_tokens(const HttpRequest& request) const {
  const Json body = parse_body(request);
  Fields fields(body);
  const Conversation c = anthropic_conversation_of(fields, options_);
  const auto prompt = prompt_of(engine_, c);
  HttpResponse out;
  out.body = Json::object({{"input_tokens", static_cast<uint64_t>(prompt.tokens.size())}}).dump();
  return out;
}

HttpResponse Api::messages(const HttpRequest& request) {
  const Json body = parse_body(request);
  Fields fields(body);
  const auto call = new_call(request, "msg_");
  call->chat = true;
  call->model = fields.string("model").value_or(options_.model_name);

  GenerationRequest wanted;
  const Conversation conversation = anthropic_conversation_of(fields, options_);
  const auto form = std::make_shared<const AnswerForm>(
      prepare(engine_, conversation, std::nullopt, request.path, wanted, *call));
  wanted.sampling = sampling_of(fields, options_.sampling);
  const auto most = fields.integer("max_tokens", 1, INT32_MAX);
  if (!most) fields.refuse("max_tokens", "is missing: the most tokens to generate");
  wanted.max_tokens = *most;
  wanted.stop = fields.strings("stop_sequences", 64);
  call->stream = fields.boolean("stream").value_or(false);
  fields.find("metadata");  // of the client's own
  warn_unknown(fields, request.path);
  const uint64_t prompt = wanted.prompt.size();
  submit(scheduler_, metrics_, std::move(wanted), call);

  const auto message = [call](Json content, Json reason, Json sequence, Json counts) {
    return Json::object({{"id", call->id},
                         {"type", "message"},
                         {"role", "assistant"},
                         {"model", call->model},
                         {"content", std::move(content)},
                         {"stop_reason", std::move(reason)},
                         {"stop_sequence", std::move(sequence)},
                         {"usage", std::move(counts)}});
  };
  HttpResponse response;
  if (!call->stream) {
    const auto answers = collect_answers(scheduler_, *call, *form, request.connected);
    const text::ParsedAnswer& answer = answers[0].parsed;
    const GenerateResult& r = answers[0].result;
    const auto calls = static_cast<uint32_t>(answer.calls.size());
    response.body = message(content_json(answer), stop_reason(r.reason, calls), stop_sequence(r),
                            usage(r.prompt_tokens, r.cached_tokens, r.tokens.size()))
                        .dump();
    return response;
  }
  response.type = "text/event-stream";
  response.stream = [this, call, form, message, prompt](const HttpResponse::Write& write,
                                                        const std::function<bool()>& connected) {
    const auto send = [&](const char* name, Json data) {
      Json event = Json::object({{"type", name}});
      for (auto& [key, value] : data.as_object()) event.set(key, value);
      return write(std::string("event: ") + name + "\ndata: " + event.dump() + "\n\n");
    };
    if (!send("message_start", Json::object({{"message", message(Json::array(), Json(), Json(),
                                                                 usage(prompt, 0, 0))}}))) {
      cancel(scheduler_, *call);
      return;
    }
    AnswerReader reader(*form, 1);
    BlockWriter blocks(send);
    const auto take = [&](Call::Event& event) {
      for (const AnswerPiece& piece : reader.read(event)) {
        if (!blocks.write(piece)) return false;
      }
      if (!event.result) return true;
      const GenerateResult& r = *event.result;
      return blocks.finish() &&
             send("message_delta",
                  Json::object(
                      {{"delta",
                        Json::object({{"stop_reason", stop_reason(r.reason, reader.calls(0))},
                                      {"stop_sequence", stop_sequence(r)}})},
                       {"usage", usage(r.prompt_tokens, r.cached_tokens, r.tokens.size())}})) &&
             send("message_stop", Json::object());
    };
    try {
      follow(
          scheduler_, *call, connected, [&] { return send("ping", Json::object()); }, take);
    } catch (const Error& error) {
      send("error",
           Json::object(
               {{"error", Json::object({{"type", "api_error"}, {"message", error.what()}})}}));
    }
  };
  return response;
}

}  // namespace strata::server
