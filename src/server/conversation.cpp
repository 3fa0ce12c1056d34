#include "server/conversation.h"

#include <algorithm>

#include "base/error.h"
#include "base/field_error.h"
#include "base/log.h"
#include "server/api.h"
#include "server/call.h"
#include "server/request.h"

namespace strata::server {
namespace {

using text::ToolChoice;

constexpr const char* k_efforts[] = {"none", "minimal", "low", "medium", "high", "xhigh"};

void read_calls(Fields& message, ChatMessage& out) {
  const Json* calls = message.list("tool_calls");
  if (calls == nullptr) return;
  for (size_t i = 0; i < calls->as_array().size(); ++i) {
    Fields call(calls->as_array()[i], fmt::format("{}[{}]", message.path_of("tool_calls"), i));
    const Json* function = call.object("function");
    if (function == nullptr) call.refuse("function", "is missing");
    Fields inner(*function, call.path_of("function"));
    const auto name = inner.string("name");
    if (!name) inner.refuse("name", "is missing");
    // Text, as OpenAI has it; clients that parse it and send the object back mean the same.
    const Json* arguments = inner.find("arguments");
    std::string text;
    if (arguments != nullptr) {
      text = arguments->is_string() ? arguments->as_string() : arguments->dump();
    }
    out.tool_calls.push_back({call.string("id").value_or(""), *name, std::move(text)});
  }
}

std::vector<ChatMessage> openai_messages(Fields& fields) {
  const Json* list = fields.list("messages");
  if (list == nullptr || list->as_array().empty()) {
    fields.refuse("messages", "is missing: a list of {\"role\", \"content\"}");
  }
  std::vector<ChatMessage> out;
  for (size_t i = 0; i < list->as_array().size(); ++i) {
    Fields message(list->as_array()[i], fmt::format("messages[{}]", i));
    const auto role = message.string("role");
    if (!role) message.refuse("role", "is missing");
    ChatMessage chat{*role, content_of(message)};
    if (*role == "assistant") {
      read_calls(message, chat);
      // vLLM and Ollama say "reasoning".
      for (const char* name : {"reasoning", "reasoning_content"}) {
        if (const Json* value = message.find(name); value != nullptr && value->is_string()) {
          chat.reasoning = value->as_string();
        }
      }
      if (message.has("function_call")) {
        message.refuse("function_call", "is of an older form; use 'tool_calls'");
      }
    } else if (*role == "tool") {
      chat.tool_call_id = message.string("tool_call_id").value_or("");
    } else if (*role == "function") {
      message.refuse("role", "is 'function', of an older form; use 'tool' with 'tool_call_id'");
    }
    chat.name = message.string("name").value_or("");
    out.push_back(std::move(chat));
  }
  // A result whose message does not name its tool is named by its call.
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i].role != "tool" || !out[i].name.empty()) continue;
    for (size_t k = i; k-- > 0;) {
      const auto call =
          std::find_if(out[k].tool_calls.begin(), out[k].tool_calls.end(),
                       [&](const ChatToolCall& one) { return one.id == out[i].tool_call_id; });
      if (call == out[k].tool_calls.end()) continue;
      out[i].name = call->name;
      break;
    }
  }
  return out;
}

[[noreturn]] void refuse_choice(const std::string& what) {
  throw FieldError("tool_choice", "'tool_choice' " + what);
}

// The name within {"function": {"name"}} or {"name"}.
std::string named_function(const Json& choice) {
  const Json* function = choice.find("function");
  const Json* name = (function != nullptr ? *function : choice).find("name");
  if (name == nullptr || !name->is_string()) {
    refuse_choice("must name a function: {\"type\": \"function\", \"function\": {\"name\": ...}}");
  }
  return name->as_string();
}

ToolChoice choice_named(const Json& name) {
  const std::string text = name.is_string() ? name.as_string() : name.dump();
  if (text == "none") return ToolChoice::none;
  if (text == "auto") return ToolChoice::automatic;
  if (text == "required" || text == "any") return ToolChoice::required;
  refuse_choice(fmt::format("is '{}'; known are none, auto, required and a function's name",
                            printable(text, 60)));
}

void require_known(const Conversation& c, const std::string& name) {
  const bool known = std::any_of(c.tools.begin(), c.tools.end(),
                                 [&](const text::Tool& tool) { return tool.name == name; });
  if (!known) refuse_choice(fmt::format("names '{}', which is not in 'tools'", printable(name)));
}

