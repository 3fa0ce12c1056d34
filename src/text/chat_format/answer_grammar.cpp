#include "text/chat_format/answer_grammar.h"

#include <algorithm>

#include "base/error.h"
#include "base/field_error.h"
#include "text/chat_format/grammar_text.h"
#include "text/chat_format/tagged_value.h"
#include "text/grammar/json_schema.h"

namespace strata::text {
namespace {

using Body = CallSyntax::Body;
using Exit = GrammarText::Exit;

// A model may put a little white space between the parts.
constexpr const char* k_gap = "[ \\n]{0,3}";
constexpr const char* k_id_part = "[a-zA-Z0-9]";

std::string lit(std::string_view text) { return GrammarText::literal(text); }

// The white space behind a mark.
std::string_view tail_of(std::string_view mark) {
  const std::string_view inner = trimmed(mark);
  if (inner.empty()) return mark;
  return mark.substr(mark.find(inner) + inner.size());
}

// References within a part still lead into the whole.
Json with_definitions(const Json& part, const Json& whole) {
  Json out = part.is_object() ? part : Json::object();
  for (const char* key : {"$defs", "definitions"}) {
    const Json* there = whole.find(key);
    if (there != nullptr && out.find(key) == nullptr) out.set(key, *there);
  }
  return out;
}

class Builder {
 public:
  Builder(const ChatFormat& format, const AnswerRules& rules)
      : format_(format), calls_(format.calls), rules_(rules) {}

  AnswerGrammar run() {
    const bool may_call = rules_.choice != ToolChoice::none && !rules_.tools.empty();
    if (!may_call && !rules_.content) return {};
    if (rules_.content) content_ = text_.embed(*rules_.content);
    if (may_call) {
      for (const Tool& tool : rules_.tools) bodies_.push_back(body_of(tool));
    }
    const std::string root = calls_.body == Body::channels ? channels() : blocks();
    return {text_.finish(root), std::move(warnings_)};
  }

 private:
  bool required() const { return rules_.choice == ToolChoice::required && !bodies_.empty(); }

  // ---- arguments

  std::string schema(const Json& schema, const Tool& tool, const std::string& where) {
    try {
      SchemaGrammar grammar = schema_grammar(schema);
      for (const std::string& warning : grammar.warnings) {
        warnings_.push_back(fmt::format("tool '{}'{}: {}", tool.name, where, warning));
      }
      return text_.embed(grammar.gbnf);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::bad_request) throw;
      fail_field(tool.field, "tool '{}'{}: {}", tool.name, where, error.what());
    }
  }

  static Json parameters_of(const Tool& tool) {
    if (!tool.parameters.is_object()) {
      fail_field(tool.field, "tool '{}': its parameters must be a schema, not {}", tool.name,
                 tool.parameters.type_name());
    }
    Json out = tool.parameters;
    const Json* type = out.find("type");
    if (type == nullptr) {
      if (out.find("$ref") == nullptr && out.find("anyOf") == nullptr &&
          out.find("oneOf") == nullptr && out.find("allOf") == nullptr) {
        out.set("type", "object");
      }
    } else if (!type->is_string() || type->as_string() != "object") {
      fail_field(tool.field,
                 "tool '{}': schema at #: the type of parameters must be \"object\", not {}",
                 tool.name, printable(type->dump(), 40));
    }
    return out;
  }

