#include "text/tokenizers/bpe.h"

#include <string>

#include "base/error.h"
#include "base/log.h"
#include "base/utf8.h"
#include "text/tokenizers/vocabulary.h"

namespace strata::text {
namespace {

// The GPT-2 alphabet: printable bytes stand for themselves, the other 68 follow from U+0100.
constexpr bool is_plain(uint32_t byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

// Code point (below 324) to byte; -1: not in the alphabet.
constexpr std::array<int16_t, 324> make_alphabet() {
  std::array<int16_t, 324> alphabet{};
  for (auto& entry : alphabet) entry = -1;
  size_t next = 256;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    alphabet[is_plain(byte) ? byte : next++] = static_cast<int16_t>(byte);
  }
  return alphabet;
}
constexpr std::array<int16_t, 324> k_alphabet = make_alphabet();

// Appends the bytes that the text spells; characters outside the alphabet stay as they are and
// make the answer false.
bool append_spelled_bytes(std::string_view text, std::string& out) {
  bool spelled = true;
  for (size_t at = 0; at < text.size();) {
    const unsigned char first = static_cast<unsigned char>(text[at]);
    if (first >= 33 && first <= 126) {
      out.push_back(text[at++]);
      continue;
    }
    const Utf8Char c = decode_utf8(text, at);
    if (c.valid && c.code_point < k_alphabet.size() && k_alphabet[c.code_point] >= 0) {
      out.push_back(static_cast<char>(k_alphabet[c.code_point]));
    } else {
      out.append(text.substr(at, c.length));
      spelled = false;
    }
    at += c.length;
  }
  return spelled;
}

}  // namespace

BpeTokenizer::BpeTokenizer(std::shared_ptr<const Vocabulary> vocabulary,
                           const gguf::Metadata& metadata)
    : Tokenizer(std::move(vocabulary)),
      pre_tokenizer_(*vocabulary_->rule),
      whole_(vocabulary_->size()) {
  const Vocabulary& v = *vocabulary_;
  symbols_.reserve(size_t{v.size()} + 256, v.tokens.bytes());
  std::string bytes;
  for (uint32_t id = 0; id < v.size(); ++id) {
    bytes.clear();
    const bool spelled = append_spelled_bytes(v.tokens[id], bytes);
    symbols_.add(bytes, spelled && v.is_mergeable(id) && !bytes.empty());
  }
  uint32_t missing = 0;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const std::string text(1, static_cast<char>(byte));
    byte_symbols_[byte] = symbols_.find(text);
    if (byte_symbols_[byte] == SymbolTable::k_none) {
      byte_symbols_[byte] = symbols_.add(text);
      ++missing;
    }
  }
  if (missing > 0) {
    log::warning("the vocabulary has no token for {} of the 256 bytes; text with them loses them",
                 missing);
  }
  read_merges(metadata);
}

void BpeTokenizer::read_merges(const gguf::Metadata& metadata) {
  const Vocabulary& v = *vocabulary_;
  const std::vector<std::string>* merges = metadata.find_strings("tokenizer.ggml.merges");
  if (merges == nullptr) {
    fail(ErrorCode::bad_file, "tokenizer.ggml.merges is missing; a gpt2 tokenizer needs it");
  }
  if (merges->size() >= Merge::k_never) {
    fail(ErrorCode::bad_file, "tokenizer.ggml.merges has {} entries; at most {} can be used",
         merges->size(), Merge::k_never - 1);
  }
  merges_.reserve(merges->size());
  const auto symbol_of = [&](std::string_view bytes) {
    const uint32_t symbol = symbols_.find(bytes);
    return symbol != SymbolTable::k_none ? symbol : symbols_.add(bytes);
  };
  std::string bytes;
  std::string whole;
  for (size_t rank = 0; rank < merges->size(); ++rank) {
    const std::string_view text = (*merges)[rank];
    const size_t space = text.find(' ', 1);
    if (space == std::string_view::npos || space + 1 == text.size()) {
      fail(ErrorCode::bad_file,
           "tokenizer.ggml.merges[{}] is '{}'; two parts with a space between are expected", rank,
           printable(text));
    }
    bytes.clear();
    const bool left_spelled = append_spelled_bytes(text.substr(0, space), bytes);
    const size_t cut = bytes.size();
    const bool right_spelled = append_spelled_bytes(text.substr(space + 1), bytes);
    // Parts outside the alphabet never occur in a text.
    if (!left_spelled || !right_spelled) continue;
    uint32_t made = symbols_.find(bytes);
    if (made == SymbolTable::k_none) {
      // A merge must not make a token that only its own mark may make.
      whole = text.substr(0, space);
      whole += text.substr(space + 1);
      if (v.tokens.find(whole) != SymbolTable::k_none) continue;
      made = symbols_.add(bytes);
    }
    const uint32_t left = symbol_of(std::string_view(bytes).substr(0, cut));
    const uint32_t right = symbol_of(std::string_view(bytes).substr(cut));
    merges_.add(left, right, Merge{static_cast<uint32_t>(rank), made});
  }
}

