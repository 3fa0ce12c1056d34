#include "text/tokenizers/vocabulary.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "base/log.h"
#include "base/suggest.h"
#include "base/utf8.h"

namespace strata::text {
namespace {

using gguf::Metadata;
using Vocabulary = Tokenizer::Vocabulary;

constexpr std::string_view k_prefix = "tokenizer.ggml.";

std::string key(std::string_view name) { return std::string(k_prefix).append(name); }

// Tokens at which models end their answer, by their text, for files that do not say so.
constexpr std::string_view k_end_texts[] = {
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|calls|>", "<|flush|>",
    "<end_of_turn>", "<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]",
    "<|end_of_text|>", "<end_of_utterance>", "<eos>", "[e~[", "<|EOT|>", "<｜end▁of▁sentence｜>",
    // Of fill-in-the-middle models: what follows belongs to another file.
    "<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]", "<|fim_repo|>", "<|repo_name|>",
    "<fim-repo>", "<REPO>", "<reponame>", "<|file_sep|>"};

// Structure of an answer that the caller must see to take it apart.
constexpr std::string_view k_shown_texts[] = {"<|channel|>", "<|message|>", "<|start|>",
                                              "<|constrain|>"};

void read_model(const Metadata& metadata, Vocabulary& v) {
  v.model = metadata.get_string(key("model"));
  v.pre = metadata.find_string(key("pre")).value_or("");
  if (v.model == "llama") {
    v.algorithm = Algorithm::spm;
  } else if (v.model == "gpt2") {
    v.algorithm = Algorithm::bpe;
  } else if (v.model == "bert") {
    v.algorithm = Algorithm::wpm;
  } else {
    fail(ErrorCode::unsupported,
         "tokenizer.ggml.model is '{}', which is not supported; supported are llama (SPM), gpt2 "
         "(BPE) and bert (WPM)",
         printable(v.model));
  }
  if (v.algorithm != Algorithm::bpe) {
    v.pre.clear();
    return;
  }
  if (v.pre.empty()) {
    log::warning(
        "tokenizer.ggml.pre is missing: the legacy default cuts the text in a way that may not be "
        "the model's; convert the model anew");
  }
  v.rule = &pre_tokenizer_rule(v.pre);
}

void read_tokens(const Metadata& metadata, Vocabulary& v) {
  const std::vector<std::string>* tokens = metadata.find_strings(key("tokens"));
  if (tokens == nullptr) fail(ErrorCode::bad_file, "tokenizer.ggml.tokens is missing");
  if (tokens->empty() || tokens->size() > static_cast<size_t>(INT32_MAX)) {
    fail(ErrorCode::bad_file, "tokenizer.ggml.tokens has {} entries; 1 to {} can be used",
         tokens->size(), INT32_MAX);
  }
  size_t bytes = 0;
  for (const std::string& text : *tokens) bytes += text.size();
  v.tokens.reserve(tokens->size(), bytes);
  size_t empty = 0;
  size_t invalid = 0;
  for (size_t i = 0; i < tokens->size(); ++i) {
    const std::string& text = (*tokens)[i];
    if (text.empty()) {
      ++empty;
    } else if (const uint32_t first = v.tokens.find(text); first != SymbolTable::k_none) {
      fail(ErrorCode::bad_file, "tokenizer.ggml.tokens[{}] and [{}] are both '{}'", first, i,
           printable(text));
    }
    if (!is_valid_utf8(text)) ++invalid;
    v.tokens.add(text, !text.empty());
  }
  if (empty > 0) log::warning("tokenizer.ggml.tokens holds {} empty texts", empty);
  if (invalid > 0) {
    log::warning("tokenizer.ggml.tokens holds {} texts that are not UTF-8", invalid);
  }
}

void check_length(std::string_view name, size_t length, const Vocabulary& v) {
  if (length != v.size()) {
    fail(ErrorCode::bad_file, "tokenizer.ggml.{} has {} entries for {} tokens", name, length,
         v.size());
  }
}

void read_kinds(const Metadata& metadata, Vocabulary& v) {
  v.kinds.assign(v.size(), TokenKind::normal);
  v.marks.assign(v.size(), 0);
  const auto types = metadata.find_ints(key("token_type"));
  if (!types) return;
  check_length("token_type", types->size(), v);
  for (size_t i = 0; i < types->size(); ++i) {
    const int64_t type = (*types)[i];
    if (type < 0 || type > 6) {
      fail(ErrorCode::bad_file, "tokenizer.ggml.token_type[{}] is {}; 0 to 6 are known", i, type);
    }
    if (type != 0) v.kinds[i] = static_cast<TokenKind>(type);
    if (v.kinds[i] == TokenKind::byte && !parse_byte_token(v.tokens[static_cast<uint32_t>(i)])) {
      fail(ErrorCode::bad_file,
           "tokenizer.ggml.tokens[{}] is '{}', but a byte token must be '<0x00>' to '<0xFF>'", i,
           printable(v.tokens[static_cast<uint32_t>(i)]));
    }
  }
}

// The id under the first key that is present; an id outside the vocabulary counts as absent.
std::optional<TokenId> read_id(const Metadata& metadata, const Vocabulary& v,
                               std::initializer_list<std::string_view> names,
                               std::optional<TokenId> otherwise = std::nullopt) {
  for (const std::string_view name : names) {
    const std::optional<int64_t> id = metadata.find_int(key(name));
    if (!id) continue;
    if (*id >= 0 && *id < v.size()) return static_cast<TokenId>(*id);
    // Some converters write -1 for "none".
    if (*id != -1 && *id != int64_t{UINT32_MAX}) {
      log::warning("tokenizer.ggml.{} is {}, outside the vocabulary of {} tokens; ignored", name,
                   *id, v.size());
    }
    return std::nullopt;
  }
  if (otherwise && *otherwise >= static_cast<int64_t>(v.size())) return std::nullopt;
  return otherwise;
}

void make_control(Vocabulary& v, TokenId id) {
  TokenKind& kind = v.kinds[static_cast<size_t>(id)];
  if (kind == TokenKind::normal || kind == TokenKind::user_defined || kind == TokenKind::unused) {
    log::debug("token {} '{}' ends or frames a text and is taken for a control token", id,
               printable(v.tokens[static_cast<uint32_t>(id)]));
    kind = TokenKind::control;
  }
}

// Whether a byte-level BPE builds this text from ordinary characters, so that it is no marker.
bool is_merged(const Metadata& metadata, std::string_view text) {
  const std::vector<std::string>* merges = metadata.find_strings(key("merges"));
  if (merges == nullptr) return false;
  return std::any_of(merges->begin(), merges->end(), [&](const std::string& merge) {
    if (merge.size() != text.size() + 1) return false;
    const size_t space = merge.find(' ', 1);
    return space != std::string::npos && merge.compare(0, space, text, 0, space) == 0 &&
           merge.compare(space + 1, std::string::npos, text, space, std::string::npos) == 0;
  });
}

void read_end_of_generation(const Metadata& metadata, Vocabulary& v) {
  std::vector<TokenId>& ends = v.end_of_generation;
  const auto find = [&](std::string_view text) -> std::optional<TokenId> {
    const uint32_t id = v.tokens.find(text);
    if (id == SymbolTable::k_none) return std::nullopt;
    if (v.kinds[id] == TokenKind::normal && v.algorithm == Algorithm::bpe &&
        is_merged(metadata, text)) {
      return std::nullopt;
    }
    return static_cast<TokenId>(id);
  };
  const auto add = [&](std::optional<TokenId> id) {
    if (!id) return;
    ends.push_back(*id);
    make_control(v, *id);
  };
  if (v.algorithm != Algorithm::wpm) {
    for (const std::string_view text : k_end_texts) add(find(text));
  }
  for (const std::string_view name : {"eot_token_id", "eom_token_id", "fim_pad_token_id",
                                      "fim_rep_token_id", "fim_sep_token_id"}) {
    add(read_id(metadata, v, {name}));
  }
  // The default may be an ordinary token: then it ends nothing.
  if (v.eos && (metadata.has(key("eos_token_id")) ||
                v.kinds[static_cast<size_t>(*v.eos)] != TokenKind::normal)) {
    ends.push_back(*v.eos);
  }
  for (const std::string_view text : k_shown_texts) {
    if (const auto id = find(text)) {
      make_control(v, *id);
      v.marks[static_cast<size_t>(*id)] |= Vocabulary::always_shown;
    }
  }
  // Where an answer has several parts, <|end|> closes a part, not the answer.
  const auto end = find("<|end|>");
  const bool parts =
      (find("<|return|>") && find("<|call|>")) || (find("<|flush|>") && find("<|calls|>"));
  if (end && parts) {
    ends.erase(std::remove(ends.begin(), ends.end(), *end), ends.end());
    v.marks[static_cast<size_t>(*end)] |= Vocabulary::always_shown;
  }
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  for (const TokenId id : ends) v.marks[static_cast<size_t>(id)] |= Vocabulary::ends_generation;
}

void read_flag(const Metadata& metadata, std::string_view name, bool& flag,
               std::string_view id_name, const std::optional<TokenId>& id) {
  const std::optional<bool> given = metadata.find_bool(key(name));
  if (given.value_or(false) && !id) {
    fail(ErrorCode::bad_file, "tokenizer.ggml.{} is true, but tokenizer.ggml.{} names no token",
         name, id_name);
  }
  flag = given.value_or(flag) && id.has_value();
}

void read_special(const Metadata& metadata, Vocabulary& v) {
  std::optional<TokenId> bos;
  std::optional<TokenId> eos;
  std::optional<TokenId> unknown;
  std::optional<TokenId> separator;
  switch (v.algorithm) {
    case Algorithm::spm:
      bos = 1;
      eos = 2;
      unknown = 0;
      v.add_bos = true;
      v.add_space_prefix = true;
      break;
    case Algorithm::bpe:
      if (v.rule->has_default_ids) bos = 11;
      eos = 11;
      v.add_bos = v.rule->add_bos;
      break;
    case Algorithm::wpm:
      bos = 101;
      separator = 102;
      unknown = 100;
      v.add_bos = true;
      v.add_separator = true;
      break;
  }
  if (v.algorithm == Algorithm::wpm) {
    v.bos = read_id(metadata, v, {"bos_token_id", "cls_token_id"}, bos);
  } else {
    v.bos = read_id(metadata, v, {"bos_token_id"}, bos);
  }
  v.eos = read_id(metadata, v, {"eos_token_id"}, eos);
  v.unknown = read_id(metadata, v, {"unknown_token_id"}, unknown);
  v.separator = read_id(metadata, v, {"seperator_token_id", "separator_token_id"}, separator);
  read_flag(metadata, "add_bos_token", v.add_bos, "bos_token_id", v.bos);
  read_flag(metadata, "add_eos_token", v.add_eos, "eos_token_id", v.eos);
  read_flag(metadata, "add_sep_token", v.add_separator, "seperator_token_id", v.separator);
  v.add_space_prefix = metadata.find_bool(key("add_space_prefix")).value_or(v.add_space_prefix);

  if (!metadata.has(key("token_type")) && v.algorithm != Algorithm::bpe) {
    for (const auto& id : {v.bos, v.eos, v.separator}) {
      if (id) make_control(v, *id);
    }
    if (v.unknown) v.kinds[static_cast<size_t>(*v.unknown)] = TokenKind::unknown;
  }
}

// Phi-3's own tokenizer drops white space behind its special tokens; the files do not say so.
void mark_stripping(const Metadata& metadata, Vocabulary& v) {
  std::string name(metadata.find_string("general.name").value_or(""));
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (name.find("phi-3") == std::string::npos && name.find("phi3") == std::string::npos) return;
  for (uint32_t id = 0; id < v.size(); ++id) {
    const TokenKind kind = v.kinds[id];
    const std::string_view text = v.tokens[id];
    if (text == "<unk>" || text == "<s>" || text == "<|endoftext|>") continue;
    if (kind == TokenKind::control || kind == TokenKind::unknown ||
        kind == TokenKind::user_defined) {
      v.marks[id] |= Vocabulary::strips_right;
    }
  }
}

}  // namespace

std::optional<uint8_t> parse_byte_token(std::string_view text) {
  if (text.size() != 6 || text.substr(0, 3) != "<0x" || text[5] != '>') return std::nullopt;
  uint8_t value = 0;
  for (const char c : text.substr(3, 2)) {
    uint8_t digit = 0;
    if (c >= '0' && c <= '9') {
      digit = static_cast<uint8_t>(c - '0');
    } else if (c >= 'A' && c <= 'F') {
      digit = static_cast<uint8_t>(c - 'A' + 10);
    } else if (c >= 'a' && c <= 'f') {
      digit = static_cast<uint8_t>(c - 'a' + 10);
    } else {
      return std::nullopt;
    }
    value = static_cast<uint8_t>(value * 16 + digit);
  }
  return value;
}

std::shared_ptr<const Vocabulary> Vocabulary::load(const Metadata& metadata) {
  auto v = std::make_shared<Vocabulary>();
  read_model(metadata, *v);
  read_tokens(metadata, *v);
  read_kinds(metadata, *v);
  read_special(metadata, *v);
  read_end_of_generation(metadata, *v);
  mark_stripping(metadata, *v);
  for (uint32_t id = 0; id < v->size(); ++id) {
    const TokenKind kind = v->kinds[id];
    const std::string_view text = v->tokens[id];
    if (kind == TokenKind::user_defined) v->user_defined.add(text, id);
    if (kind == TokenKind::user_defined || kind == TokenKind::control ||
        kind == TokenKind::unknown) {
      v->all_special.add(text, id);
    }
  }
  v->all_special.finish();
  v->user_defined.finish();
  return v;
}

}  // namespace strata::text
