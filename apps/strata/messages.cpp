#include "strata/messages.h"

#include "base/error.h"
#include "base/json.h"

namespace strata::app {
namespace {

// The text of a message's content, or false when it is something else.
bool read_content(const Json& content, std::string& out) {
  if (content.is_string()) {
    out = content.as_string();
    return true;
  }
  if (!content.is_array()) return false;
  for (const Json& part : content.as_array()) {
    const Json* type = part.find("type");
    const Json* text = part.find("text");
    if (type == nullptr || !type->is_string() || type->as_string() != "text" || text == nullptr ||
        !text->is_string()) {
      return false;
    }
    out += text->as_string();
  }
  return true;
}

}  // namespace

std::vector<ChatMessage> messages_of(const std::string& text, const std::string& origin) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos || (text[first] != '[' && text[first] != '{')) return {};
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Error&) {
    return {};
  }
  const Json* list = json.is_array() ? &json : json.find("messages");
  if (list == nullptr || !list->is_array()) return {};
  std::vector<ChatMessage> messages;
  for (const Json& item : list->as_array()) {
    const Json* role = item.find("role");
    const Json* content = item.find("content");
    if (role == nullptr && messages.empty()) return {};  // some other list
    ChatMessage message;
    if (role == nullptr || !role->is_string() || content == nullptr ||
        !read_content(*content, message.content)) {
      fail(
          ErrorCode::bad_request,
          "{}: message {} needs a text under \"role\" and a text (or parts of type \"text\") under "
          "\"content\"",
          printable(origin, 400), messages.size());
    }
    message.role = role->as_string();
    messages.push_back(std::move(message));
  }
  return messages;
}

}  // namespace strata::app
