#include "text/chat_format/conversation.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "text/chat_format/answer_grammar.h"

namespace strata::text {
namespace {

std::string text_of(const Json& message, const char* key) {
  const Json* value = message.find(key);
  return value != nullptr && value->is_string() ? value->as_string() : "";
}

Json message_of(const char* role, const std::string& content) {
  return Json::object({{"role", role}, {"content", content}});
}

Json call_of(const char* id, const char* name, Json arguments) {
  return Json::object(
      {{"id", id},
       {"type", "function"},
       {"function", Json::object({{"name", name}, {"arguments", std::move(arguments)}})}});
}

// ---- probing

class Probe {
 public:
  Probe(const ChatTemplate& chat, const Json& variables) : chat_(chat), variables_(variables) {}

  std::optional<std::string> render(Json::Array messages, bool with_tools = false) const {
    Json variables = variables_;
    variables.set("messages", Json(std::move(messages)));
    variables.set("add_generation_prompt", false);
    if (with_tools) {
      variables.set(
          "tools",
          tools_for({{"probe_tool", "probe",
                      Json::object({{"type", "object"},
                                    {"properties",
                                     Json::object({{"probe_key",
                                                    Json::object({{"type", "string"},
                                                                  {"description", "probe"}})}})},
                                    {"required", Json(Json::Array{"probe_key"})}})}}));
    }
    RenderOptions options;
    options.limits.max_steps = 200'000;
    options.limits.max_bytes = size_t{8} << 20;
    try {
      return chat_.render(variables, options);
    } catch (const Error&) {
      return std::nullopt;
    }
  }

  bool shows(Json::Array messages, std::string_view what, bool with_tools = false) const {
    const std::optional<std::string> text = render(std::move(messages), with_tools);
    return text && text->find(what) != std::string::npos;
  }

 private:
  const ChatTemplate& chat_;
  const Json& variables_;
};

Json with_calls(Json::Array calls) {
  Json out = message_of("assistant", "");
  out.set("tool_calls", Json(std::move(calls)));
  return out;
}

Json result_of(const char* id, const char* content) {
  Json out = message_of("tool", content);
  out.set("tool_call_id", id);
  out.set("name", "probe_tool");
  return out;
}

}  // namespace

TemplateTraits TemplateTraits::probe(const ChatTemplate& chat, std::string_view source,
                                     const Json& variables) {
  const Probe probe(chat, variables);
  const Json user = message_of("user", "probe_user");
  TemplateTraits out;
  out.system = probe.shows({message_of("system", "probe_system"), user}, "probe_system") ||
               !probe.shows({user}, "probe_user");
  out.developer = source.find("developer") != source.npos;
  out.thinking =
      source.find("message.thinking") != source.npos || source.find("['thinking']") != source.npos;
  out.tools = probe.shows({user}, "probe_tool", true);

  const Json arguments = Json::object({{"probe_key", "probe_value"}});
  const std::string text = R"({"probe_key": "probe_value"})";
  const auto call = [&](Json value) {
    return call_of("probe0001", "probe_tool", std::move(value));
  };
  const auto as_object = probe.render({user, with_calls({call(arguments)})}, out.tools);
  const auto shows_value = [](const std::optional<std::string>& shown) {
    // As Python writes a dictionary is not what a model should see.
    return shown && shown->find("probe_tool") != std::string::npos &&
           shown->find("probe_value") != std::string::npos &&
           shown->find("'probe_key'") == std::string::npos;
  };
  out.calls = shows_value(as_object);
  if (!out.calls) {
    out.arguments_as_text = out.calls =
        probe.shows({user, with_calls({call(text)})}, text, out.tools);
  }
  if (!out.calls) return out;
  const Json value = out.arguments_as_text ? Json(text) : arguments;
  out.broken_arguments =
      probe.shows({user, with_calls({call("{probe_broken")})}, "{probe_broken", out.tools);
  out.results =
      probe.shows({user, with_calls({call(value)}), result_of("probe0001", "probe_result")},
                  "probe_result", out.tools);
  Json second = call_of("probe0002", "probe_other", value);
  out.many_calls =
      probe.shows({user, with_calls({call(value), std::move(second)}),
                   result_of("probe0001", "probe_result"), result_of("probe0002", "probe_result")},
                  "probe_other", out.tools);
  return out;
}

namespace {

// An id of so many letters and digits that stands for the given one.
std::string fitting_id(const std::string& id, size_t length) {
  const bool fits =
      id.size() == length && std::all_of(id.begin(), id.end(), [](char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
      });
  if (length == 0 || fits) return id;
  uint64_t hash = 14695981039346656037ull;
  for (const char c : id) hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211ull;
  std::string out;
  for (; out.size() < length; hash = hash / 36 + hash * 6364136223846793005ull) {
    out += "0123456789abcdefghijklmnopqrstuvwxyz"[hash % 36];
  }
  return out;
}

Json parsed_arguments(const std::string& text) {
  if (text.find_first_not_of(" \n\r\t") == text.npos) return Json::object();
  try {
    Json value = Json::parse(text, 100);
    if (value.is_object()) return value;
  } catch (const Error&) {
  }
  return {};
}

std::string instructions(const ChatFormat& format, const std::vector<Tool>& tools) {
  std::string out = "# Tools\n\nThese functions can be called:\n\n";
  const Json listed = tools_for(tools);
  for (const Json& tool : listed.as_array()) out += tool.find("function")->dump() + "\n";
  out +=
      "\nTo call one, write exactly this and nothing behind it, with the function's name and its "
      "own arguments:\n\n";
  out += example_call(format, "function_name", Json::object({{"argument_name", "value"}}));
  out += "\n\nThe result comes in the next message. When no function is needed, answer as usual.";
  return out;
}

class Rewriter {
 public:
  Rewriter(const TemplateTraits& traits, const ChatFormat& format) : t_(traits), format_(format) {}

