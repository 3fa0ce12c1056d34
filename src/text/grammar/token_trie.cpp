#include "text/grammar/token_trie.h"

#include <algorithm>

#include "base/utf8.h"

namespace strata::text {
namespace {

bool is_plain(std::string_view text) {
  uint32_t characters = 0;
  for (size_t at = 0; at < text.size(); ++characters) {
    const Utf8Char c = decode_utf8(text, at);
    if (!c.valid || c.code_point < 0x20 || c.code_point == 0x7F || c.code_point == '"' ||
        c.code_point == '\\') {
      return false;
    }
    at += c.length;
  }
  return characters > 0 && characters <= TokenTrie::k_plain_characters;
}

}  // namespace

std::shared_ptr<const TokenTrie> TokenTrie::make(const Tokenizer& tokenizer,
                                                 std::span<const TokenId> shown) {
  std::vector<std::string> texts(tokenizer.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    const TokenKind kind = tokenizer.kind(id);
    if (kind == TokenKind::control || kind == TokenKind::unknown) continue;
    texts[i] = tokenizer.piece(id);
  }
  for (const TokenId id : shown) texts.at(static_cast<size_t>(id)) = tokenizer.token_text(id);
  return make(std::move(texts), tokenizer.end_of_generation());
}

std::shared_ptr<const TokenTrie> TokenTrie::make(std::vector<std::string> texts,
                                                 std::vector<TokenId> end_of_generation) {
  std::sort(end_of_generation.begin(), end_of_generation.end());
  for (const TokenId id : end_of_generation) texts.at(static_cast<size_t>(id)).clear();
  for (std::string& text : texts) {
    if (text.size() > k_max_token_bytes) text.clear();
  }
  return std::shared_ptr<const TokenTrie>(new TokenTrie(texts, std::move(end_of_generation)));
}

TokenTrie::TokenTrie(const std::vector<std::string>& texts, std::vector<TokenId> end_of_generation)
    : end_of_generation_(std::move(end_of_generation)) {
  offsets_.push_back(0);
  for (const std::string& text : texts) {
    text_ += text;
    offsets_.push_back(text_.size());
  }
  for (size_t i = 0; i < texts.size(); ++i) {
    if (!texts[i].empty()) tokens_.push_back(static_cast<TokenId>(i));
  }
  std::sort(tokens_.begin(), tokens_.end(), [&](TokenId a, TokenId b) {
    const std::string_view left = bytes(a), right = bytes(b);
    return left != right ? left < right : a < b;
  });

  plain_mask_.resize(mask_words());
  nodes_.push_back({0, 0, 0, 0, true});
  std::vector<uint32_t> path = {0};  // the nodes of the last token's bytes
  std::string_view last;
  for (uint32_t i = 0; i < tokens_.size(); ++i) {
    const std::string_view text = bytes(tokens_[i]);
    const size_t common = static_cast<size_t>(
        std::mismatch(last.begin(), last.end(), text.begin(), text.end()).first - last.begin());
    for (; path.size() > common + 1; path.pop_back()) {
      nodes_[path.back()].end = static_cast<uint32_t>(nodes_.size());
    }
    for (size_t k = common; k < text.size(); ++k) {
      path.push_back(static_cast<uint32_t>(nodes_.size()));
      nodes_.push_back({0, i, static_cast<uint16_t>(k + 1), static_cast<uint8_t>(text[k]), true});
    }
    if (is_plain(text)) {
      const auto id = static_cast<uint32_t>(tokens_[i]);
      plain_mask_[id / 32] |= 1u << (id % 32);
    } else {
      for (const uint32_t node : path) nodes_[node].all_plain = false;
    }
    last = text;
  }
  for (const uint32_t node : path) nodes_[node].end = static_cast<uint32_t>(nodes_.size());
  nodes_.push_back({0, static_cast<uint32_t>(tokens_.size()), 0, 0, false});
}

std::string_view TokenTrie::bytes(TokenId id) const {
  const auto i = static_cast<size_t>(id);
  return std::string_view(text_).substr(offsets_[i], offsets_[i + 1] - offsets_[i]);
}

bool TokenTrie::is_end_of_generation(TokenId id) const {
  return std::binary_search(end_of_generation_.begin(), end_of_generation_.end(), id);
}

}  // namespace strata::text