  std::string body_of(const Tool& tool) {
    const Json parameters = parameters_of(tool);
    const std::string& name = tool.name;
    switch (calls_.body) {
      case Body::object: {
        std::string out = lit("{\"name\": " + Json(name).dump() + ", \"" +
                              std::string(calls_.arguments_key) + "\": ") +
                          " " + schema(parameters, tool, "");
        if (calls_.writes_id && calls_.id_length > 0) {
          out += " (" + lit(", \"id\": \"") + " " + k_id_part +
                 fmt::format("{{{}}} ", calls_.id_length) + lit("\"") + ")?";
        }
        return text_.rule(out + " " + lit("}"));
      }
      case Body::named: {
        std::string out = lit(std::string(calls_.name_open) + name);
        if (calls_.numbered) out += " " + lit(":") + " [0-9]{1,4}";
        if (calls_.name_end == "[ARGS]") {
          out += " (" + lit("[CALL_ID]") + " " + k_id_part +
                 fmt::format("{{{}}}", calls_.id_length) + ")?";
        }
        return text_.rule(out + " " + lit(calls_.name_end) + " " + schema(parameters, tool, "") +
                          " " + lit(calls_.arguments_end));
      }
      case Body::channels: {
        const std::string to = lit("to=functions." + name);
        const std::string json = "\" \"? " + lit("<|constrain|>") + "? \"json\"? " +
                                 lit("<|message|>") + " " + schema(parameters, tool, "");
        return text_.rule("(" + lit("<|channel|>commentary ") + " " + to + " | \" \"? " + to + " " +
                          lit("<|channel|>commentary") + ") " + json);
      }
      case Body::tagged:
        break;
    }
    return text_.rule(lit(std::string(calls_.name_open) + name + std::string(calls_.name_end)) +
                      " " + tagged(tool, parameters) + " " + lit(calls_.arguments_end));
  }

  std::string tagged(const Tool& tool, const Json& parameters) {
    const Json* properties = parameters.find("properties");
    if (properties != nullptr && !properties->is_object()) {
      fail_field(tool.field, "tool '{}': schema at #: properties is not an object", tool.name);
    }
    const Json* additional = parameters.find("additionalProperties");
    const bool closed = additional != nullptr && additional->is_bool() && !additional->as_bool();
    if (properties == nullptr) {
      if (closed) return "\"\"";
      return text_.rule(lit(calls_.parameter_open) + " [a-zA-Z0-9_.-]{1,64} " +
                        lit(std::string(calls_.key_end) + std::string(calls_.value_open)) + " " +
                        raw_text()) +
             "*";
    }
    std::vector<std::string> required;
    if (const Json* list = parameters.find("required"); list != nullptr && list->is_array()) {
      for (const Json& one : list->as_array()) {
        if (one.is_string()) required.push_back(one.as_string());
      }
    }
    std::string out = "\"\"";
    for (const auto& [key, property] : properties->as_object()) {
      if (key.empty() || key.find_first_of("<>\"\n") != key.npos) {
        fail_field(tool.field,
                   "tool '{}': the parameter '{}' has a name that this model's format cannot write",
                   tool.name, printable(key, 60));
      }
      const std::string member = lit(std::string(calls_.parameter_open) + key +
                                     std::string(calls_.key_end) + std::string(calls_.value_open)) +
                                 " " + value_of(tool, key, property, parameters);
      const bool needed = std::find(required.begin(), required.end(), key) != required.end();
      out += " " + text_.rule(member) + (needed ? "" : "?");
    }
    return out;
  }

  // A value with the mark behind it.
  std::string value_of(const Tool& tool, const std::string& key, const Json& property,
                       const Json& parameters) {
    const TaggedValue value(property, parameters);
    const std::string end = " " + lit(calls_.value_end);
    if (value.kind() == TaggedValue::Kind::text && !value.min_length() && !value.max_length()) {
      return raw_text();
    }
    if (value.kind() == TaggedValue::Kind::text) {
      const uint64_t min = value.min_length().value_or(0);
      const uint64_t max = std::min<uint64_t>(value.max_length().value_or(1'000'000), 1'000'000);
      if (max < min) {
        fail_field(tool.field,
                   "tool '{}': schema at #/properties/{}: minLength {} is above "
                   "maxLength {}",
                   tool.name, printable(key, 60), min, max);
      }
      // Without the sign that begins every mark.
      return text_.rule(fmt::format("[^<\\n]{{{},{}}}", min, max) + end);
    }
    if (value.kind() == TaggedValue::Kind::mixed && value.any_text()) return raw_text();
    if (!value.strings().empty()) {
      std::string out;
      const std::string mark(trimmed(calls_.value_end));
      for (const std::string& one : value.strings()) {
        if (one.find(mark) != one.npos) continue;
        out += (out.empty() ? "(" : " | ") + lit(one);
      }
      if (!out.empty()) return out + ")" + end;
    }
    return schema(with_definitions(property, parameters), tool,
                  ", parameter '" + printable(key, 60) + "'") +
           end;
  }

