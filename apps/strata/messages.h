// Conversations as JSON: what `run -f` and `chat /load` read.
//
// Form: a list of messages, or an object that has one under "messages"; a message has texts under
// "role" and "content". Content may also be a list of parts of type "text".
// Threads: pure functions.
#pragma once

#include <string>
#include <vector>

#include "strata/engine.h"

namespace strata::app {

// Empty when the text is no JSON or no such list. A list whose items have roles, but are not
// messages as above, is ErrorCode::bad_request naming `origin` and the message.
std::vector<ChatMessage> messages_of(const std::string& text, const std::string& origin);

}  // namespace strata::app
