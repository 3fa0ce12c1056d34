// OpenAI's Responses: /v1/responses, at once or as a stream of named events.
//
// A request is put into the form of chat completions and goes the same way; what comes back is told
// as items. Nothing is stored: a conversation is sent whole each time.
#include <algorithm>
#include <ctime>
#include <utility>

#include "base/error.h"
#include "base/field_error.h"
#include "base/json.h"
#include "base/log.h"
#include "server/answer.h"
#include "server/api.h"
#include "server/call.h"
#include "server/conversation.h"
#include "server/request.h"

namespace strata::server {
namespace {

constexpr double k_look_seconds = 0.1;  // after the client

// ---- From a request to a chat

// The text of "content" or "output": a string, or a list of parts that hold text.
std::string text_of(Fields& item, const char* name) {
  const Json* content = item.find(name);
  if (content == nullptr) return "";
  if (content->is_string()) return content->as_string();
  if (!content->is_array()) item.refuse(name, "must be a string or a list of parts");
  std::string out;
  for (size_t i = 0; i < content->as_array().size(); ++i) {
    Fields part(content->as_array()[i], fmt::format("{}[{}]", item.path_of(name), i));
    const std::string type = part.string("type").value_or("input_text");
    const bool refusal = type == "refusal";
    if (type != "input_text" && type != "output_text" && type != "text" &&
        type != "reasoning_text" && !refusal) {
      part.refuse("type", fmt::format("is '{}'; this server reads text only", printable(type)));
    }
    out += part.string(refusal ? "refusal" : "text").value_or("");
  }
  return out;
}

// Messages as chat completions have them. What belongs to one turn of the assistant (what it
// thought, said and called) is one message.
class Turns {
 public:
  void add(const Json& one, const std::string& where) {
    where_ = where;
    Fields item(one, where);
    const std::string type = item.string("type").value_or("message");
    if (type == "message") {
      add_message(item);
    } else if (type == "reasoning") {
      assistant().set("reasoning_content", text_of(item, "content"));
    } else if (type == "function_call") {
      add_call(item);
    } else if (type == "function_call_output") {
      const auto id = item.string("call_id");
      if (!id) item.refuse("call_id", "is missing");
      push("tool", text_of(item, "output")).set("tool_call_id", *id);
    } else if (type == "item_reference") {
      item.refuse("type", "is 'item_reference', but nothing is stored here; send the item itself");
    } else {
      log::warning("/v1/responses: an item of type '{}' is not known and was left out",
                   printable(type));
    }
  }
  Json& push(const std::string& role, std::string content) {
    messages_.push(Json::object({{"role", role}, {"content", std::move(content)}}));
    places_.push_back(where_);
    return messages_.as_array().back();
  }
  Json take(std::vector<std::string>& places) {
    places = std::move(places_);
    return std::move(messages_);
  }
  // Where in the request the next ones come from.
  void set_place(const char* where) { where_ = where; }

 private:
  void add_message(Fields& item) {
    const auto role = item.string("role");
    if (!role) item.refuse("role", "is missing");
    const std::string text = text_of(item, "content");
    if (*role != "assistant") {
      push(*role, text);
      return;
    }
    Json& message = assistant();
    message.set("content", message.find("content")->as_string() + text);
  }
  void add_call(Fields& item) {
    const auto id = item.string("call_id");
    const auto name = item.string("name");
    if (!id) item.refuse("call_id", "is missing");
    if (!name) item.refuse("name", "is missing");
    Json call = Json::object(
        {{"id", *id},
         {"type", "function"},
         {"function", Json::object({{"name", *name},
                                    {"arguments", item.string("arguments").value_or("{}")}})}});
    Json& message = assistant();
    const Json* before = message.find("tool_calls");
    Json calls = before == nullptr ? Json::array() : *before;
    calls.push(std::move(call));
    message.set("tool_calls", std::move(calls));
  }
  // The assistant's turn that is going on, or a new one.
  Json& assistant() {
    if (!messages_.as_array().empty()) {
      Json& last = messages_.as_array().back();
      if (last.find("role")->as_string() == "assistant") return last;
    }
    return push("assistant", "");
  }

