// Fuzz target: tokenizers over hostile texts and hostile vocabularies.
//
// The first byte chooses a vocabulary; 255 to 240 build one from the bytes that follow (up to a
// line "=", the rest is text). Properties: no crash; BPE and SPM with all bytes give the text back;
// every id is in range; the stream of a Detokenizer is the decoded text with invalid bytes
// replaced. Time is bounded by the fuzzer's own limit.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/utf8.h"
#include "gguf/value.h"
#include "text/tokenizer.h"

namespace {

using strata::Error;
using strata::gguf::Array;
using strata::gguf::Metadata;
using strata::text::Detokenizer;
using strata::text::EncodeOptions;
using strata::text::TokenId;
using strata::text::Tokenizer;

void require(bool condition) {
  if (!condition) std::abort();
}

bool is_plain(int b) {
  return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174 && b <= 255);
}

std::string spelled(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    const int byte = static_cast<uint8_t>(c);
    uint32_t code = static_cast<uint32_t>(byte);
    if (!is_plain(byte)) {
      code = 256;
      for (int b = 0; b < byte; ++b) code += is_plain(b) ? 0u : 1u;
    }
    strata::append_utf8(out, code);
  }
  return out;
}

struct Vocabulary {
  std::string model;
  std::string pre;
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  std::vector<float> scores;
  std::vector<std::string> merges;

  void add(std::string text, int32_t type = 1, float score = 0) {
    tokens.push_back(std::move(text));
    types.push_back(type);
    scores.push_back(score);
  }
  Metadata metadata() const {
    Metadata out;
    out.set("tokenizer.ggml.model", model);
    if (!pre.empty()) out.set("tokenizer.ggml.pre", pre);
    out.set("tokenizer.ggml.tokens", Array(tokens));
    out.set("tokenizer.ggml.token_type", Array(types));
    out.set("tokenizer.ggml.scores", Array(scores));
    out.set("tokenizer.ggml.merges", Array(merges));
    return out;
  }
};

std::unique_ptr<Tokenizer> make_bpe(const std::string& pre) {
  Vocabulary v;
  v.model = "gpt2";
  v.pre = pre;
  for (int byte = 0; byte < 256; ++byte) v.add(spelled(std::string(1, static_cast<char>(byte))));
  const auto merge = [&v](std::string_view left, std::string_view right) {
    v.merges.push_back(spelled(left) + " " + spelled(right));
    v.add(spelled(std::string(left).append(right)));
  };
  merge("a", "a");
  merge("aa", "aa");
  merge(" ", " ");
  merge("  ", "  ");
  merge(" ", "t");
  merge("t", "h");
  merge("th", "e");
  merge(" t", "he");
  merge("\xF0", "\x9F");
  merge("\xCC", "\x81");
  merge("\n", "\n");
  v.add("<|end|>", 3);
  v.add("<|e", 4);
  v.add("\n\n\n", 4);
  v.add("<unk>", 2);
  return Tokenizer::load(v.metadata());
}

std::unique_ptr<Tokenizer> make_spm(bool joined) {
  const std::string space = "\xE2\x96\x81";
  Vocabulary v;
  v.model = "llama";
  v.add("<unk>", 2);
  v.add("<s>", 3);
  v.add("</s>", 3);
  const char* hex = "0123456789ABCDEF";
  for (int byte = 0; byte < 256; ++byte) {
    v.add(std::string("<0x") + hex[byte >> 4] + hex[byte & 15] + ">", 6);
  }
  float score = 0;
  for (const std::string& text :
       std::vector<std::string>{space, "a", "aa", "aaaa", space + space, space + "t", "th", "the",
                                space + "the", "t", "h", "e", "\xCC\x81"}) {
    v.add(text, 1, score--);
  }
  if (joined) v.add("e" + space, 1, -2.5f);
  v.add("<user>", 4);
  return Tokenizer::load(v.metadata());
}

std::unique_ptr<Tokenizer> make_wpm() {
  const std::string mark = "\xE2\x96\x81";
  Vocabulary v;
  v.model = "bert";
  v.add("[UNK]", 2);
  for (const char* text : {"a", "aa", "b", "the", "e", "\xC3\xA9", ".", "\xE4\xB8\xAD"}) {
    v.add(text);
    v.add(mark + text);
  }
  v.add("[MASK]", 3);
  Metadata metadata = v.metadata();
  metadata.set("tokenizer.ggml.unknown_token_id", uint32_t{0});
  return Tokenizer::load(metadata);
}

