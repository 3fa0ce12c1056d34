// Conversations as a model's template puts them, and how the model answers them.
//
// Purpose: what Engine::chat_tokens and the server share: the template with what it can do, the
// family's format of reasoning and calls, and the control tokens that mark them.
// Errors: FieldError: "messages", "messages[I].role": what the template refuses; "variables": those
// that belong to it. What a template says is told with the messages that it says it of.
// Threads: constant after construction; prompt() from many threads at once.
#pragma once

#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "strata/engine.h"
#include "text/chat_format/chat_format.h"
#include "text/chat_format/conversation.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace strata {

class Chat {
 public:
  // ErrorCode::bad_file when the template does not parse. The tokenizer must outlive it.
  Chat(std::string_view source, const text::Tokenizer& tokenizer);

  struct Prompt {
    std::vector<TokenId> tokens;
    std::string text;
    bool in_reasoning = false;  // it ends where the model is to think
  };
  // `variables`: an object of what the template may be told besides, such as enable_thinking; or
  // null. Roles other than OpenAI's are for the template to know: one whose text it would leave out
  // is refused.
  Prompt prompt(std::span<const ChatMessage> messages, const std::vector<text::Tool>& tools,
                const Json& variables, bool add_generation_prompt) const;

  // Refuses names that only a conversation gives.
  static void check_variables(const Json& variables);

  const text::ChatFormat& format() const { return format_; }
  const text::TemplateTraits& traits() const { return traits_; }
  const std::string& source() const { return source_; }
  // Control tokens that mark reasoning and, if wanted, calls, in ascending order.
  const std::vector<TokenId>& marks(bool of_calls) const {
    return of_calls ? marks_ : think_marks_;
  }

 private:
  Json special_texts() const;
  Json variables_for(std::span<const ChatMessage> messages, const std::vector<text::Tool>& tools,
                     const Json& variables, bool add_generation_prompt) const;
  bool shows_role(const std::string& role) const;
  void check_roles(std::span<const ChatMessage> messages) const;
  // Says which of the messages the template does not take, and in which words it does so.
  [[noreturn]] void explain(const text::TemplateError& error, std::span<const ChatMessage> messages,
                            const std::vector<text::Tool>& tools, const Json& variables) const;

  const text::Tokenizer& tokenizer_;
  std::string source_;
  text::ChatTemplate template_;
  text::ChatFormat format_;
  text::TemplateTraits traits_;
  std::vector<TokenId> marks_, think_marks_;
};

// The engine's; ErrorCode::bad_request when the model has none.
const Chat& chat_of(const Engine::Impl& engine);

// Tools as OpenAI writes them: [{"type": "function", "function": {"name", "description",
// "parameters"}}]. `where` names the list in errors, which are FieldErrors.
std::vector<text::Tool> read_tools(const Json& list, const std::string& where);
// Those of a list, one by one, whatever it is around them: each an object with "name",
// "description" and a schema named `parameters`; two of one name, and too many, are refused.
class ToolReader {
 public:
  explicit ToolReader(const char* parameters = "parameters") : parameters_(parameters) {}
  // `where` names the object in errors: "tools[1].function".
  void add(const Json& object, const std::string& where);
  std::vector<text::Tool> take() { return std::move(tools_); }

 private:
  const char* parameters_;
  std::vector<text::Tool> tools_;
  std::set<std::string> names_;
};

}  // namespace strata
