#include "engine/chat.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "engine/engine_impl.h"

namespace strata {
namespace {

constexpr size_t k_max_tools = 512;

// What a request may not set: the conversation itself, and what the template trusts.
constexpr std::string_view k_own_variables[] = {"messages",  "tools",     "add_generation_prompt",
                                                "bos_token", "eos_token", "pad_token",
                                                "unk_token"};

Json to_json(const ChatMessage& message) {
  Json out = Json::object({{"role", message.role}, {"content", message.content}});
  if (!message.reasoning.empty()) out.set("reasoning_content", message.reasoning);
  if (!message.tool_calls.empty()) {
    Json calls = Json::array();
    for (const ChatToolCall& call : message.tool_calls) {
      calls.push(Json::object(
          {{"id", call.id},
           {"type", "function"},
           {"function", Json::object({{"name", call.name}, {"arguments", call.arguments}})}}));
    }
    out.set("tool_calls", std::move(calls));
  }
  if (!message.tool_call_id.empty()) out.set("tool_call_id", message.tool_call_id);
  if (!message.name.empty()) out.set("name", message.name);
  return out;
}

}  // namespace

Chat::Chat(std::string_view source, const text::Tokenizer& tokenizer)
    : tokenizer_(tokenizer),
      source_(source),
      template_(text::ChatTemplate::parse(source)),
      format_(text::detect_chat_format(source)),
      traits_(text::TemplateTraits::probe(template_, source, special_texts())) {
  for (const std::string& mark : text::marks_of(format_)) {
    const auto id = tokenizer_.find(mark);
    if (!id || tokenizer_.kind(*id) != text::TokenKind::control) continue;
    if (tokenizer_.is_end_of_generation(*id)) continue;
    marks_.push_back(*id);
    if (mark == format_.think_open || mark == format_.think_close) think_marks_.push_back(*id);
  }
  for (std::vector<TokenId>* marks : {&marks_, &think_marks_}) {
    std::sort(marks->begin(), marks->end());
    marks->erase(std::unique(marks->begin(), marks->end()), marks->end());
  }
}

Json Chat::special_texts() const {
  const auto text = [&](std::optional<TokenId> id) {
    return std::string(id ? tokenizer_.token_text(*id) : std::string_view());
  };
  return Json::object(
      {{"bos_token", text(tokenizer_.bos())}, {"eos_token", text(tokenizer_.eos())}});
}

Chat::Prompt Chat::prompt(std::span<const ChatMessage> messages,
                          const std::vector<text::Tool>& tools, const Json& variables,
                          bool add_generation_prompt) const {
  Json all = special_texts();
  if (variables.is_object()) {
    for (const auto& [name, value] : variables.as_object()) {
      if (std::find(std::begin(k_own_variables), std::end(k_own_variables), name) !=
          std::end(k_own_variables)) {
        fail(ErrorCode::bad_request,
             "the template's variable '{}' follows from the request and cannot be set", name);
      }
      all.set(name, value);
    }
  }
  Json list = Json::array();
  for (const ChatMessage& message : messages) list.push(to_json(message));
  all.set("messages", text::messages_for(traits_, format_, list, tools));
  if (!tools.empty() && traits_.tools) all.set("tools", text::tools_for(tools));
  all.set("add_generation_prompt", add_generation_prompt);

  const std::vector<text::Segment> segments = template_.render_segments(all);
  Prompt out;
  std::vector<text::TextSpan> spans;
  for (const text::Segment& segment : segments) {
    spans.push_back({segment.text, segment.from_template});
    out.text += segment.text;
  }
  out.tokens = tokenizer_.encode_spans(spans, /*add_special=*/true);
  // Only the template itself opens a block.
  out.in_reasoning = add_generation_prompt && !format_.think_open.empty() && !segments.empty() &&
                     segments.back().from_template &&
                     text::trimmed(segments.back().text).ends_with(format_.think_open);
  return out;
}

const Chat& chat_of(const Engine::Impl& engine) {
  const auto& chat = engine.chat;
  if (!chat) {
    fail(ErrorCode::bad_request,
         "the model has no chat template; give one with --chat-template-file, or use the prompt as "
         "it is (-no-cnv)");
  }
  return *chat;
}

std::vector<text::Tool> read_tools(const Json& list, const std::string& where) {
  const auto refuse = [&](size_t i, const std::string& what) {
    fail(ErrorCode::bad_request, "'{}[{}]{}", where, i, what);
  };
  if (!list.is_array()) {
    fail(ErrorCode::bad_request, "'{}' must be a list, not {}", where, list.type_name());
  }
  if (list.as_array().size() > k_max_tools) {
    fail(ErrorCode::bad_request, "'{}' holds {} tools, at most {} are taken", where,
         list.as_array().size(), k_max_tools);
  }
  std::vector<text::Tool> out;
  std::set<std::string> names;
  for (size_t i = 0; i < list.as_array().size(); ++i) {
    const Json& one = list.as_array()[i];
    const Json* type = one.find("type");
    if (type != nullptr && !(type->is_string() && type->as_string() == "function")) {
      refuse(i, fmt::format(".type' is {}; this server knows tools of type \"function\"",
                            printable(type->dump(), 60)));
    }
    const Json* function = one.find("function");
    if (function == nullptr || !function->is_object()) {
      refuse(i, ".function' is missing: an object with \"name\" and \"parameters\"");
    }
    text::Tool tool;
    const Json* name = function->find("name");
    if (name == nullptr || !name->is_string() || !text::Tool::is_name(name->as_string())) {
      refuse(i, fmt::format(".function.name' is {}; a name has 1 to 128 letters, digits, _ - . /",
                            name == nullptr ? "missing" : printable(name->dump(), 80)));
    }
    tool.name = name->as_string();
    if (!names.insert(tool.name).second) {
      refuse(i, fmt::format(".function.name' is '{}', as that of another tool", tool.name));
    }
    if (const Json* description = function->find("description");
        description != nullptr && !description->is_null()) {
      if (!description->is_string()) refuse(i, ".function.description' must be a string");
      tool.description = description->as_string();
    }
    const Json* parameters = function->find("parameters");
    if (parameters == nullptr || parameters->is_null()) {
      tool.parameters = Json::object({{"type", "object"}, {"properties", Json::object()}});
    } else {
      if (!parameters->is_object()) {
        refuse(i, fmt::format(".function.parameters' must be a schema, not {}",
                              parameters->type_name()));
      }
      tool.parameters = *parameters;
    }
    out.push_back(std::move(tool));
  }
  return out;
}

}  // namespace strata
