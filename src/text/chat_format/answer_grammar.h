// The grammar of an answer that may, or must, call tools.
//
// Purpose: GBNF for a family's format in which every call names a tool there is and has arguments
// that the tool's schema accepts. Free text stays free up to the mark that begins a call; what is
// thought is free up to its closing mark.
// Arguments between tags: strings stand as they are and are held to listed values and lengths;
// patterns and formats are held to by writing them as JSON. A tool without listed properties may
// have any.
// Errors: ErrorCode::bad_request naming the tool and the place in its schema.
// Threads: pure functions.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "text/chat_format/chat_format.h"

namespace strata::text {

enum class ToolChoice { none, automatic, required };

struct AnswerRules {
  std::vector<Tool> tools;  // that may be called now
  ToolChoice choice = ToolChoice::none;
  bool parallel = true;       // more than one call
  bool in_reasoning = false;  // the prompt ends within a block
  bool may_think = true;      // else nothing but calls or the content, where one of them must be
  // What the content must be (GBNF); it never is when a call is required.
  std::optional<std::string> content;
};

struct AnswerGrammar {
  std::string gbnf;  // empty: nothing is to be kept to
  std::vector<std::string> warnings;
};

AnswerGrammar answer_grammar(const ChatFormat& format, const AnswerRules& rules);

// How a call looks in the format, for instructions.
std::string example_call(const ChatFormat& format, const std::string& name, const Json& arguments);

}  // namespace strata::text