void read_choice(Conversation& c, const Json& choice) {
  if (!choice.is_object()) {
    c.choice = choice_named(choice);
    return;
  }
  const Json* type = choice.find("type");
  const std::string kind = type != nullptr && type->is_string() ? type->as_string() : "function";
  if (kind == "function") {
    c.only = {named_function(choice)};
    c.choice = ToolChoice::required;
    c.named = true;
    c.parallel = false;
  } else if (kind == "allowed_tools") {
    const Json* wrapped = choice.find("allowed_tools");
    const Json& allowed = wrapped != nullptr ? *wrapped : choice;
    const Json* mode = allowed.find("mode");
    c.choice = mode == nullptr ? ToolChoice::automatic : choice_named(*mode);
    const Json* tools = allowed.find("tools");
    if (tools == nullptr || !tools->is_array() || tools->as_array().empty()) {
      refuse_choice("allows no tools: 'tools' must be a list of functions");
    }
    for (const Json& one : tools->as_array()) c.only.push_back(named_function(one));
  } else {
    refuse_choice(
        fmt::format("is of type '{}'; known are function and allowed_tools", printable(kind, 60)));
  }
  for (const std::string& name : c.only) require_known(c, name);
}

void read_variables(Fields& fields, Conversation& c) {
  if (const Json* given = fields.object("chat_template_kwargs")) {
    for (const auto& [name, value] : given->as_object()) c.variables.set(name, value);
  }
  if (const auto effort = fields.string("reasoning_effort")) {
    if (std::find(std::begin(k_efforts), std::end(k_efforts), *effort) == std::end(k_efforts)) {
      fields.refuse("reasoning_effort",
                    fmt::format("is '{}'; known are none, minimal, low, medium, high and xhigh",
                                printable(*effort, 60)));
    }
    if (*effort == "none") {
      if (c.variables.find("enable_thinking") == nullptr) c.variables.set("enable_thinking", false);
    } else if (c.variables.find("reasoning_effort") == nullptr) {
      c.variables.set("reasoning_effort", *effort);
    }
  }
}

// ---- Anthropic

std::string text_of_blocks(const Json& content, const std::string& where) {
  if (content.is_string()) return content.as_string();
  if (!content.is_array()) {
    fail_field(where, "'{}' must be a string or a list of blocks, not {}", where,
               content.type_name());
  }
  std::string out;
  for (size_t i = 0; i < content.as_array().size(); ++i) {
    Fields block(content.as_array()[i], fmt::format("{}[{}]", where, i));
    const std::string type = block.string("type").value_or("text");
    if (type != "text") {
      block.refuse("type", fmt::format("is '{}'; this server reads text only", printable(type)));
    }
    out += block.string("text").value_or("");
  }
  return out;
}

// Results of tools stand in the user's messages; here they are messages of their own.
void add_blocks(const std::string& role, const Json& content, const std::string& where,
                std::vector<ChatMessage>& out) {
  ChatMessage message{role, ""};
  for (size_t i = 0; i < content.as_array().size(); ++i) {
    Fields block(content.as_array()[i], fmt::format("{}[{}]", where, i));
    const std::string type = block.string("type").value_or("text");
    if (type == "text") {
      message.content += block.string("text").value_or("");
    } else if (type == "thinking") {
      message.reasoning += block.string("thinking").value_or("");
    } else if (type == "redacted_thinking") {
      continue;  // no words for this model
    } else if (type == "tool_use") {
      const auto name = block.string("name");
      if (!name) block.refuse("name", "is missing");
      const Json* input = block.find("input");
      message.tool_calls.push_back(
          {block.string("id").value_or(""), *name, input != nullptr ? input->dump() : "{}"});
    } else if (type == "tool_result") {
      ChatMessage result{"tool", ""};
      const auto id = block.string("tool_use_id");
      if (!id) block.refuse("tool_use_id", "is missing");
      result.tool_call_id = *id;
      if (const Json* inner = block.find("content")) {
        result.content = text_of_blocks(*inner, block.path_of("content"));
      }
      if (block.boolean("is_error").value_or(false)) result.content = "Error: " + result.content;
      for (const ChatMessage& past : out) {
        for (const ChatToolCall& call : past.tool_calls) {
          if (call.id == *id) result.name = call.name;
        }
      }
      out.push_back(std::move(result));
    } else {
      block.refuse("type", fmt::format("is '{}'; this server reads text, thinking, tool_use and "
                                       "tool_result",
                                       printable(type)));
    }
  }
  const bool empty =
      message.content.empty() && message.tool_calls.empty() && message.reasoning.empty();
  const bool results_only = empty && !out.empty() && out.back().role == "tool";
  if (!results_only) out.push_back(std::move(message));
}