  Json run(const Json& messages, const std::vector<Tool>& tools) {
    Json::Array list = messages.as_array();
    for (Json& message : list) {
      if (!t_.developer && text_of(message, "role") == "developer") message.set("role", "system");
      fix_ids(message);
    }
    lead(list, tools);
    for (size_t i = 0; i < list.size(); ++i) {
      const std::string role = text_of(list[i], "role");
      const Json* calls = list[i].find("tool_calls");
      const bool calling = calls != nullptr && calls->is_array() && !calls->as_array().empty();
      if (role == "tool" && !(t_.calls && t_.results)) {
        result_as_text(list[i]);
      } else if (role == "assistant" && calling && !t_.calls) {
        calls_as_text(list[i]);
      } else if (role == "assistant" && calling && !t_.many_calls && calls->as_array().size() > 1) {
        i = split(list, i);
      } else {
        put(list[i]);
      }
    }
    return Json(std::move(out_));
  }

 private:
  void fix_ids(Json& message) const {
    const size_t length = format_.calls.id_length;
    if (length == 0) return;
    if (const Json* id = message.find("tool_call_id"); id != nullptr && id->is_string()) {
      message.set("tool_call_id", fitting_id(id->as_string(), length));
    }
    const Json* calls = message.find("tool_calls");
    if (calls == nullptr || !calls->is_array()) return;
    Json::Array fixed = calls->as_array();
    for (Json& call : fixed) call.set("id", fitting_id(text_of(call, "id"), length));
    message.set("tool_calls", Json(std::move(fixed)));
  }

  // One system message in front, with the tools that the template would not show; or none, and its
  // text in front of the first user's.
  void lead(Json::Array& list, const std::vector<Tool>& tools) const {
    size_t n = 0;
    std::string text;
    while (n < list.size()) {
      const std::string role = text_of(list[n], "role");
      if (role != "system" && role != "developer") break;
      const std::string content = text_of(list[n], "content");
      text += (text.empty() || content.empty() ? "" : "\n\n") + content;
      ++n;
    }
    const bool told = !tools.empty() && !t_.tools;
    if (told) text += (text.empty() ? "" : "\n\n") + instructions(format_, tools);
    if (n == 1 && !told && t_.system) return;
    if (n == 0 && !told) return;
    Json first = n > 0 ? list[0] : message_of("system", "");
    first.set("content", text);
    list.erase(list.begin(), list.begin() + static_cast<ptrdiff_t>(n));
    if (t_.system) {
      list.insert(list.begin(), std::move(first));
      return;
    }
    for (Json& message : list) {
      if (text_of(message, "role") != "user") continue;
      message.set("content", text + "\n\n" + text_of(message, "content"));
      return;
    }
    list.insert(list.begin(), message_of("user", text));
  }

