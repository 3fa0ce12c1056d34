#include "text/tokenizer.h"

#include <algorithm>

#include "base/error.h"
#include "text/tokenizers/bpe.h"
#include "text/tokenizers/spm.h"
#include "text/tokenizers/vocabulary.h"
#include "text/tokenizers/wpm.h"

namespace strata::text {
namespace {

constexpr size_t k_max_text = size_t{1} << 30;

bool is_ascii_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

}  // namespace

Tokenizer::Tokenizer(std::shared_ptr<const Vocabulary> vocabulary)
    : vocabulary_(std::move(vocabulary)) {}

std::unique_ptr<Tokenizer> Tokenizer::load(const gguf::Metadata& metadata) {
  std::shared_ptr<const Vocabulary> vocabulary = Vocabulary::load(metadata);
  switch (vocabulary->algorithm) {
    case Algorithm::spm:
      return std::make_unique<SpmTokenizer>(std::move(vocabulary), metadata);
    case Algorithm::wpm:
      return std::make_unique<WpmTokenizer>(std::move(vocabulary), metadata);
    case Algorithm::bpe:
      break;
  }
  return std::make_unique<BpeTokenizer>(std::move(vocabulary), metadata);
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  const TextSpan span{text, options.parse_special};
  return encode_spans({&span, 1}, options.add_special);
}

std::vector<TokenId> Tokenizer::encode_spans(std::span<const TextSpan> spans,
                                             bool add_special) const {
  const Vocabulary& v = *vocabulary_;
  size_t bytes = 0;
  for (const TextSpan& span : spans) bytes += std::min(span.text.size(), k_max_text + 1 - bytes);
  if (bytes > k_max_text) {
    fail(ErrorCode::bad_request,
         "the text has more than {} bytes, the most that is tokenized at once", k_max_text);
  }
  // One text; ordinary segments that meet at a border become one.
  std::string joined;
  std::vector<SpecialSplitter::Segment> segments;
  for (const TextSpan& span : spans) {
    const SpecialSplitter& splitter = span.parse_special ? v.all_special : v.user_defined;
    const size_t base = joined.size();
    if (spans.size() > 1) joined += span.text;
    for (SpecialSplitter::Segment segment : splitter.split(span.text)) {
      segment.begin += base;
      segment.end += base;
      const bool goes_on = segment.token == SpecialSplitter::k_text && !segments.empty() &&
                           segments.back().token == SpecialSplitter::k_text;
      if (goes_on) {
        segments.back().end = segment.end;
      } else {
        segments.push_back(segment);
      }
    }
  }
  const std::string_view text = spans.size() == 1 ? spans[0].text : std::string_view(joined);

  std::vector<TokenId> ids;
  const bool bos = add_special && v.add_bos;
  const bool eos = add_special && (v.add_eos || v.add_separator);
  if (bos) ids.push_back(*v.bos);
  bool at_start = true;
  bool strip = false;
  for (const SpecialSplitter::Segment& segment : segments) {
    if (segment.token != SpecialSplitter::k_text) {
      const TokenId id = static_cast<TokenId>(segment.token);
      // The text may say its BOS itself.
      if (!(bos && segment.begin == 0 && id == *v.bos)) ids.push_back(id);
      at_start = true;
      strip = v.has(id, Vocabulary::strips_right);
      continue;
    }
    std::string_view fragment = text.substr(segment.begin, segment.end - segment.begin);
    if (strip) {
      const auto* first = std::find_if_not(fragment.begin(), fragment.end(), is_ascii_space);
      fragment.remove_prefix(static_cast<size_t>(first - fragment.begin()));
      strip = false;
      if (fragment.empty()) continue;
    }
    encode_fragment(fragment, at_start, ids);
    at_start = false;
  }
  if (eos) {
    const TokenId end = v.add_separator && v.separator ? *v.separator : *v.eos;
    const bool said = !segments.empty() && segments.back().token == static_cast<uint32_t>(end) &&
                      segments.back().token != SpecialSplitter::k_text;
    if (!said) ids.push_back(end);
  }
  return ids;
}

void Tokenizer::check(TokenId id) const {
  if (id < 0 || static_cast<size_t>(id) >= size()) {
    fail(ErrorCode::bad_request, "token id {} is outside the vocabulary of {} tokens", id, size());
  }
}

void Tokenizer::append_text(TokenId id, bool show_special, bool& at_start, std::string& out) const {
  check(id);
  const Vocabulary& v = *vocabulary_;
  const TokenKind token_kind = v.kinds[static_cast<size_t>(id)];
  if (token_kind == TokenKind::control || token_kind == TokenKind::unknown) {
    if (show_special || v.has(id, Vocabulary::always_shown)) out += token_text(id);
    at_start = token_kind == TokenKind::control;
    return;
  }
  const size_t before = out.size();
  append_piece(id, out);
  const bool prefixed = v.add_space_prefix || v.algorithm == Algorithm::wpm;
  if (at_start && prefixed && token_kind == TokenKind::normal && out.size() > before &&
      out[before] == ' ') {
    out.erase(before, 1);
  }
  at_start = token_kind == TokenKind::user_defined;
}

std::string Tokenizer::piece(TokenId id, bool show_special) const {
  std::string out;
  bool at_start = false;
  append_text(id, show_special, at_start, out);
  return out;
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool show_special) const {
  std::string out;
  bool at_start = true;
  for (const TokenId id : ids) append_text(id, show_special, at_start, out);
  return out;
}

size_t Tokenizer::size() const { return vocabulary_->size(); }

std::string_view Tokenizer::token_text(TokenId id) const {
  check(id);
  return vocabulary_->tokens[static_cast<uint32_t>(id)];
}

TokenKind Tokenizer::kind(TokenId id) const {
  check(id);
  return vocabulary_->kinds[static_cast<size_t>(id)];
}

bool Tokenizer::is_end_of_generation(TokenId id) const {
  return id >= 0 && static_cast<size_t>(id) < size() &&
         vocabulary_->has(id, Vocabulary::ends_generation);
}

const std::vector<TokenId>& Tokenizer::end_of_generation() const {
  return vocabulary_->end_of_generation;
}

std::optional<TokenId> Tokenizer::find(std::string_view text) const {
  const uint32_t id = vocabulary_->tokens.find(text);
  if (id == SymbolTable::k_none) return std::nullopt;
  return static_cast<TokenId>(id);
}

std::optional<TokenId> Tokenizer::bos() const { return vocabulary_->bos; }
std::optional<TokenId> Tokenizer::eos() const { return vocabulary_->eos; }
std::optional<TokenId> Tokenizer::unknown() const { return vocabulary_->unknown; }
bool Tokenizer::add_bos() const { return vocabulary_->add_bos; }
bool Tokenizer::add_eos() const { return vocabulary_->add_eos; }
bool Tokenizer::add_space_prefix() const { return vocabulary_->add_space_prefix; }
std::string_view Tokenizer::model() const { return vocabulary_->model; }
std::string_view Tokenizer::pre() const { return vocabulary_->pre; }

}  // namespace strata::text