  // Any text up to the mark behind a value.
  std::string raw_text() {
    const std::string_view mark = trimmed(calls_.value_end);
    return text_.text_until({{std::string(mark), lit(tail_of(calls_.value_end))}}, false);
  }

  // ---- calls

  // One of the calls, without what opens it.
  std::string any_call(std::string_view close) {
    std::string out;
    for (const std::string& body : bodies_) out += (out.empty() ? "" : " | ") + body;
    return text_.rule("(" + out + ") " + lit(close));
  }

  // All calls behind the mark that begins the first of them.
  std::string calls_behind_mark() {
    const bool section = !calls_.section_open.empty();
    const std::string call = any_call(calls_.call_close);
    std::string more;
    if (calls_.list) {
      more = lit(calls_.separator) + " " + call;
    } else {
      more = lit(std::string(calls_.separator) + std::string(calls_.call_open)) + " " + call;
    }
    std::string out = lit(tail_of(section ? calls_.section_open : calls_.call_open)) + " ";
    if (section && calls_.list) out += lit("[") + " ";
    if (section && !calls_.list) out += lit(calls_.call_open) + " ";
    out += call;
    if (rules_.parallel) out += " (" + more + ")*";
    if (calls_.list) out += " " + lit("]");
    if (section) out += " " + lit(calls_.section_close);
    return text_.rule(out);
  }

  std::string bare_calls() {
    const std::string call = any_call("");
    std::string out = lit(calls_.bare_mark).empty() ? call : lit(calls_.bare_mark) + "? " + call;
    if (rules_.parallel && !calls_.separator.empty()) {
      out += " (" + lit(calls_.separator) + " " + call + ")*";
    }
    return text_.rule(out);
  }

  std::string call_mark() const {
    return std::string(
        trimmed(calls_.section_open.empty() ? calls_.call_open : calls_.section_open));
  }

  // ---- whole answers

  std::string blocks() {
    const bool thinks = !format_.think_close.empty();
    // What follows a block: exactly calls, or the content, or both to choose from.
    std::string then;
    const bool free_text = !content_.empty() ? false : !required();
    if (!bodies_.empty() && !free_text) {
      const std::string calls =
          calls_.bare ? bare_calls() : text_.rule(lit(call_mark()) + " " + calls_behind_mark());
      then = required() || content_.empty() ? calls : calls + " | " + content_;
    } else if (!content_.empty()) {
      then = content_;
    }
    if (!free_text) {
      const std::string after = text_.rule(std::string(k_gap) + " (" + then + ")");
      // White space in front of content would be a part of it.
      const std::string at_once = required() ? after : "(" + then + ")";
      if (!thinks || (!rules_.may_think && !rules_.in_reasoning)) return at_once;
      const std::string thought =
          text_.text_until({{std::string(format_.think_close), after}}, false);
      if (rules_.in_reasoning) return thought;
      return at_once + " | " + k_gap + " " + lit(format_.think_open) + " " + thought;
    }
    // Free text, in which a block or a call may begin.
    const std::string open_text = text_.declare();
    std::vector<Exit> exits;
    if (!calls_.bare) exits.push_back({call_mark(), calls_behind_mark()});
    std::string thought;
    if (thinks) {
      thought = text_.text_until({{std::string(format_.think_close), open_text}}, true);
      exits.push_back({std::string(format_.think_open), thought});
    }
    if (calls_.bare) {
      std::vector<Exit> fronts = {{bare_front(), bare_rest()}};
      if (!calls_.bare_mark.empty()) {
        fronts.push_back({std::string(calls_.bare_mark), bare_calls()});
      }
      if (thinks) fronts.push_back(exits.back());
      text_.define(open_text, text_.text_until(fronts, true, true));
    } else {
      text_.define(open_text, text_.text_until(exits, true));
    }
    return thinks && rules_.in_reasoning ? thought : open_text;
  }