  // The message with its calls as the template wants them.
  void put(Json message) {
    const std::string reasoning = text_of(message, "reasoning_content");
    const Json* calls = message.find("tool_calls");
    const bool calling = calls != nullptr && calls->is_array() && !calls->as_array().empty();
    if (t_.thinking && !reasoning.empty() && !(calling && !text_of(message, "content").empty())) {
      message.set("thinking", reasoning);
    }
    if (calling) {
      Json::Array fixed;
      for (const Json& call : calls->as_array()) {
        const Json* function = call.find("function");
        if (function == nullptr) continue;
        const std::string text = text_of(*function, "arguments");
        Json arguments = text;
        if (!t_.arguments_as_text) {
          Json parsed = parsed_arguments(text);
          if (!parsed.is_null()) {
            arguments = std::move(parsed);
          } else if (!t_.broken_arguments) {
            arguments = Json::object({{"arguments", text}});
          }
        }
        Json one = call;
        one.set("function", Json::object({{"name", text_of(*function, "name")},
                                          {"arguments", std::move(arguments)}}));
        fixed.push_back(std::move(one));
      }
      message.set("tool_calls", Json(std::move(fixed)));
    }
    out_.push_back(std::move(message));
  }

  // A message per call, with the results behind each; gives the last message that was used.
  size_t split(const Json::Array& list, size_t at) {
    size_t end = at + 1;
    while (end < list.size() && text_of(list[end], "role") == "tool") ++end;
    std::vector<bool> used(end - at);
    const Json::Array calls = list[at].find("tool_calls")->as_array();
    for (size_t c = 0; c < calls.size(); ++c) {
      Json message = list[at];
      if (c > 0) {
        message.set("content", "");
        message.set("reasoning_content", Json());
      }
      message.set("tool_calls", Json(Json::Array{calls[c]}));
      put(std::move(message));
      for (size_t i = at + 1; i < end; ++i) {
        const bool same = text_of(list[i], "tool_call_id") == text_of(calls[c], "id");
        const bool rest = c + 1 == calls.size();
        if (used[i - at] || !(same || rest)) continue;
        used[i - at] = true;
        put_result(list[i]);
      }
    }
    return end - 1;
  }

  void put_result(const Json& message) {
    if (t_.results) {
      put(message);
    } else {
      result_as_text(message);
    }
  }

  void calls_as_text(const Json& message) {
    std::string content = text_of(message, "content");
    for (const Json& call : message.find("tool_calls")->as_array()) {
      const Json* function = call.find("function");
      if (function == nullptr) continue;
      const std::string text = text_of(*function, "arguments");
      Json arguments = parsed_arguments(text);
      if (arguments.is_null()) arguments = Json::object({{"arguments", text}});
      if (!content.empty()) content += '\n';
      content += example_call(format_, text_of(*function, "name"), arguments);
    }
    Json out = message_of("assistant", content);
    if (const Json* reasoning = message.find("reasoning_content")) {
      out.set("reasoning_content", *reasoning);
    }
    out_.push_back(std::move(out));
  }

  // Results that follow each other are one turn.
  void result_as_text(const Json& message) {
    const std::string text =
        "<tool_response>\n" + text_of(message, "content") + "\n</tool_response>";
    if (!out_.empty() && told_result_ == out_.size() - 1 && told_result_ != SIZE_MAX) {
      out_.back().set("content", text_of(out_.back(), "content") + "\n" + text);
      return;
    }
    told_result_ = out_.size();
    out_.push_back(message_of("user", text));
  }

  const TemplateTraits& t_;
  const ChatFormat& format_;
  Json::Array out_;
  size_t told_result_ = SIZE_MAX;  // the message that results were last told in
};

}  // namespace

Json messages_for(const TemplateTraits& traits, const ChatFormat& format, const Json& messages,
                  const std::vector<Tool>& tools) {
  return Rewriter(traits, format).run(messages, tools);
}

Json tools_for(const std::vector<Tool>& tools) {
  Json out = Json::array();
  for (const Tool& tool : tools) {
    out.push(Json::object({{"type", "function"},
                           {"function", Json::object({{"name", tool.name},
                                                      {"description", tool.description},
                                                      {"parameters", tool.parameters}})}}));
  }
  return out;
}

}  // namespace strata::text
