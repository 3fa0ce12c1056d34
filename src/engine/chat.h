// Conversations as a model's template puts them, and how the model answers them.
//
// Purpose: what Engine::chat_tokens and the server share: the template with what it can do, the
// family's format of reasoning and calls, and the control tokens that mark them.
// Errors: ErrorCode::bad_request: what the template refuses, variables that belong to it.
// Threads: constant after construction; prompt() from many threads at once.
#pragma once

#include <span>
#include <string>
#include <string_view>
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
  // null.
  Prompt prompt(std::span<const ChatMessage> messages, const std::vector<text::Tool>& tools,
                const Json& variables, bool add_generation_prompt) const;

  const text::ChatFormat& format() const { return format_; }
  const text::TemplateTraits& traits() const { return traits_; }
  const std::string& source() const { return source_; }
  // Control tokens that mark reasoning and, if wanted, calls, in ascending order.
  const std::vector<TokenId>& marks(bool of_calls) const {
    return of_calls ? marks_ : think_marks_;
  }

 private:
  Json special_texts() const;

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
// "parameters"}}]. `where` names the list in errors.
std::vector<text::Tool> read_tools(const Json& list, const std::string& where);

}  // namespace strata