std::vector<text::Tool> anthropic_tools(const Json& tools) {
  ToolReader reader("input_schema");
  for (size_t i = 0; i < tools.as_array().size(); ++i) {
    const std::string where = fmt::format("tools[{}]", i);
    Fields tool(tools.as_array()[i], where);
    const std::string type = tool.string("type").value_or("custom");
    if (type != "custom" && type != "function") {
      tool.refuse("type", fmt::format("is '{}', a tool that this server does not have; it knows "
                                      "those with an 'input_schema'",
                                      printable(type)));
    }
    // Who means OpenAI's "parameters" would be given calls without arguments.
    if (!tool.has("input_schema")) {
      tool.refuse("input_schema", "is missing: the schema of the tool's input");
    }
    reader.add(tools.as_array()[i], where);
  }
  return reader.take();
}

void read_anthropic_choice(Fields& fields, std::vector<text::Tool> tools, Conversation& c) {
  Json openai;
  if (const Json* choice = fields.object("tool_choice")) {
    Fields inner(*choice, "tool_choice");
    const std::string type = inner.string("type").value_or("auto");
    if (type == "tool") {
      const auto name = inner.string("name");
      if (!name) inner.refuse("name", "is missing");
      openai = Json::object({{"type", "function"}, {"name", *name}});
    } else if (type == "auto" || type == "any" || type == "none") {
      openai = type;
    } else {
      inner.refuse("type",
                   fmt::format("is '{}'; known are auto, any, tool and none", printable(type)));
    }
    if (inner.boolean("disable_parallel_tool_use").value_or(false)) c.parallel = false;
  }
  set_tools(c, std::move(tools), openai.is_null() ? nullptr : &openai);
}

}  // namespace

void set_tools(Conversation& c, std::vector<text::Tool> tools, const Json* choice) {
  c.tools = std::move(tools);
  c.choice = c.tools.empty() ? ToolChoice::none : ToolChoice::automatic;
  if (choice != nullptr) read_choice(c, *choice);
  if (c.tools.empty() && c.choice == ToolChoice::required) {
    refuse_choice("asks for a call, but there are no 'tools'");
  }
  if (c.choice == ToolChoice::none) c.tools.clear();
}

Conversation conversation_of(Fields& fields, const ApiOptions& options) {
  Conversation out;
  out.messages = openai_messages(fields);
  for (size_t i = 0; i < out.messages.size(); ++i) {
    out.places.push_back(fmt::format("messages[{}]", i));
  }
  out.split_reasoning = options.split_reasoning;
  for (const auto& [name, value] : options.template_variables.as_object()) {
    out.variables.set(name, value);
  }
  for (const char* older : {"functions", "function_call"}) {
    if (fields.has(older)) {
      fields.refuse(older, "is of an older form; use 'tools' and 'tool_choice'");
    }
  }
  if (const auto parallel = fields.boolean("parallel_tool_calls")) out.parallel = *parallel;
  const Json* tools = fields.list("tools");
  const Json* choice = fields.find("tool_choice");
  set_tools(out, read_tools(tools != nullptr ? *tools : Json::array(), "tools"), choice);
  if (const auto format = fields.string("reasoning_format")) {
    if (*format != "none" && *format != "auto" && *format != "deepseek") {
      fields.refuse("reasoning_format", fmt::format("is '{}'; known are none, auto and deepseek",
                                                    printable(*format, 60)));
    }
    out.split_reasoning = *format != "none";
  }
  read_variables(fields, out);
  out.add_generation_prompt = fields.boolean("add_generation_prompt").value_or(true);
  return out;
}

