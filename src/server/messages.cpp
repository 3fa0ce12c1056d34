// Anthropic's form of a conversation: /v1/messages, at once or as a stream of named events.
#include "base/error.h"
#include "base/json.h"
#include "server/api.h"
#include "server/call.h"
#include "server/fields.h"
#include "server/request.h"

namespace strata::server {
namespace {

const char* stop_reason(StopReason reason) {
  switch (reason) {
    case StopReason::length:
    case StopReason::context_full:
      return "max_tokens";
    case StopReason::stop_string:
      return "stop_sequence";
    default:
      return "end_turn";
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

// "system" is a text or a list of text blocks.
std::string system_of(Fields& fields) {
  const Json* system = fields.find("system");
  if (system == nullptr) return "";
  if (system->is_string()) return system->as_string();
  if (!system->is_array()) fields.refuse("system", "must be a string or a list of text blocks");
  std::string out;
  for (const Json& one : system->as_array()) {
    Fields block(one, "system");
    out += block.string("text").value_or("");
  }
  return out;
}

}  // namespace

HttpResponse Api::messages(const HttpRequest& request) {
  const Json body = parse_body(request);
  Fields fields(body);
  const auto call = new_call(request, "msg_");
  call->chat = true;
  call->model = fields.string("model").value_or(options_.model_name);

  GenerationRequest wanted;
  std::vector<ChatMessage> messages;
  if (const std::string system = system_of(fields); !system.empty()) {
    messages.push_back({"system", system});
  }
  for (ChatMessage& message : messages_of(fields)) messages.push_back(std::move(message));
  wanted.prompt = engine_.chat_tokens(messages);
  wanted.sampling = sampling_of(fields, options_.sampling);
  const auto most = fields.integer("max_tokens", 1, INT32_MAX);
  if (!most) fields.refuse("max_tokens", "is missing: the most tokens to generate");
  wanted.max_tokens = *most;
  wanted.stop = fields.strings("stop_sequences", 64);
  call->stream = fields.boolean("stream").value_or(false);
  fields.find("metadata");  // of the client's own
  if (fields.has("tools")) {
    fail(ErrorCode::unsupported, "'tools' is not something this server does yet");
  }
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
    const Collected all = collect(scheduler_, *call, request.connected);
    const GenerateResult& r = all.results[0];
    Json content = Json::array();
    content.push(Json::object({{"type", "text"}, {"text", all.texts[0]}}));
    response.body = message(std::move(content), stop_reason(r.reason), stop_sequence(r),
                            usage(r.prompt_tokens, r.cached_tokens, r.tokens.size()))
                        .dump();
    return response;
  }
  response.type = "text/event-stream";
  response.stream = [this, call, message, prompt](const HttpResponse::Write& write,
                                                  const std::function<bool()>& connected) {
    const auto send = [&](const char* name, Json data) {
      Json event = Json::object({{"type", name}});
      for (auto& [key, value] : data.as_object()) event.set(key, value);
      return write(std::string("event: ") + name + "\ndata: " + event.dump() + "\n\n");
    };
    bool alive =
        send("message_start", Json::object({{"message", message(Json::array(), Json(), Json(),
                                                                usage(prompt, 0, 0))}})) &&
        send("content_block_start",
             Json::object({{"index", 0},
                           {"content_block", Json::object({{"type", "text"}, {"text", ""}})}}));
    const auto take = [&](Call::Event& event) {
      if (!event.text.empty()) {
        alive =
            send("content_block_delta",
                 Json::object(
                     {{"index", 0},
                      {"delta", Json::object({{"type", "text_delta"}, {"text", event.text}})}}));
      }
      if (event.result && alive) {
        const GenerateResult& r = *event.result;
        send("content_block_stop", Json::object({{"index", 0}}));
        send("message_delta",
             Json::object({{"delta", Json::object({{"stop_reason", stop_reason(r.reason)},
                                                   {"stop_sequence", stop_sequence(r)}})},
                           {"usage", usage(r.prompt_tokens, r.cached_tokens, r.tokens.size())}}));
        send("message_stop", Json::object());
      }
      return alive;
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