  Json messages_ = Json::array();
  std::string where_;
  std::vector<std::string> places_;  // of the messages
};

Json messages_from(Fields& fields, std::vector<std::string>& places) {
  Turns conversation;
  if (const auto text = fields.string("instructions"); text && !text->empty()) {
    conversation.set_place("instructions");
    conversation.push("system", *text);
  }
  const Json* input = fields.find("input");
  if (input == nullptr) fields.refuse("input", "is missing: a string or a list of items");
  if (input->is_string()) {
    conversation.set_place("input");
    conversation.push("user", input->as_string());
  } else if (input->is_array() && !input->as_array().empty()) {
    for (size_t i = 0; i < input->as_array().size(); ++i) {
      conversation.add(input->as_array()[i], fmt::format("input[{}]", i));
    }
  } else {
    fields.refuse("input", "must be a string or a list of items");
  }
  return conversation.take(places);
}

// Functions only. Tools that a service of OpenAI's would run are left out, and the log says so.
std::vector<text::Tool> tools_from(Fields& fields) {
  ToolReader reader;
  const Json* list = fields.list("tools");
  if (list == nullptr) return {};
  for (size_t i = 0; i < list->as_array().size(); ++i) {
    const std::string where = fmt::format("tools[{}]", i);
    Fields tool(list->as_array()[i], where);
    const auto type = tool.string("type");
    if (!type) tool.refuse("type", "is missing");
    if (*type == "function") {
      reader.add(list->as_array()[i], where);
    } else {
      log::warning("/v1/responses: a tool of type '{}' is not known and was left out",
                   printable(*type));
    }
  }
  return reader.take();
}

// "tool_choice", as chat completions have it: of tools that were left out nothing is left here.
Json choice_from(Fields& fields) {
  const Json* choice = fields.find("tool_choice");
  if (choice == nullptr || !choice->is_object()) return choice == nullptr ? Json() : *choice;
  Fields inner(*choice, "tool_choice");
  const std::string type = inner.string("type").value_or("");
  if (type == "function") return *choice;
  if (type != "allowed_tools") {
    log::warning("/v1/responses: tool_choice of type '{}' is not known; 'auto' is taken",
                 printable(type));
    return "auto";
  }
  Json functions = Json::array();
  if (const Json* list = inner.list("tools")) {
    for (const Json& one : list->as_array()) {
      Fields tool(one, "tool_choice.tools");
      if (tool.string("type").value_or("") == "function") functions.push(one);
    }
  }
  Json out = *choice;
  out.set("tools", std::move(functions));
  return out;
}

// "text.format", as chat completions have it; null for plain text.
Json format_from(Fields& fields, Json& told) {
  told = Json::object({{"type", "text"}});
  const Json* text = fields.object("text");
  if (text == nullptr) return {};
  Fields outer(*text, "text");
  outer.find("verbosity");  // nothing that a model here could be told
  const Json* format = outer.object("format");
  if (format == nullptr) return {};
  told = *format;
  Fields inner(*format, "text.format");
  const std::string type = inner.string("type").value_or("");
  if (type == "text") return {};
  if (type == "json_object") return Json::object({{"type", type}});
  if (type != "json_schema") {
    inner.refuse("type", fmt::format("is '{}'; known are text, json_object and json_schema",
                                     printable(type)));
  }
  const Json* schema = inner.find("schema");
  if (schema == nullptr) inner.refuse("schema", "is missing");
  return Json::object(
      {{"type", type}, {"json_schema", Json::object({{"name", "answer"}, {"schema", *schema}})}});
}

// What is there of OpenAI's that needs a memory of what was.
void refuse_stored(Fields& fields) {
  for (const char* name : {"previous_response_id", "conversation", "prompt"}) {
    if (fields.has(name)) {
      fields.refuse(name,
                    "names something stored, but nothing is stored here; send the whole "
                    "conversation as 'input'");
    }
  }
  if (fields.boolean("background").value_or(false)) {
    fields.refuse("background", "is true, but nothing is stored here to be asked for later");
  }
}

// What a response tells back of its request.
struct Told {
  Json instructions, format, tools = Json::array(), tool_choice = "auto", metadata, reasoning,
                             max_output_tokens, user;
  double temperature = 1, top_p = 1;
  bool parallel = true;
  uint32_t top_logprobs = 0;
};

// The body of the chat that the request stands for, but for its tools. `places`: of the messages,
// in the request.
Json chat_from(Fields& fields, Told& told, std::vector<std::string>& places) {
  refuse_stored(fields);
  Json chat = Json::object();
  chat.set("messages", messages_from(fields, places));
  if (Json format = format_from(fields, told.format); !format.is_null()) {
    chat.set("response_format", std::move(format));
  }
  if (const auto most = fields.integer("max_output_tokens", 1, INT32_MAX)) {
    chat.set("max_completion_tokens", *most);
    told.max_output_tokens = *most;
  }
  told.parallel = fields.boolean("parallel_tool_calls").value_or(true);
  if (fields.has("parallel_tool_calls")) chat.set("parallel_tool_calls", told.parallel);
  if (const Json* reasoning = fields.object("reasoning")) {
    Fields inner(*reasoning, "reasoning");
    if (const auto effort = inner.string("effort")) chat.set("reasoning_effort", *effort);
    told.reasoning = *reasoning;
  }
  told.top_logprobs = static_cast<uint32_t>(fields.integer("top_logprobs", 0, 20).value_or(0));
  bool logprobs = told.top_logprobs > 0;
  for (const std::string& one : fields.strings("include", 64)) {
    logprobs = logprobs || one == "message.output_text.logprobs";
  }
  if (logprobs) {
    chat.set("logprobs", true);
    chat.set("top_logprobs", told.top_logprobs);
  }
  const auto told_back = [](const Json* value, Json otherwise) {
    return value == nullptr ? std::move(otherwise) : *value;
  };
  told.instructions = told_back(fields.find("instructions"), {});
  told.tools = told_back(fields.find("tools"), Json::array());
  told.tool_choice = told_back(fields.find("tool_choice"), "auto");
  told.metadata = told_back(fields.object("metadata"), Json::object());
  if (const auto user = fields.string("user")) told.user = *user;
  // Of no meaning here, or honoured by doing nothing.
  fields.boolean("store");
  fields.object("stream_options");
  fields.integer("max_tool_calls", 0, INT32_MAX);
  for (const char* name : {"model", "truncation", "service_tier", "safety_identifier",
                           "prompt_cache_key", "prompt_cache_retention"}) {
    fields.string(name);
  }
  // The rest is the same in both forms.
  const Json::Object& known = chat.as_object();
  for (const std::string& name : fields.unknown()) {
    const auto same = [&](const Json::Member& member) { return member.first == name; };
    const Json* value = fields.find(name);
    if (value == nullptr || std::any_of(known.begin(), known.end(), same)) continue;
    chat.set(name, *value);
  }
  return chat;
}

// ---- From an answer to items

// One response as it comes to be; every change is an event of the stream.
class Response {
 public:
  using Send = std::function<bool(const char* name, const Json& data)>;

