// Small vocabularies for the tests of the tokenizers, and plain second implementations.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gguf/value.h"
#include "text/tokenizer.h"

namespace strata::text::test_support {

// A byte as the GPT-2 alphabet writes it.
inline std::string spelled(uint8_t byte) {
  const auto plain = [](int b) {
    return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174 && b <= 255);
  };
  int code = byte;
  if (!plain(byte)) {
    code = 256;
    for (int b = 0; b < byte; ++b) code += plain(b) ? 0 : 1;
  }
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xC0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3F))};
}

inline std::string spelled(const std::string& bytes) {
  std::string out;
  for (const char c : bytes) out += spelled(static_cast<uint8_t>(c));
  return out;
}

struct Builder {
  std::string model = "gpt2";
  std::string pre = "gpt-2";
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  std::vector<float> scores;
  std::vector<std::string> merges;
  std::vector<std::pair<std::string, gguf::Value>> more;

  int32_t add(std::string text, int32_t type = 1, float score = 0) {
    tokens.push_back(std::move(text));
    types.push_back(type);
    scores.push_back(score);
    return static_cast<int32_t>(tokens.size()) - 1;
  }

  // Two raw strings become one token; the parts must be tokens.
  int32_t add_merge(const std::string& left, const std::string& right) {
    merges.push_back(spelled(left) + " " + spelled(right));
    return add(spelled(left + right));
  }

  void set(const std::string& key, gguf::Value value) {
    more.emplace_back("tokenizer.ggml." + key, std::move(value));
  }

  gguf::Metadata metadata() const {
    gguf::Metadata out;
    out.set("tokenizer.ggml.model", model);
    if (!pre.empty()) out.set("tokenizer.ggml.pre", pre);
    out.set("tokenizer.ggml.tokens", gguf::Array(tokens));
    out.set("tokenizer.ggml.token_type", gguf::Array(types));
    if (model == "llama") out.set("tokenizer.ggml.scores", gguf::Array(scores));
    if (model == "gpt2") out.set("tokenizer.ggml.merges", gguf::Array(merges));
    for (const auto& [key, value] : more) out.set(key, value);
    return out;
  }

  std::unique_ptr<Tokenizer> load() const { return Tokenizer::load(metadata()); }
};

// 256 bytes (id = byte).
inline Builder byte_bpe(const std::string& pre = "gpt-2") {
  Builder b;
  b.pre = pre;
  for (int byte = 0; byte < 256; ++byte) b.add(spelled(static_cast<uint8_t>(byte)));
  return b;
}

// <unk> 0, <s> 1, </s> 2, byte tokens 3 to 258, U+2581 259.
inline Builder byte_spm() {
  Builder b;
  b.model = "llama";
  b.pre.clear();
  b.add("<unk>", 2);
  b.add("<s>", 3);
  b.add("</s>", 3);
  const char* hex = "0123456789ABCDEF";
  for (int byte = 0; byte < 256; ++byte) {
    b.add(std::string("<0x") + hex[byte >> 4] + hex[byte & 15] + ">", 6);
  }
  b.add("\xE2\x96\x81", 1, -1);
  return b;
}

inline EncodeOptions plain() {
  EncodeOptions options;
  options.add_special = false;
  return options;
}

inline EncodeOptions parsing(bool add_special = false) {
  EncodeOptions options;
  options.add_special = add_special;
  options.parse_special = true;
  return options;
}

using Ids = std::vector<TokenId>;

}  // namespace strata::text::test_support
