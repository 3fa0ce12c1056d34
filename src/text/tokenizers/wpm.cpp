#include "text/tokenizers/wpm.h"

#include <utf8proc.h>

#include <algorithm>
#include <utility>

#include "base/utf8.h"
#include "text/tokenizers/vocabulary.h"

namespace strata::text {
namespace {

constexpr std::string_view k_mark = "\xE2\x96\x81";  // U+2581

bool is_white_space(uint32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

// Ideographs that stand as words, in the ranges of the published tokenizer (one of them begins
// later than its Unicode block, which the models were trained with).
bool is_ideograph(uint32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
         (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
         (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

utf8proc_category_t category_of(uint32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

bool is_dropped(uint32_t c) {
  if (c == 0 || c == 0xFFFD) return true;
  switch (category_of(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CS:
      return true;
    default:
      return false;
  }
}

bool is_punctuation(uint32_t c) {
  if ((c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) ||
      (c >= 123 && c <= 126)) {
    return true;
  }
  const utf8proc_category_t category = category_of(c);
  return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

}  // namespace

WpmTokenizer::WpmTokenizer(std::shared_ptr<const Vocabulary> vocabulary,
                           const gguf::Metadata& metadata)
    : Tokenizer(std::move(vocabulary)) {
  const Vocabulary& v = *vocabulary_;
  for (uint32_t id = 0; id < v.size(); ++id) {
    if (v.is_mergeable(id)) trie_.add(v.tokens[id], id);
  }
  lowercase_ = metadata.find_bool("tokenizer.ggml.normalizer.lowercase").value_or(true);
  strip_accents_ =
      metadata.find_bool("tokenizer.ggml.normalizer.strip_accents").value_or(lowercase_);
}

void WpmTokenizer::finish_word(std::string& word, std::vector<TokenId>& out) const {
  if (word.size() == k_mark.size()) return;
  const size_t before = out.size();
  for (size_t at = 0; at < word.size();) {
    uint32_t node = ByteTrie::k_root;
    uint32_t token = ByteTrie::k_none;
    size_t end = at;
    for (size_t i = at; i < word.size(); ++i) {
      node = trie_.child(node, static_cast<uint8_t>(word[i]));
      if (node == ByteTrie::k_none) break;
      if (trie_[node].value != ByteTrie::k_none) {
        token = trie_[node].value;
        end = i + 1;
      }
    }
    if (token == ByteTrie::k_none) {
      out.resize(before);
      if (unknown()) out.push_back(*unknown());
      break;
    }
    out.push_back(static_cast<TokenId>(token));
    at = end;
  }
  word.resize(k_mark.size());
}

void WpmTokenizer::take(uint32_t c, std::string& word, std::vector<TokenId>& out) const {
  if (lowercase_) c = static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
  const bool alone = is_punctuation(c) || is_ideograph(c);
  if (alone) finish_word(word, out);
  append_utf8(word, c);
  if (alone) finish_word(word, out);
}

void WpmTokenizer::encode_fragment(std::string_view fragment, bool /*at_start*/,
                                   std::vector<TokenId>& out) const {
  std::string word(k_mark);
  // Marks with a combining class wait here to be brought into canonical order. (The nonspacing
  // ones, which are nearly all, have been dropped by then.)
  std::vector<std::pair<int, uint32_t>> waiting;
  const auto release = [&] {
    std::stable_sort(waiting.begin(), waiting.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& entry : waiting) take(entry.second, word, out);
    waiting.clear();
  };
  for (size_t at = 0; at < fragment.size();) {
    const Utf8Char c = decode_utf8(fragment, at);
    at += c.length;
    if (is_white_space(c.code_point)) {
      release();
      finish_word(word, out);
      continue;
    }
    if (is_dropped(c.code_point)) continue;
    if (!strip_accents_) {
      take(c.code_point, word, out);
      continue;
    }
    utf8proc_int32_t parts[32];
    int boundary = 0;
    const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c.code_point), parts,
                                               32, UTF8PROC_DECOMPOSE, &boundary);
    for (utf8proc_ssize_t i = 0; i < std::min<utf8proc_ssize_t>(count, 32); ++i) {
      const utf8proc_property_t* property = utf8proc_get_property(parts[i]);
      if (property->category == UTF8PROC_CATEGORY_MN) continue;
      if (property->combining_class != 0) {
        waiting.emplace_back(property->combining_class, static_cast<uint32_t>(parts[i]));
        continue;
      }
      release();
      take(static_cast<uint32_t>(parts[i]), word, out);
    }
  }
  release();
  finish_word(word, out);
}

void WpmTokenizer::append_piece(TokenId id, std::string& out) const {
  const uint32_t index = static_cast<uint32_t>(id);
  std::string_view text = vocabulary_->tokens[index];
  if (vocabulary_->kinds[index] != TokenKind::user_defined &&
      text.substr(0, k_mark.size()) == k_mark) {
    out.push_back(' ');
    text.remove_prefix(k_mark.size());
  }
  out += text;
}

}  // namespace strata::text