  Response(const Call& call, Told told) : call_(call), told_(std::move(told)) {}
  // Where events go; without, they go nowhere.
  void set_send(Send send) { send_ = std::move(send); }
  bool alive() const { return alive_; }

  void begin() {
    event("response.created", Json::object({{"response", json("in_progress")}}));
    event("response.in_progress", Json::object({{"response", json("in_progress")}}));
  }
  // Of tokens behind the last words of the message that is open.
  void add_logprobs(const Json& list) {
    if (kind_ != Kind::message) return;
    for (const Json& one : list.as_array()) logprobs_.push(one);
  }
  // A token was generated; what comes next is what it was for.
  void count_token() { ++tokens_; }
  void think(const std::string& text) {
    reasoning_tokens_ += std::exchange(tokens_, 0);
    add_text(Kind::reasoning, text, {});
  }
  void say(const std::string& text, Json logprobs) {
    tokens_ = 0;
    add_text(Kind::message, text, std::move(logprobs));
  }
  void call(const std::string& id, const std::string& name) {
    tokens_ = 0;
    close("completed");
    open(Kind::call);
    call_id_ = id;
    name_ = name;
    event("response.output_item.added", place({{"item", item("in_progress")}}, false));
  }
  void add_arguments(const std::string& text) {
    if (kind_ != Kind::call || text.empty()) return;
    tokens_ = 0;
    text_ += text;
    event("response.function_call_arguments.delta", place({{"delta", text}}, true));
  }