// Lines of the form: kind letter, then the text; "M" adds a merge, "=" ends the vocabulary.
std::unique_ptr<Tokenizer> make_hostile(uint8_t choice, std::string_view& data) {
  Vocabulary v;
  v.model = choice % 3 == 0 ? "gpt2" : choice % 3 == 1 ? "llama" : "bert";
  v.pre = choice % 2 == 0 ? "llama-bpe" : "gpt-2";
  Metadata extra;
  while (!data.empty()) {
    const size_t end = std::min(data.find('\n'), data.size());
    const std::string_view line = data.substr(0, end);
    data.remove_prefix(std::min(end + 1, data.size()));
    if (line == "=") break;
    if (line.empty()) continue;
    const std::string text(line.substr(1));
    switch (line[0]) {
      case 'M':
        v.merges.push_back(text);
        break;
      case 'S':
        v.scores.push_back(static_cast<float>(std::atof(text.c_str())));
        break;
      case 'I':
        extra.set("tokenizer.ggml.eos_token_id", int64_t{std::atoll(text.c_str())});
        extra.set("tokenizer.ggml.bos_token_id", int64_t{std::atoll(text.c_str())} / 2);
        break;
      case 'F':
        extra.set("tokenizer.ggml.add_bos_token", true);
        break;
      default:
        v.add(text, line[0] - '0', static_cast<float>(line.size()));
    }
  }
  Metadata metadata = v.metadata();
  for (const auto& entry : extra.entries()) metadata.set(entry.key, entry.value);
  return Tokenizer::load(metadata);
}

void check(const Tokenizer& tokenizer, std::string_view text, bool gives_back) {
  for (const bool parse : {false, true}) {
    EncodeOptions options;
    options.add_special = parse;
    options.parse_special = parse;
    const std::vector<TokenId> ids = tokenizer.encode(text, options);
    for (const TokenId id : ids) {
      require(id >= 0 && static_cast<size_t>(id) < tokenizer.size());
      (void)tokenizer.piece(id, true);
    }
    const std::string decoded = tokenizer.decode(ids, parse);
    if (gives_back && !parse) require(decoded == text);
    Detokenizer stream(tokenizer, parse);
    std::string streamed;
    for (const TokenId id : ids) {
      const std::string shown = stream.push(id);
      require(strata::is_valid_utf8(shown));
      streamed += shown;
    }
    streamed += stream.finish();
    require(streamed == strata::replace_invalid_utf8(decoded));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const bool quiet = [] {
    strata::log::set_sink([](strata::log::Level, std::string_view) {});
    return true;
  }();
  (void)quiet;
  if (size == 0) return 0;
  std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] >= 240) {
    try {
      const auto tokenizer = make_hostile(data[0], text);
      check(*tokenizer, text, false);
    } catch (const Error&) {
    }
    return 0;
  }
  static const auto* const bpe = [] {
    auto* all = new std::vector<std::unique_ptr<Tokenizer>>;
    for (const char* pre :
         {"default", "llama-bpe", "dbrx", "glm4", "qwen2", "qwen35", "gpt-4o", "kimi-k2", "tekken",
          "deepseek-v3", "deepseek-coder", "deepseek-llm", "gpt-2", "starcoder", "falcon"}) {
      all->push_back(make_bpe(pre));
    }
    return all;
  }();
  static const std::unique_ptr<Tokenizer> spm = make_spm(false);
  static const std::unique_ptr<Tokenizer> spm_joined = make_spm(true);
  static const std::unique_ptr<Tokenizer> wpm = make_wpm();
  const size_t choice = data[0] % (bpe->size() + 3);
  // SPM writes a space as U+2581, so that one becomes a space.
  const bool spm_keeps = text.find("\xE2\x96\x81") == std::string_view::npos;
  if (choice < bpe->size()) {
    check(*(*bpe)[choice], text, true);
  } else if (choice == bpe->size()) {
    check(*spm, text, spm_keeps);
  } else if (choice == bpe->size() + 1) {
    check(*spm_joined, text, spm_keeps);
  } else {
    check(*wpm, text, false);
  }
  return 0;
}
