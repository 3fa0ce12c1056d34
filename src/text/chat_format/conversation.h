// Brings a conversation into the form that a chat template can render.
//
// Purpose: templates differ in what they know: system messages, tools, calls, results, arguments as
// objects or as text. What a template does is found by trying; what it does not know is said in
// words it does: tools in the system message, calls and results as text of ordinary turns.
// Not for: rendering (chat_template.h).
// Threads: plain values and pure functions.
#pragma once

#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/chat_format/chat_format.h"
#include "text/chat_template.h"

namespace strata::text {

struct TemplateTraits {
  bool system = true;              // takes a system message
  bool developer = false;          // and one of the developer
  bool tools = false;              // shows the tools
  bool calls = false;              // shows an assistant's calls
  bool results = false;            // shows messages of tools
  bool many_calls = false;         // several in one message
  bool arguments_as_text = false;  // else as objects
  bool broken_arguments = false;   // text that is no JSON can be shown as arguments
  bool thinking = false;           // reasoning is called "thinking"

  // `variables`: bos_token and the like.
  static TemplateTraits probe(const ChatTemplate& chat, std::string_view source,
                              const Json& variables);
};

// Messages as OpenAI's chat completions have them, each with "role" and a string as "content",
// calls with their arguments as text. The result is what the template takes.
Json messages_for(const TemplateTraits& traits, const ChatFormat& format, const Json& messages,
                  const std::vector<Tool>& tools);

// As templates know them: [{"type": "function", "function": {...}}].
Json tools_for(const std::vector<Tool>& tools);

}  // namespace strata::text