  // What no free text begins with, and what stands behind it.
  static std::string bare_front() { return "{\"name\": \""; }
  std::string bare_rest() {
    // The calls again, without the front that all of them share.
    std::string out;
    for (size_t i = 0; i < bodies_.size(); ++i) {
      const Tool& tool = rules_.tools[i];
      out += (i > 0 ? " | " : "") +
             lit(tool.name + "\", \"" + std::string(calls_.arguments_key) + "\": ") + " " +
             schema(parameters_of(tool), tool, "") + " " + lit("}");
    }
    std::string rest = "(" + out + ")";
    if (rules_.parallel && !calls_.separator.empty()) {
      rest += " (" + lit(calls_.separator) + " " + any_call("") + ")*";
    }
    return text_.rule(rest);
  }

  // The text of a message: no marks but the one at its end.
  std::string message_text(const std::string& then, bool may_end) {
    std::vector<Exit> exits = {{"<|end|>", then}};
    for (const char* mark : {"<|start|>", "<|channel|>", "<|message|>", "<|constrain|>"}) {
      exits.push_back({mark, "", true});
    }
    return text_.text_until(exits, may_end);
  }

  std::string channels() {
    const std::string message = text_.declare();
    const std::string next = lit("<|start|>assistant") + " " + message;
    std::string out = lit("<|channel|>analysis<|message|>") + " " + message_text(next, false);
    if (!bodies_.empty()) {
      out += " | " + any_call("");
      out += " | " + lit("<|channel|>commentary<|message|>") + " " + message_text(next, false);
    }
    if (!required()) {
      out += " | " + lit("<|channel|>final<|message|>") + " " +
             (content_.empty() ? message_text("", true) : content_);
    }
    text_.define(message, out);
    return message;
  }

  const ChatFormat& format_;
  const CallSyntax& calls_;
  const AnswerRules& rules_;
  GrammarText text_;
  std::string content_;
  std::vector<std::string> bodies_;  // by tool
  std::vector<std::string> warnings_;
};

}  // namespace

AnswerGrammar answer_grammar(const ChatFormat& format, const AnswerRules& rules) {
  return Builder(format, rules).run();
}

std::string example_call(const ChatFormat& format, const std::string& name, const Json& arguments) {
  const CallSyntax& c = format.calls;
  std::string out(c.section_open);
  if (c.list) out += '[';
  out += c.call_open;
  const std::string json = arguments.dump();
  switch (c.body) {
    case Body::object:
    case Body::channels:
      out += "{\"name\": " + Json(name).dump() + ", \"" + std::string(c.arguments_key) +
             "\": " + json + "}";
      break;
    case Body::named:
      out += std::string(c.name_open) + name + (c.numbered ? ":0" : "") + std::string(c.name_end) +
             json + std::string(c.arguments_end);
      break;
    case Body::tagged:
      out += std::string(c.name_open) + name + std::string(c.name_end);
      for (const auto& [key, value] : arguments.as_object()) {
        out += std::string(c.parameter_open) + key + std::string(c.key_end) +
               std::string(c.value_open) + (value.is_string() ? value.as_string() : value.dump()) +
               std::string(c.value_end);
      }
      out += c.arguments_end;
      break;
  }
  out += c.call_close;
  if (c.list) out += ']';
  return out + std::string(c.section_close);
}

}  // namespace strata::text
