// Tokenizers: text to token ids and back, exactly as the model was trained.
//
// Purpose: SPM (`llama`), byte-level BPE (`gpt2`) and WPM (`bert`) vocabularies of GGUF files.
// Not for: chat formatting (chat_template.h). Control tokens are recognised only in text that the
// caller vouches for (`parse_special`), so that a user's message cannot forge a turn.
// Errors: ErrorCode::bad_file for a damaged vocabulary (naming key and index),
// ErrorCode::unsupported for an unknown model or pre-tokenizer (listing the known ones).
// Bytes that are not UTF-8: BPE and SPM with byte tokens keep them, WPM drops them.
// Time: linear (at worst n log n) in the text, whatever it holds. No recursion over the text.
// Ownership: owns its tables; independent of the gguf::File after construction.
// Threads: constant after construction; encode and decode may run in many threads at once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/value.h"
#include "strata/sampling.h"

namespace strata::text {

using strata::TokenId;

// As in tokenizer.ggml.token_type.
enum class TokenKind : uint8_t {
  normal = 1,
  unknown = 2,
  control = 3,
  user_defined = 4,
  unused = 5,
  byte = 6
};

struct EncodeOptions {
  bool add_special = true;     // add BOS / EOS (CLS / SEP) as the model's flags say
  bool parse_special = false;  // recognise control tokens written out in the text
};

// A part of a text, and whether control tokens written out in it count.
struct TextSpan {
  std::string_view text;
  bool parse_special = false;
};

class Tokenizer {
 public:
  // Reads the tokenizer.ggml.* keys.
  static std::unique_ptr<Tokenizer> load(const gguf::Metadata& metadata);
  virtual ~Tokenizer() = default;

  std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options = {}) const;

  // The spans as one text, control tokens recognised only where a span allows it and wholly inside
  // it. Ordinary text that runs over a border is encoded as if there were none.
  std::vector<TokenId> encode_spans(std::span<const TextSpan> spans, bool add_special) const;

  // The text of one token: raw bytes, possibly part of a UTF-8 character. Control and unknown
  // tokens give nothing unless `show_special` (or unless they frame the parts of an answer, as
  // <|channel|> does). Ids outside the vocabulary: ErrorCode::bad_request.
  std::string piece(TokenId id, bool show_special = false) const;
  // The text of a sequence; inverse of encode for ordinary text: the space that encode put before
  // the text (add_space_prefix) is dropped.
  std::string decode(std::span<const TokenId> ids, bool show_special = false) const;
  // One step of decode. `at_start`: no text stands before this token, or a special token does; it
  // is updated.
  void append_text(TokenId id, bool show_special, bool& at_start, std::string& out) const;

  size_t size() const;
  std::string_view token_text(TokenId id) const;  // as stored in the file
  TokenKind kind(TokenId id) const;
  bool is_end_of_generation(TokenId id) const;  // EOS, end of turn, ...
  const std::vector<TokenId>& end_of_generation() const;
  std::optional<TokenId> find(std::string_view token_text) const;
  std::optional<TokenId> bos() const;
  std::optional<TokenId> eos() const;
  std::optional<TokenId> unknown() const;
  bool add_bos() const;
  bool add_eos() const;
  bool add_space_prefix() const;
  std::string_view model() const;  // "llama", "gpt2", "bert"
  std::string_view pre() const;    // "llama-bpe", ...; empty when it does not apply

  struct Vocabulary;

 protected:
  explicit Tokenizer(std::shared_ptr<const Vocabulary> vocabulary);
  // Appends the ids of a fragment without special tokens. `at_start`: nothing, or a special token,
  // stands before it.
  virtual void encode_fragment(std::string_view fragment, bool at_start,
                               std::vector<TokenId>& out) const = 0;
  // Appends the bytes that a token which is not control or unknown stands for.
  virtual void append_piece(TokenId id, std::string& out) const = 0;

  std::shared_ptr<const Vocabulary> vocabulary_;

 private:
  void check(TokenId id) const;
};

// Turns a stream of ids into text that may be shown at once: bytes that begin a UTF-8 character
// are held until it is complete, bytes that can never become one come out as U+FFFD.
class Detokenizer {
 public:
  // `at_start`: the stream begins a text of its own. For text that goes on after a prompt, whose
  // first word may need its space, pass false.
  explicit Detokenizer(const Tokenizer& tokenizer, bool show_special = false, bool at_start = true);
  // Control tokens, in ascending order, that are shown whatever `show_special` says.
  void show(std::vector<TokenId> shown) { shown_ = std::move(shown); }
  // Text that is certain after this token; may be empty.
  std::string push(TokenId id);
  // What is still held back at the end of the stream (U+FFFD for an incomplete character).
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  bool show_special_;
  bool at_start_;
  std::vector<TokenId> shown_;
  std::string held_;
};

}  // namespace strata::text
