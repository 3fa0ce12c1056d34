// How a model family writes an answer: where it thinks, and how it calls tools.
//
// Purpose: one description per family, found by what the model's chat template says. The parser of
// answers (answer_parser.h) and the grammar of answers (answer_grammar.h) follow it, so that a
// family is added with one entry in families.cpp.
// Not for: rendering a conversation (conversation.h and chat_template.h).
// Threads: plain values and pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace strata::text {

// How calls of tools are written. White space at the ends of the marks is how a model lays its
// calls out; a reader does not depend on it.
struct CallSyntax {
  enum class Body {
    object,   // {"name": NAME, "arguments": {...}}
    named,    // the name, then the arguments as JSON
    tagged,   // the name, then each argument between tags, strings as they are
    channels  // messages with a channel and a recipient, as gpt-oss writes them
  };
  Body body = Body::object;
  std::string_view section_open = "", section_close = "";  // around all calls
  std::string_view call_open = "", call_close = "";        // around each
  std::string_view separator = "";                         // between two
  bool list = false;                                       // the objects stand in a JSON list
  // An object that begins the answer is a call; it has no mark but perhaps `bare_mark`.
  bool bare = false;
  std::string_view bare_mark = "";
  std::string_view arguments_key = "arguments";        // object
  std::string_view name_open = "", name_end = "";      // named, tagged
  std::string_view arguments_end = "";                 // named, tagged
  std::string_view parameter_open = "", key_end = "";  // tagged
  std::string_view value_open = "", value_end = "";    // tagged
  bool numbered = false;   // NAME:INDEX stands for the name, and is the call's id
  size_t id_length = 0;    // ids have so many letters and digits; 0: as one likes
  bool writes_id = false;  // the object holds its id
};

struct ChatFormat {
  std::string_view name;
  // Marks around what is thought; empty: the family does not think aloud. In channels both are.
  std::string_view think_open = "", think_close = "";
  CallSyntax calls;
};

// By what stands in a chat template's source. A template that knows no calls gets the general
// form: objects between <tool_call> tags.
ChatFormat detect_chat_format(std::string_view template_source);

// Every mark that may be a control token of the vocabulary, to be shown to the parser.
std::vector<std::string> marks_of(const ChatFormat& format);

// Without the white space at both ends.
std::string_view trimmed(std::string_view text);

// What a model may call.
struct Tool {
  std::string name;
  std::string description;
  Json parameters;         // a schema of an object
  std::string field = {};  // of the request where the parameters stand, for errors

  // Any other name is ErrorCode::bad_request: names stand between the marks of every format.
  static bool is_name(std::string_view name);
};

}  // namespace strata::text
