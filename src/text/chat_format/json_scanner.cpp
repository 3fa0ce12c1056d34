#include "text/chat_format/json_scanner.h"

#include "base/json.h"

namespace strata::text {

size_t JsonScanner::take(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (done_) return i;
    const char c = text[i];
    if (in_string_) {
      if (escaped_) {
        escaped_ = false;
      } else if (c == '\\') {
        escaped_ = true;
      } else if (c == '"') {
        in_string_ = false;
        done_ = depth_ == 0;
      }
      continue;
    }
    if (is_word_) {
      const bool part = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                        (c >= 'A' && c <= 'Z') || c == '+' || c == '-' || c == '.';
      if (part) continue;
      done_ = true;
      return i;
    }
    if (c == '"') {
      in_string_ = true;
    } else if (c == '{' || c == '[') {
      ++depth_;
    } else if (c == '}' || c == ']') {
      if (depth_ > 0) --depth_;
      done_ = depth_ == 0;
    } else if (!begun_) {
      is_word_ = true;
    }
    begun_ = true;
  }
  return text.size();
}

void append_json_escaped(std::string& out, std::string_view text) {
  const std::string quoted = Json(text).dump();
  out.append(quoted, 1, quoted.size() - 2);
}

}  // namespace strata::text
