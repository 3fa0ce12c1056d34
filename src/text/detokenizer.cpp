#include <algorithm>

#include "base/utf8.h"
#include "text/tokenizer.h"

namespace strata::text {

Detokenizer::Detokenizer(const Tokenizer& tokenizer, bool show_special, bool at_start)
    : tokenizer_(&tokenizer), show_special_(show_special), at_start_(at_start) {}

std::string Detokenizer::push(TokenId id) {
  const bool shown = std::binary_search(shown_.begin(), shown_.end(), id);
  tokenizer_->append_text(id, show_special_ || shown, at_start_, held_);
  const size_t certain = held_.size() - incomplete_utf8_suffix(held_);
  std::string out = replace_invalid_utf8(std::string_view(held_).substr(0, certain));
  held_.erase(0, certain);
  return out;
}

std::string Detokenizer::finish() {
  std::string out = replace_invalid_utf8(held_);
  held_.clear();
  return out;
}

}  // namespace strata::text