Conversation anthropic_conversation_of(Fields& fields, const ApiOptions& options) {
  Conversation out;
  for (const auto& [name, value] : options.template_variables.as_object()) {
    out.variables.set(name, value);
  }
  if (const Json* system = fields.find("system")) {
    const std::string text = text_of_blocks(*system, "system");
    if (!text.empty()) out.messages.push_back({"system", text});
    out.places.assign(out.messages.size(), "system");
  }
  const Json* list = fields.list("messages");
  if (list == nullptr || list->as_array().empty()) {
    fields.refuse("messages", "is missing: a list of {\"role\", \"content\"}");
  }
  for (size_t i = 0; i < list->as_array().size(); ++i) {
    const std::string where = fmt::format("messages[{}]", i);
    Fields message(list->as_array()[i], where);
    const auto role = message.string("role");
    if (!role) message.refuse("role", "is missing");
    const Json* content = message.find("content");
    if (content == nullptr) {
      out.messages.push_back({*role, ""});
    } else if (content->is_string()) {
      out.messages.push_back({*role, content->as_string()});
    } else if (content->is_array()) {
      add_blocks(*role, *content, message.path_of("content"), out.messages);
    } else {
      message.refuse("content", "must be a string or a list of blocks");
    }
    out.places.resize(out.messages.size(), where);
  }
  const Json* tools = fields.list("tools");
  read_anthropic_choice(
      fields, tools != nullptr ? anthropic_tools(*tools) : std::vector<text::Tool>(), out);
  if (const Json* thinking = fields.object("thinking")) {
    Fields inner(*thinking, "thinking");
    const std::string type = inner.string("type").value_or("enabled");
    inner.integer("budget_tokens", 0, INT32_MAX);
    if (type != "enabled" && type != "disabled" && type != "adaptive") {
      inner.refuse("type", fmt::format("is '{}'; known are enabled, disabled and adaptive",
                                       printable(type)));
    }
    if (type != "adaptive") out.variables.set("enable_thinking", type == "enabled");
  }
  if (const Json* given = fields.object("chat_template_kwargs")) {
    for (const auto& [name, value] : given->as_object()) out.variables.set(name, value);
  }
  return out;
}

Chat::Prompt prompt_of(Engine& engine, const Conversation& c) {
  try {
    return chat_of(engine.impl()).prompt(c.messages, c.tools, c.variables, c.add_generation_prompt);
  } catch (const FieldError& error) {
    // Under the names that the client knows.
    std::string field = error.field();
    std::string message = error.what();
    if (field == "variables") field = "chat_template_kwargs";
    for (size_t i = 0; i < c.places.size(); ++i) {
      const std::string own = fmt::format("messages[{}]", i);
      if (!field.starts_with(own)) continue;
      field.replace(0, own.size(), c.places[i]);
      if (const size_t at = message.find(own); at != message.npos) {
        message.replace(at, own.size(), c.places[i]);
      }
      break;
    }
    throw FieldError(field, message);
  }
}

AnswerForm prepare(Engine& engine, const Conversation& c, const std::optional<AnswerShape>& content,
                   const std::string& path, GenerationRequest& wanted, Call& call) {
  const Chat& chat = chat_of(engine.impl());
  Chat::Prompt prompt = prompt_of(engine, c);
  wanted.prompt = std::move(prompt.tokens);
  call.prompt_field = "messages";
  call.grammar_field = content ? content->field : "tools";
  AnswerForm form;
  form.format = chat.format();
  form.split_reasoning = c.split_reasoning;
  form.in_reasoning = prompt.in_reasoning;
  form.named = c.named;
  text::AnswerRules rules;
  rules.choice = c.choice;
  rules.parallel = c.parallel;
  rules.in_reasoning = prompt.in_reasoning;
  // Where the template has closed the block, the model is not to think.
  rules.may_think = form.format.think_close.empty() ||
                    !text::trimmed(prompt.text).ends_with(form.format.think_close);
  if (content) rules.content = content->gbnf;
  for (const text::Tool& tool : c.tools) {
    const bool allowed =
        c.only.empty() || std::find(c.only.begin(), c.only.end(), tool.name) != c.only.end();
    if (allowed) rules.tools.push_back(tool);
  }
  const text::AnswerGrammar grammar = text::answer_grammar(form.format, rules);
  for (const std::string& warning : grammar.warnings) {
    log::warning("{}: {}", printable(path, 200), printable(warning, 200));
  }
  if (!grammar.gbnf.empty()) {
    wanted.grammar =
        in_field(call.grammar_field, [&] { return text::Grammar::parse(grammar.gbnf); });
  }
  if (!rules.tools.empty()) {
    form.tools = std::make_shared<const std::vector<text::Tool>>(std::move(rules.tools));
  }
  const bool channels = form.format.calls.body == text::CallSyntax::Body::channels;
  wanted.shown = chat.marks(form.tools != nullptr || channels);
  return form;
}

}  // namespace strata::server