  void end(const GenerateResult& result) {
    const bool cut =
        result.reason == StopReason::length || result.reason == StopReason::context_full;
    // An answer without a word is a message without a word.
    if (kind_ == Kind::none && items_.as_array().empty()) say("", {});
    close(cut ? "incomplete" : "completed");
    if (cut) incomplete_ = Json::object({{"reason", "max_output_tokens"}});
    const uint64_t made = result.tokens.size();
    usage_ = Json::object(
        {{"input_tokens", result.prompt_tokens},
         {"input_tokens_details", Json::object({{"cached_tokens", result.cached_tokens}})},
         {"output_tokens", made},
         {"output_tokens_details", Json::object({{"reasoning_tokens", reasoning_tokens_}})},
         {"total_tokens", result.prompt_tokens + made}});
    completed_at_ = cut ? Json() : Json(static_cast<int64_t>(std::time(nullptr)));
    status_ = cut ? "incomplete" : "completed";
    event(cut ? "response.incomplete" : "response.completed",
          Json::object({{"response", json(status_)}}));
  }
  void fail(const Error& error) {
    close("incomplete");
    error_ = Json::object({{"code", "server_error"}, {"message", error.what()}});
    event("response.failed", Json::object({{"response", json("failed")}}));
  }
  Json final_json() const { return json(status_); }

 private:
  enum class Kind { none, reasoning, message, call };

  Json json(const char* status) const {
    return Json::object({{"id", call_.id},
                         {"object", "response"},
                         {"created_at", call_.created},
                         {"completed_at", completed_at_},
                         {"status", status},
                         {"background", false},
                         {"error", error_},
                         {"incomplete_details", incomplete_},
                         {"instructions", told_.instructions},
                         {"max_output_tokens", told_.max_output_tokens},
                         {"model", call_.model},
                         {"output", items_},
                         {"parallel_tool_calls", told_.parallel},
                         {"previous_response_id", Json()},
                         {"reasoning", told_.reasoning},
                         {"store", false},
                         {"temperature", told_.temperature},
                         {"text", Json::object({{"format", told_.format}})},
                         {"tool_choice", told_.tool_choice},
                         {"tools", told_.tools},
                         {"top_logprobs", told_.top_logprobs},
                         {"top_p", told_.top_p},
                         {"truncation", "disabled"},
                         {"usage", usage_},
                         {"user", told_.user},
                         {"metadata", told_.metadata}});
  }
  Json part() const {
    if (kind_ == Kind::reasoning) {
      return Json::object({{"type", "reasoning_text"}, {"text", text_}});
    }
    return Json::object({{"type", "output_text"},
                         {"text", text_},
                         {"annotations", Json::array()},
                         {"logprobs", logprobs_}});
  }
  // The item that is open. As long as it comes to be it holds nothing.
  Json item(const char* status) const {
    const bool done = std::string_view(status) != "in_progress";
    Json content = Json::array();
    if (done && kind_ != Kind::call) content.push(part());
    switch (kind_) {
      case Kind::reasoning:
        return Json::object({{"id", item_id_},
                             {"type", "reasoning"},
                             {"summary", Json::array()},
                             {"content", std::move(content)},
                             {"status", status}});
      case Kind::call:
        return Json::object({{"id", item_id_},
                             {"type", "function_call"},
                             {"status", status},
                             {"arguments", done ? text_ : std::string()},
                             {"call_id", call_id_},
                             {"name", name_}});
      default:
        return Json::object({{"id", item_id_},
                             {"type", "message"},
                             {"status", status},
                             {"role", "assistant"},
                             {"content", std::move(content)}});
    }
  }
  // Where an event belongs. Events of an item's inside name it; those of text name the part too.
  Json place(std::initializer_list<Json::Member> members, bool inside) const {
    Json out = Json::object();
    if (inside) out.set("item_id", item_id_);
    out.set("output_index", static_cast<uint64_t>(items_.as_array().size()));
    if (inside && kind_ != Kind::call) out.set("content_index", 0);
    for (const auto& [name, value] : members) out.set(name, value);
    return out;
  }

