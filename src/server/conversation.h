// A conversation as a request has it: messages, tools, and how the answer is to be taken apart.
//
// Purpose: OpenAI's and llama-server's fields, and Anthropic's, into one Conversation; from there
// into a generation. What the forms of an answer share is in answer.h.
// Errors: ErrorCode::bad_request naming the field.
// Threads: pure functions.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "engine/chat.h"
#include "engine/scheduler.h"
#include "server/fields.h"
#include "text/chat_format/answer_grammar.h"

namespace strata::server {

struct AnswerShape;
struct ApiOptions;
struct Call;

struct Conversation {
  std::vector<ChatMessage> messages;
  std::vector<std::string> places;  // of the messages in the request ("messages[2]"), for errors
  std::vector<text::Tool> tools;    // none where none may be called
  text::ToolChoice choice = text::ToolChoice::none;
  std::vector<std::string> only;  // names that may be called now; empty: all
  bool named = false;             // the request names the one to call
  bool parallel = true;
  Json variables = Json::object();
  bool add_generation_prompt = true;
  bool split_reasoning = true;
};

// "messages", "tools", "tool_choice", "parallel_tool_calls", "reasoning_format",
// "reasoning_effort", "chat_template_kwargs", "add_generation_prompt".
Conversation conversation_of(Fields& fields, const ApiOptions& options);
// "messages" with "system", "tools", "tool_choice", "thinking".
Conversation anthropic_conversation_of(Fields& fields, const ApiOptions& options);

// Sets the tools, and the choice from `choice` as OpenAI's chat completions have it (null: what is
// usual).
void set_tools(Conversation& conversation, std::vector<text::Tool> tools, const Json* choice);

// How the answers to a conversation are to be read.
struct AnswerForm {
  text::ChatFormat format;
  bool split_reasoning = true;
  bool in_reasoning = false;
  bool named = false;
  std::shared_ptr<const std::vector<text::Tool>> tools;  // null: no calls are looked for
};

// What the model reads.
Chat::Prompt prompt_of(Engine& engine, const Conversation& conversation);

// Prompt, grammar and shown marks of the generation. `content`: what the content must keep to.
AnswerForm prepare(Engine& engine, const Conversation& conversation,
                   const std::optional<AnswerShape>& content, const std::string& path,
                   GenerationRequest& wanted, Call& call);

}  // namespace strata::server
