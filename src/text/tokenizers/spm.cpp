#include "text/tokenizers/spm.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "base/error.h"
#include "base/log.h"
#include "base/utf8.h"
#include "text/tokenizers/vocabulary.h"

namespace strata::text {
namespace {

constexpr std::string_view k_space = "\xE2\x96\x81";  // U+2581

bool is_space_at(std::string_view text, size_t at) {
  return text.compare(at, k_space.size(), k_space) == 0;
}

// The next place at or after `at` where a space follows another character; the end if none.
size_t end_of_word(std::string_view text, size_t at) {
  while (at < text.size() && is_space_at(text, at)) at += k_space.size();
  const size_t space = text.find(k_space, at);
  return space == std::string_view::npos ? text.size() : space;
}

std::vector<uint32_t> rank_scores(const std::vector<float>& scores) {
  std::vector<uint32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return scores[a] > scores[b]; });
  std::vector<uint32_t> ranks(scores.size());
  uint32_t rank = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i > 0 && scores[order[i]] != scores[order[i - 1]]) ++rank;
    ranks[order[i]] = rank;
  }
  return ranks;
}

}  // namespace

SpmTokenizer::SpmTokenizer(std::shared_ptr<const Vocabulary> vocabulary,
                           const gguf::Metadata& metadata)
    : Tokenizer(std::move(vocabulary)), whole_(vocabulary_->size()) {
  const Vocabulary& v = *vocabulary_;
  const auto scores = metadata.find_reals("tokenizer.ggml.scores");
  if (!scores) {
    fail(ErrorCode::bad_file, "tokenizer.ggml.scores is missing; a llama tokenizer needs it");
  }
  if (scores->size() != v.size()) {
    fail(ErrorCode::bad_file, "tokenizer.ggml.scores has {} entries for {} tokens", scores->size(),
         v.size());
  }
  for (size_t i = 0; i < scores->size(); ++i) {
    if (std::isnan((*scores)[i])) {
      fail(ErrorCode::bad_file, "tokenizer.ggml.scores[{}] is not a number", i);
    }
  }
  ranks_ = rank_scores(*scores);

  byte_tokens_.fill(SymbolTable::k_none);
  for (uint32_t id = 0; id < v.size(); ++id) {
    const std::string_view text = v.tokens[id];
    const bool mergeable = v.is_mergeable(id) && !text.empty();
    symbols_.add(text, mergeable);
    if (mergeable) {
      longest_ = std::max(longest_, text.size());
      if (end_of_word(text, 0) != text.size()) by_words_ = false;
    }
    // Files without token types have byte tokens too.
    const auto byte = parse_byte_token(text);
    if (byte && v.kinds[id] != TokenKind::control && v.kinds[id] != TokenKind::unknown) {
      uint32_t& entry = byte_tokens_[*byte];
      if (entry == SymbolTable::k_none || v.kinds[id] == TokenKind::byte) entry = id;
    }
  }
  const auto missing = std::count(byte_tokens_.begin(), byte_tokens_.end(), SymbolTable::k_none);
  if (missing > 0 && !unknown()) {
    log::warning(
        "the vocabulary has neither byte tokens for all bytes nor an unknown token; characters "
        "that are no token are lost");
  }
}

void SpmTokenizer::encode_word(std::string_view word, Merger& merger,
                               std::vector<TokenId>& out) const {
  const uint32_t token = word.size() <= longest_ ? symbols_.find(word) : SymbolTable::k_none;
  const bool is_token = token != SymbolTable::k_none;
  if (is_token && whole_.get(token) == WholeTokens::whole) {
    out.push_back(static_cast<TokenId>(token));
    return;
  }
  std::vector<Part>& parts = merger.parts();
  parts.clear();
  for (size_t at = 0; at < word.size();) {
    const size_t length = decode_utf8(word, at).length;
    const uint32_t symbol = symbols_.find(word.substr(at, length));
    parts.push_back(Part{static_cast<uint32_t>(at), static_cast<uint32_t>(length), symbol});
    at += length;
  }
  merger.run([this, word](const Part& left, const Part& right) {
    const size_t length = size_t{left.length} + right.length;
    if (length > longest_) return Merge{};
    const uint32_t symbol = symbols_.find(word.substr(left.begin, length));
    return symbol == SymbolTable::k_none ? Merge{} : Merge{ranks_[symbol], symbol};
  });
  if (is_token && whole_.get(token) == WholeTokens::unknown) {
    whole_.set(token, parts.size() == 1);
  }
  for (const Part& part : parts) {
    if (part.symbol != SymbolTable::k_none) {
      out.push_back(static_cast<TokenId>(part.symbol));
      continue;
    }
    // One character that is no token.
    const std::string_view bytes = word.substr(part.begin, part.length);
    const bool have_all = std::all_of(bytes.begin(), bytes.end(), [this](char c) {
      return byte_tokens_[static_cast<uint8_t>(c)] != SymbolTable::k_none;
    });
    if (have_all) {
      for (const char c : bytes) {
        out.push_back(static_cast<TokenId>(byte_tokens_[static_cast<uint8_t>(c)]));
      }
    } else if (unknown()) {
      out.push_back(*unknown());
    }
  }
}

void SpmTokenizer::encode_fragment(std::string_view fragment, bool at_start,
                                   std::vector<TokenId>& out) const {
  std::string text;
  text.reserve(fragment.size() + fragment.size() / 2 + k_space.size());
  if (at_start && add_space_prefix()) text += k_space;
  for (size_t at = 0; at < fragment.size();) {
    const size_t space = std::min(fragment.find(' ', at), fragment.size());
    text.append(fragment.substr(at, space - at));
    if (space < fragment.size()) text += k_space;
    at = space + 1;
  }
  Merger merger;
  for (size_t at = 0; at < text.size();) {
    const size_t end = by_words_ ? end_of_word(text, at) : text.size();
    encode_word(std::string_view(text).substr(at, end - at), merger, out);
    at = end;
  }
}

void SpmTokenizer::append_piece(TokenId id, std::string& out) const {
  const uint32_t index = static_cast<uint32_t>(id);
  const std::string_view text = vocabulary_->tokens[index];
  const TokenKind token_kind = vocabulary_->kinds[index];
  if (token_kind == TokenKind::user_defined) {
    out += text;
    return;
  }
  if (token_kind == TokenKind::byte || byte_tokens_[parse_byte_token(text).value_or(0)] == index) {
    out.push_back(static_cast<char>(parse_byte_token(text).value_or(0)));
    return;
  }
  for (size_t at = 0; at < text.size();) {
    const size_t space = std::min(text.find(k_space, at), text.size());
    out.append(text.substr(at, space - at));
    if (space < text.size()) out.push_back(' ');
    at = space + k_space.size();
  }
}

}  // namespace strata::text