  void open(Kind kind) {
    kind_ = kind;
    text_.clear();
    logprobs_ = Json::array();
    item_id_ = random_id(kind == Kind::reasoning ? "rs_" : kind == Kind::call ? "fc_" : "msg_");
  }
  void add_text(Kind kind, const std::string& text, Json logprobs) {
    if (kind_ != kind) {
      close("completed");
      open(kind);
      event("response.output_item.added", place({{"item", item("in_progress")}}, false));
      event("response.content_part.added", place({{"part", part()}}, true));
    }
    if (logprobs.is_null()) logprobs = Json::array();
    for (const Json& one : logprobs.as_array()) logprobs_.push(one);
    if (text.empty() && logprobs.as_array().empty()) return;
    text_ += text;
    if (kind == Kind::reasoning) {
      event("response.reasoning_text.delta", place({{"delta", text}}, true));
    } else {
      event("response.output_text.delta",
            place({{"delta", text}, {"logprobs", std::move(logprobs)}}, true));
    }
  }
  // What is open is done, and the next item comes behind it.
  void close(const char* status) {
    if (kind_ == Kind::none) return;
    if (kind_ == Kind::call) {
      event("response.function_call_arguments.done",
            place({{"name", name_}, {"arguments", text_}}, true));
    } else {
      if (kind_ == Kind::reasoning) {
        event("response.reasoning_text.done", place({{"text", text_}}, true));
      } else {
        event("response.output_text.done", place({{"text", text_}, {"logprobs", logprobs_}}, true));
      }
      event("response.content_part.done", place({{"part", part()}}, true));
    }
    Json done = item(status);
    event("response.output_item.done", place({{"item", done}}, false));
    items_.push(std::move(done));
    kind_ = Kind::none;
  }
  void event(const char* name, Json data) {
    if (!send_ || !alive_) return;
    Json out = Json::object({{"type", name}, {"sequence_number", number_++}});
    for (auto& [key, value] : data.as_object()) out.set(key, std::move(value));
    alive_ = send_(name, out);
  }

  const Call& call_;
  Told told_;
  Send send_;
  bool alive_ = true;
  uint64_t number_ = 0;
  const char* status_ = "in_progress";

  // The item that is open, behind those that are done.
  Kind kind_ = Kind::none;
  std::string item_id_, text_, call_id_, name_;
  Json logprobs_;
  Json items_ = Json::array();
  Json usage_, error_, incomplete_, completed_at_;
  uint64_t tokens_ = 0;  // of which it is not yet known what they are for
  uint64_t reasoning_tokens_ = 0;
};

// Takes the call's events apart and tells the response of them.
class Telling {
 public:
  Telling(const Engine& engine, std::shared_ptr<Call> call, const AnswerForm& form, Told told)
      : engine_(engine),
        call_(std::move(call)),
        reader_(form, 1),
        response_(*call_, std::move(told)) {}
  Response& response() { return response_; }

