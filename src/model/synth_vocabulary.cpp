// A vocabulary for models that have none: control tokens, bytes, then every string of letters in
// order of length, with and without a space before it.
#include <fmt/format.h>

#include "base/error.h"
#include "model/synth.h"

namespace strata::model {
namespace {

constexpr const char* k_space = "\xE2\x96\x81";  // stands for a space in SPM vocabularies

// Kinds of tokens in tokenizer.ggml.token_type.
constexpr int32_t k_normal = 1;
constexpr int32_t k_unknown = 2;
constexpr int32_t k_control = 3;
constexpr int32_t k_byte = 6;

constexpr const char* k_chat_template =
    "{{ bos_token }}{% for message in messages %}[{{ message.role }}]\n{{ message.content }}"
    "{{ eos_token }}\n{% endfor %}{% if add_generation_prompt %}[assistant]\n{% endif %}";

// The strings a, b, ..., z, aa, ab, ...: the one that follows `word`.
void advance(std::string& word) {
  for (size_t i = word.size(); i-- > 0;) {
    if (word[i] != 'z') {
      ++word[i];
      return;
    }
    word[i] = 'a';
  }
  word.insert(word.begin(), 'a');
}

}  // namespace

void set_generated_vocabulary(gguf::Metadata& metadata, uint32_t n_vocab) {
  constexpr uint32_t k_fewest = 3 + 256;
  if (n_vocab < k_fewest) {
    fail(ErrorCode::usage, "a vocabulary of {} tokens is too small to make one; {} or more work",
         n_vocab, k_fewest);
  }
  std::vector<std::string> tokens{"<unk>", "<s>", "</s>"};
  std::vector<int32_t> types{k_unknown, k_control, k_control};
  for (int byte = 0; byte < 256; ++byte) {
    tokens.push_back(fmt::format("<0x{:02X}>", byte));
    types.push_back(k_byte);
  }
  const auto add = [&](const std::string& text) {
    if (tokens.size() == n_vocab) return;
    tokens.push_back(text);
    types.push_back(k_normal);
  };
  add(k_space);
  for (char c = '!'; c <= '~'; ++c) {
    if (c < 'a' || c > 'z') add(std::string(1, c));
  }
  for (std::string word = "a"; tokens.size() < n_vocab; advance(word)) {
    add(word);
    add(k_space + word);
  }
  // What comes first is merged first.
  std::vector<float> scores(n_vocab, 0.0f);
  for (uint32_t i = k_fewest; i < n_vocab; ++i) scores[i] = -static_cast<float>(i - k_fewest);

  metadata.set("tokenizer.ggml.model", std::string("llama"));
  metadata.set("tokenizer.ggml.pre", std::string("default"));
  metadata.set("tokenizer.ggml.tokens", gguf::Array(std::move(tokens)));
  metadata.set("tokenizer.ggml.scores", gguf::Array(std::move(scores)));
  metadata.set("tokenizer.ggml.token_type", gguf::Array(std::move(types)));
  metadata.set("tokenizer.ggml.bos_token_id", uint32_t{1});
  metadata.set("tokenizer.ggml.eos_token_id", uint32_t{2});
  metadata.set("tokenizer.ggml.unknown_token_id", uint32_t{0});
  metadata.set("tokenizer.ggml.add_bos_token", true);
  metadata.set("tokenizer.ggml.add_eos_token", false);
  metadata.set("tokenizer.chat_template", std::string(k_chat_template));
}

}  // namespace strata::model