void BpeTokenizer::merge(std::string_view piece, Merger& merger) const {
  std::vector<Part>& parts = merger.parts();
  parts.resize(piece.size());
  for (uint32_t i = 0; i < piece.size(); ++i) {
    parts[i] = Part{i, 1, byte_symbols_[static_cast<uint8_t>(piece[i])]};
  }
  merger.run([this](const Part& left, const Part& right) {
    return merges_.find(left.symbol, right.symbol);
  });
}

void BpeTokenizer::emit_bytes(std::string_view bytes, std::vector<TokenId>& out) const {
  for (const char c : bytes) {
    const uint32_t symbol = byte_symbols_[static_cast<uint8_t>(c)];
    if (symbol < size()) {
      out.push_back(static_cast<TokenId>(symbol));
    } else if (unknown()) {
      out.push_back(*unknown());
    }
  }
}

void BpeTokenizer::encode_piece(std::string_view piece, Merger& merger,
                                std::vector<TokenId>& out) const {
  const uint32_t token = symbols_.find(piece);
  const bool is_token = token < size();
  if (is_token && (vocabulary_->rule->ignore_merges || whole_.get(token) == WholeTokens::whole)) {
    out.push_back(static_cast<TokenId>(token));
    return;
  }
  merge(piece, merger);
  const std::vector<Part>& parts = merger.parts();
  if (is_token && whole_.get(token) == WholeTokens::unknown) {
    whole_.set(token, parts.size() == 1);
  }
  for (const Part& part : parts) {
    if (part.symbol < size()) {
      out.push_back(static_cast<TokenId>(part.symbol));
    } else {
      emit_bytes(piece.substr(part.begin, part.length), out);
    }
  }
}

void BpeTokenizer::encode_fragment(std::string_view fragment, bool /*at_start*/,
                                   std::vector<TokenId>& out) const {
  Merger merger;
  std::vector<PreTokenizer::Piece> pieces;
  for (size_t at = 0; at < fragment.size();) {
    size_t end = at;
    size_t invalid = 0;
    while (end < fragment.size()) {
      const Utf8Char c = decode_utf8(fragment, end);
      if (!c.valid) {
        invalid = 1;
        break;
      }
      end += c.length;
    }
    pieces.clear();
    pre_tokenizer_.split(fragment.substr(at, end - at), static_cast<uint32_t>(at), pieces);
    for (const PreTokenizer::Piece& piece : pieces) {
      encode_piece(fragment.substr(piece.begin, piece.end - piece.begin), merger, out);
    }
    emit_bytes(fragment.substr(end, invalid), out);
    at = end + invalid;
  }
}

void BpeTokenizer::append_piece(TokenId id, std::string& out) const {
  const uint32_t index = static_cast<uint32_t>(id);
  const TokenKind token_kind = vocabulary_->kinds[index];
  if (token_kind == TokenKind::user_defined) {
    out += vocabulary_->tokens[index];
  } else if (token_kind == TokenKind::byte) {
    out.push_back(static_cast<char>(parse_byte_token(vocabulary_->tokens[index]).value_or(0)));
  } else {
    out += symbols_[index];
  }
}

}  // namespace strata::text
