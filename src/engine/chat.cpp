#include "engine/chat.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "base/field_error.h"
#include "engine/engine_impl.h"

namespace strata {
namespace {

constexpr size_t k_max_tools = 512;

constexpr const char* k_roles[] = {"system", "developer", "user", "assistant", "tool"};
constexpr size_t k_max_own_roles = 8;  // of a template's own, in one conversation
// For finding out what it is that a template does not take.
constexpr double k_explain_seconds = 0.2;

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

// What is wrong with message `i` where it stands, as far as that can be seen; empty: it cannot.
std::string fault_of(std::span<const ChatMessage> messages, size_t i) {
  const std::string& role = messages[i].role;
  if (role == "tool") {
    const bool called = std::any_of(messages.begin(), messages.begin() + static_cast<ptrdiff_t>(i),
                                    [](const ChatMessage& m) { return !m.tool_calls.empty(); });
    return called ? "" : "it is a tool's result without a call before it";
  }
  if (i == 0) return role == "assistant" ? "the conversation begins with an answer" : "";
  if (role == "system" || role == "developer") return "it stands behind other messages";
  if (role == messages[i - 1].role) return "it follows one of the same role";
  return "";
}

// "system, user, user", not too long.
std::string roles_of(std::span<const ChatMessage> messages) {
  constexpr size_t k_shown = 12;
  std::string out;
  for (size_t i = 0; i < messages.size(); ++i) {
    if (messages.size() > k_shown && i == k_shown - 2) {
      out += ", ...";
      i = messages.size() - 1;
    }
    out += (i > 0 ? ", " : "") + printable(messages[i].role, 40);
  }
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

Json Chat::variables_for(std::span<const ChatMessage> messages,
                         const std::vector<text::Tool>& tools, const Json& variables,
                         bool add_generation_prompt) const {
  Json all = special_texts();
  if (variables.is_object()) {
    for (const auto& [name, value] : variables.as_object()) all.set(name, value);
  }
  Json list = Json::array();
  for (const ChatMessage& message : messages) list.push(to_json(message));
  all.set("messages", text::messages_for(traits_, format_, list, tools));
  if (!tools.empty() && traits_.tools) all.set("tools", text::tools_for(tools));
  all.set("add_generation_prompt", add_generation_prompt);
  return all;
}

// Whether the template puts what such a message says into the prompt.
bool Chat::shows_role(const std::string& role) const {
  constexpr const char* k_said = "probe_of_a_role";
  const ChatMessage ask[] = {{"user", "a"}, {role, k_said}};
  text::RenderOptions options;
  options.limits.max_steps = 200'000;
  options.limits.max_bytes = size_t{8} << 20;
  for (const size_t first : {0, 1}) {
    try {
      const Json all = variables_for(std::span(ask).subspan(first), {}, {}, false);
      if (template_.render(all, options).find(k_said) != std::string::npos) return true;
    } catch (const Error&) {
      // Then it does not take the role.
    }
  }
  return false;
}

void Chat::check_roles(std::span<const ChatMessage> messages) const {
  std::set<std::string> shown(std::begin(k_roles), std::end(k_roles));
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string& role = messages[i].role;
    if (shown.contains(role)) continue;
    if (shown.size() < std::size(k_roles) + k_max_own_roles && shows_role(role)) {
      shown.insert(role);
      continue;
    }
    const std::string field = fmt::format("messages[{}].role", i);
    fail_field(field,
               "'{}' is '{}', which this model's chat template does not know; known are system, "
               "developer, user, assistant and tool",
               field, printable(role, 60));
  }
}

void Chat::check_variables(const Json& variables) {
  if (variables.is_object()) {
    for (const auto& [name, value] : variables.as_object()) {
      if (std::find(std::begin(k_own_variables), std::end(k_own_variables), name) ==
          std::end(k_own_variables)) {
        continue;
      }
      fail_field("variables",
                 "the template's variable '{}' follows from the request and cannot be set", name);
    }
  }
}

Chat::Prompt Chat::prompt(std::span<const ChatMessage> messages,
                          const std::vector<text::Tool>& tools, const Json& variables,
                          bool add_generation_prompt) const {
  check_variables(variables);
  check_roles(messages);
  const std::vector<text::Segment> segments = [&] {
    try {
      return template_.render_segments(
          variables_for(messages, tools, variables, add_generation_prompt));
    } catch (const text::TemplateError& error) {
      explain(error, messages, tools, variables);
    }
  }();
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

void Chat::explain(const text::TemplateError& error, std::span<const ChatMessage> messages,
                   const std::vector<text::Tool>& tools, const Json& variables) const {
  const auto begun = std::chrono::steady_clock::now();
  const auto renders = [&](std::span<const ChatMessage> some, const std::vector<text::Tool>& with,
                           const Json& told) {
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begun;
    if (taken.count() > k_explain_seconds) return false;
    try {
      template_.render(variables_for(some, with, told, false));
      return true;
    } catch (const Error&) {
      return false;
    }
  };
  const std::string words =
      error.is_raised() ? fmt::format("it says: {}", error.reason())
                        : fmt::format("it fails at its line {}: {}", error.line(), error.reason());
  const bool told = variables.is_object() && !variables.as_object().empty();
  if (told && renders(messages, tools, {})) {
    std::string names;
    for (const auto& [name, value] : variables.as_object()) {
      names += (names.empty() ? "" : ", ") + printable(name, 40);
    }
    fail_field("variables", "this model's chat template does not take these values of {}; {}",
               printable(names, 200), words);
  }
  if (!tools.empty() && renders(messages, {}, variables)) {
    fail_field("tools", "this model's chat template does not take these tools; {}", words);
  }
  // The message with which it begins to fail: all before it are taken.
  size_t taken = 0, refused = messages.size();
  while (refused - taken > 1) {
    const size_t middle = taken + (refused - taken) / 2;
    (renders(messages.first(middle), tools, variables) ? taken : refused) = middle;
  }
  if (taken == 0 && messages.size() > 1) {
    const bool asked = std::any_of(messages.begin(), messages.end(),
                                   [](const ChatMessage& m) { return m.role == "user"; });
    fail_field("messages",
               "this model's chat template does not take 'messages' (their roles: {}){}; {}",
               roles_of(messages), asked ? "" : ": there is no message of the user", words);
  }
  const size_t culprit = refused - 1;
  const std::string field = fmt::format("messages[{}]", culprit);
  const std::string fault = fault_of(messages, culprit);
  fail_field(
      field, "this model's chat template does not take '{}' (of role '{}'{}){}; {}", field,
      printable(messages[culprit].role, 40),
      culprit == 0 ? "" : fmt::format(" after '{}'", printable(messages[culprit - 1].role, 40)),
      fault.empty() ? "" : ": " + fault, words);
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

void ToolReader::add(const Json& object, const std::string& where) {
  const auto refuse = [&](const char* name, const std::string& what) {
    const std::string field = where + "." + name;
    fail_field(field, "'{}' {}", field, what);
  };
  if (!object.is_object()) {
    fail_field(where, "'{}' must be an object with \"name\" and \"{}\", not {}", where, parameters_,
               object.type_name());
  }
  if (tools_.size() >= k_max_tools) {
    fail_field("tools", "'tools' holds more than {} tools", k_max_tools);
  }
  text::Tool tool;
  const Json* name = object.find("name");
  if (name == nullptr || !name->is_string() || !text::Tool::is_name(name->as_string())) {
    refuse("name", fmt::format("is {}; a name has 1 to 128 letters, digits, _ - . /",
                               name == nullptr ? "missing" : printable(name->dump(), 80)));
  }
  tool.name = name->as_string();
  if (!names_.insert(tool.name).second) {
    refuse("name", fmt::format("is '{}', as that of another tool", tool.name));
  }
  if (const Json* description = object.find("description");
      description != nullptr && !description->is_null()) {
    if (!description->is_string()) {
      refuse("description", fmt::format("must be a string, not {}", description->type_name()));
    }
    tool.description = description->as_string();
  }
  tool.field = where + "." + parameters_;
  const Json* parameters = object.find(parameters_);
  if (parameters == nullptr || parameters->is_null()) {
    tool.parameters = Json::object({{"type", "object"}, {"properties", Json::object()}});
  } else {
    if (!parameters->is_object()) {
      refuse(parameters_, fmt::format("must be a schema, not {}", parameters->type_name()));
    }
    tool.parameters = *parameters;
  }
  tools_.push_back(std::move(tool));
}

std::vector<text::Tool> read_tools(const Json& list, const std::string& where) {
  if (!list.is_array()) {
    fail_field(where, "'{}' must be a list, not {}", where, list.type_name());
  }
  ToolReader reader;
  for (size_t i = 0; i < list.as_array().size(); ++i) {
    const Json& one = list.as_array()[i];
    const std::string field = fmt::format("{}[{}]", where, i);
    if (!one.is_object()) {
      fail_field(field, "'{}' must be an object, not {}", field, one.type_name());
    }
    const Json* type = one.find("type");
    if (type != nullptr && !(type->is_string() && type->as_string() == "function")) {
      fail_field(field + ".type", "'{}.type' is {}; this server knows tools of type \"function\"",
                 field, printable(type->dump(), 60));
    }
    const Json* function = one.find("function");
    if (function == nullptr || !function->is_object()) {
      fail_field(field + ".function",
                 "'{}.function' is missing: an object with \"name\" and \"parameters\"", field);
    }
    reader.add(*function, field + ".function");
  }
  return reader.take();
}

}  // namespace strata