  bool take(Call::Event& event) {
    if (event.sample) {
      response_.count_token();
      if (call_->logprobs) samples_.push_back(std::move(*event.sample));
    }
    for (const text::AnswerPiece& piece : reader_.read(event)) {
      switch (piece.kind) {
        case text::AnswerPiece::Kind::reasoning:
          response_.think(piece.text);
          break;
        case text::AnswerPiece::Kind::content:
          response_.say(piece.text, logprobs());
          break;
        case text::AnswerPiece::Kind::call:
          response_.call(piece.id, piece.name);
          break;
        case text::AnswerPiece::Kind::arguments:
          response_.add_arguments(piece.text);
          break;
      }
      samples_.clear();
    }
    if (event.result) {
      // Tokens without a text of their own, such as the one that ends the answer.
      if (!samples_.empty()) response_.add_logprobs(logprobs());
      response_.end(*event.result);
    }
    return response_.alive();
  }

 private:
  Json logprobs() const {
    const Json all = call_->logprobs_json(engine_, samples_);
    const Json* content = all.find("content");
    return content == nullptr ? Json::array() : *content;
  }

  const Engine& engine_;
  std::shared_ptr<Call> call_;
  AnswerReader reader_;
  Response response_;
  std::vector<Sample> samples_;  // of the text that is still held back
};

// Reads what has the names of a chat: what is wrong is told under those of the request.
template <class Read>
auto named_as_here(Read&& read) {
  try {
    return read();
  } catch (const FieldError& error) {
    constexpr std::pair<std::string_view, std::string_view> k_names[] = {
        {"response_format.json_schema", "text.format"},
        {"response_format", "text.format"},
        {"reasoning_effort", "reasoning.effort"}};
    std::string field = error.field(), message = error.what();
    for (const auto& [there, here] : k_names) {
      for (std::string* text : {&field, &message}) {
        if (const size_t at = text->find(there); at != text->npos) {
          text->replace(at, there.size(), here);
        }
      }
    }
    throw FieldError(field, message);
  }
}

}  // namespace

HttpResponse Api::responses(const HttpRequest& request) {
  const Json body = parse_body(request);
  Fields outer(body);
  Told told;
  std::vector<std::string> places;
  const Json chat = chat_from(outer, told, places);
  Fields fields(chat);
  const auto call = new_call(request, "resp_");
  call->chat = true;

  GenerationRequest wanted;
  const AnswerForm form = named_as_here([&] {
    Conversation conversation = conversation_of(fields, options_);
    conversation.places = std::move(places);
    const Json choice = choice_from(outer);
    set_tools(conversation, tools_from(outer), choice.is_null() ? nullptr : &choice);
    read_generation(fields, options_, wanted, *call);
    if (wanted.n > 1) fields.refuse("n", "must be 1: a response is one answer");
    return prepare(engine_, conversation, shape_of(fields, request.path), request.path, wanted,
                   *call);
  });
  call->prompt_field = "input";
  warn_unknown(fields, request.path);
  told.temperature = wanted.sampling.temperature;
  told.top_p = wanted.sampling.top_p;
  submit(scheduler_, metrics_, std::move(wanted), call);

  const auto telling = std::make_shared<Telling>(engine_, call, form, std::move(told));
  HttpResponse out;
  if (!call->stream) {
    const bool here = follow(
        scheduler_, *call, request.connected, [] { return true; },
        [&](Call::Event& event) {
          if (!telling->take(event)) return false;
          // Tokens come one by one; the connection is looked at now and then.
          const double now = seconds_now();
          if (now - call->looked < k_look_seconds) return true;
          call->looked = now;
          return request.connected();
        });
    if (!here) fail(ErrorCode::cancelled, "the client left before its answer was there");
    out.body = telling->response().final_json().dump();
    return out;
  }
  out.type = "text/event-stream";
  out.stream = [this, call, telling](const HttpResponse::Write& write,
                                     const std::function<bool()>& connected) {
    Response& response = telling->response();
    response.set_send([&](const char* name, const Json& data) {
      return write(std::string("event: ") + name + "\ndata: " + data.dump() + "\n\n");
    });
    response.begin();
    try {
      follow(
          scheduler_, *call, connected, [&] { return write(": \n\n"); },
          [&](Call::Event& event) { return telling->take(event); });
    } catch (const Error& error) {
      response.fail(error);
    }
  };
  return out;
}

}  // namespace strata::server
