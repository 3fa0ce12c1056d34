// Damaged and hostile vocabularies: a typed error that names the place, or a defined meaning.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "tokenizer_support.h"

namespace strata::text {
namespace {

using namespace test_support;

void expect_error(const gguf::Metadata& metadata, ErrorCode code,
                  const std::vector<std::string>& parts) {
  try {
    Tokenizer::load(metadata);
    FAIL() << "no error; expected one about " << parts.front();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    const std::string message = error.what();
    for (const std::string& part : parts) {
      EXPECT_NE(message.find(part), std::string::npos) << message << " lacks " << part;
    }
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_LT(message.size(), 600u);
  }
}

gguf::Metadata without(const gguf::Metadata& metadata, const std::string& key) {
  gguf::Metadata out;
  for (const auto& entry : metadata.entries()) {
    if (entry.key != key) out.set(entry.key, entry.value);
  }
  return out;
}

class Warnings {
 public:
  Warnings() {
    log::set_sink([this](log::Level, std::string_view line) { text += std::string(line) + "\n"; });
  }
  ~Warnings() { log::set_sink({}); }
  std::string text;
};

TEST(TokenizerLoad, UnknownModelsListTheKnown) {
  for (const char* model : {"t5", "rwkv", "plamo2", "no_vocab", ""}) {
    Builder b = byte_bpe();
    b.model = model;
    expect_error(b.metadata(), ErrorCode::unsupported,
                 {"tokenizer.ggml.model", "llama", "gpt2", "bert"});
  }
  Builder b = byte_bpe("no-such-pre");
  expect_error(b.metadata(), ErrorCode::unsupported,
               {"tokenizer.ggml.pre", "no-such-pre", "qwen2", "llama-bpe", "tekken"});
}

TEST(TokenizerLoad, MissingKeys) {
  const gguf::Metadata bpe = byte_bpe().metadata();
  const gguf::Metadata spm = byte_spm().metadata();
  expect_error(without(bpe, "tokenizer.ggml.model"), ErrorCode::bad_file, {"tokenizer.ggml.model"});
  expect_error(without(bpe, "tokenizer.ggml.tokens"), ErrorCode::bad_file,
               {"tokenizer.ggml.tokens"});
  expect_error(without(bpe, "tokenizer.ggml.merges"), ErrorCode::bad_file,
               {"tokenizer.ggml.merges"});
  expect_error(without(spm, "tokenizer.ggml.scores"), ErrorCode::bad_file,
               {"tokenizer.ggml.scores"});
  EXPECT_NO_THROW(Tokenizer::load(without(bpe, "tokenizer.ggml.token_type")));
}

TEST(TokenizerLoad, AMissingPreTokenizerIsTheLegacyDefaultWithAWarning) {
  Warnings warnings;
  const auto t = byte_bpe("").load();
  EXPECT_NE(warnings.text.find("tokenizer.ggml.pre"), std::string::npos) << warnings.text;
  EXPECT_EQ(t->pre(), "");
  EXPECT_EQ(t->decode(t->encode("a 12345!", plain())), "a 12345!");
}

TEST(TokenizerLoad, LengthsThatDisagree) {
  for (const size_t count : {0u, 1u, 255u, 257u}) {
    Builder b = byte_bpe();
    b.types.resize(count, 1);
    expect_error(b.metadata(), ErrorCode::bad_file, {"tokenizer.ggml.token_type", "256 tokens"});
    Builder s = byte_spm();
    s.scores.resize(count);
    expect_error(s.metadata(), ErrorCode::bad_file, {"tokenizer.ggml.scores", "260 tokens"});
  }
  Builder b = byte_bpe();
  b.tokens.clear();
  b.types.clear();
  expect_error(b.metadata(), ErrorCode::bad_file, {"tokenizer.ggml.tokens"});
}

TEST(TokenizerLoad, WrongTypesOfValues) {
  for (const char* key : {"model", "pre", "tokens", "token_type", "scores", "merges",
                          "bos_token_id", "add_bos_token", "eot_token_id"}) {
    for (const gguf::Value& value :
         {gguf::Value(1.5f), gguf::Value(gguf::Array(std::vector<double>{0.5}))}) {
      for (Builder b : {byte_bpe(), byte_spm()}) {
        if (b.model == "gpt2" && std::string(key) == "scores") continue;
        if (b.model == "llama" && std::string(key) == "merges") continue;
        b.set(key, value);
        EXPECT_THROW(b.load(), Error) << key;
      }
    }
  }
}

TEST(TokenizerLoad, TokenTypes) {
  for (const int32_t type : {-1, 7, INT32_MAX, INT32_MIN}) {
    Builder b = byte_bpe();
    b.types[17] = type;
    expect_error(b.metadata(), ErrorCode::bad_file, {"tokenizer.ggml.token_type[17]"});
  }
  Builder b = byte_bpe();
  b.types[17] = 0;  // "undefined": ordinary
  EXPECT_EQ(b.load()->kind(17), TokenKind::normal);
}

TEST(TokenizerLoad, ByteTokens) {
  for (const char* text : {"<0x-1>", "<0x1>", "<0x123>", "<0xGG>", "<0x 1>", "<0x00", "0x00>",
                           "<0X00>", "<>", "a", "", "<0x0\xC3>", "<0x00>>"}) {
    Builder b = byte_spm();
    b.add(text, 6);
    expect_error(b.metadata(), ErrorCode::bad_file, {"tokenizer.ggml.tokens[260]", "byte token"});
  }
  // Lower-case digits do no harm, but the name is then another one for the same byte.
  Builder b = byte_spm();
  b.add("<0xfa>", 6);
  EXPECT_EQ(b.load()->piece(260), "\xFA");
}

TEST(TokenizerLoad, Scores) {
  Builder b = byte_spm();
  b.scores[259] = std::numeric_limits<float>::quiet_NaN();
  expect_error(b.metadata(), ErrorCode::bad_file, {"tokenizer.ggml.scores[259]"});
  b.scores[259] = -std::numeric_limits<float>::infinity();
  EXPECT_NO_THROW(b.load());
}

TEST(TokenizerLoad, Merges) {
  for (const char* merge : {"", " ", "a", "ab", "a ", " a", "\xC4\xA0"}) {
    Builder b = byte_bpe();
    b.merges = {"a b", merge};
    expect_error(b.metadata(), ErrorCode::bad_file, {"tokenizer.ggml.merges[1]"});
  }
  // Further spaces belong to the right part, which then no text can make.
  Builder b = byte_bpe();
  b.merges = {"a b c", "x  y", "\xFF \xFE", "\xE4\xB8\xAD a"};
  EXPECT_EQ(b.load()->encode("abc", plain()), (Ids{'a', 'b', 'c'}));
}

TEST(TokenizerLoad, DuplicateTokens) {
  Builder b = byte_bpe();
  b.add("a");
  expect_error(b.metadata(), ErrorCode::bad_file, {"tokenizer.ggml.tokens", "'a'", "[256]"});
}

TEST(TokenizerLoad, EmptyTokensAndTokensThatAreNotUtf8) {
  for (Builder b : {byte_bpe(), byte_spm()}) {
    const TokenId base = static_cast<TokenId>(b.tokens.size());
    b.add("");
    b.add("", 3);
    b.add("", 4);
    b.add("\xFF\xFE", 1, -1);
    b.add("\xC3", 4);
    b.add("\xE4\xB8", 3);
    Warnings warnings;
    const auto t = b.load();
    EXPECT_NE(warnings.text.find("tokenizer.ggml.tokens"), std::string::npos);
    EXPECT_EQ(t->decode(t->encode("a\xFF\xFE\xC3\xA9z", parsing())), "a\xFF\xFE\xC3\xA9z");
    EXPECT_EQ(t->piece(base), "");
    EXPECT_EQ(t->find(""), std::nullopt);
    for (TokenId id = 0; id < static_cast<TokenId>(t->size()); ++id) (void)t->piece(id, true);
  }
}

TEST(TokenizerLoad, SpecialIdsOutsideTheVocabularyAreIgnored) {
  Builder b = byte_bpe();
  Warnings warnings;
  b.set("bos_token_id", uint32_t{256});
  b.set("eos_token_id", uint64_t{1} << 40);
  b.set("unknown_token_id", int32_t{-1});
  b.set("eot_token_id", int64_t{-5});
  const auto t = b.load();
  EXPECT_EQ(t->bos(), std::nullopt);
  EXPECT_EQ(t->eos(), std::nullopt);
  EXPECT_EQ(t->unknown(), std::nullopt);
  EXPECT_TRUE(t->end_of_generation().empty());
  EXPECT_NE(warnings.text.find("bos_token_id is 256"), std::string::npos) << warnings.text;
  EXPECT_NE(warnings.text.find("eot_token_id"), std::string::npos) << warnings.text;
  // -1 says "none" and needs no warning.
  EXPECT_EQ(warnings.text.find("unknown_token_id"), std::string::npos) << warnings.text;
}

TEST(TokenizerLoad, AFlagWithoutItsTokenIsAnError) {
  Builder b = byte_bpe();
  b.set("bos_token_id", uint32_t{9999});
  b.set("add_bos_token", true);
  Warnings warnings;
  expect_error(b.metadata(), ErrorCode::bad_file, {"add_bos_token", "bos_token_id"});
  Builder tiny;
  tiny.pre = "llama-bpe";  // wants BOS by default, but this vocabulary has no token 11
  tiny.add("a");
  EXPECT_FALSE(tiny.load()->add_bos());
}

TEST(TokenizerLoad, ExtremeStrings) {
  Builder b = byte_bpe();
  b.add(std::string(100'000, 'x'), 4);
  b.add(std::string(50'000, 'x'), 3);
  b.merges.push_back(std::string(30'000, 'x') + " " + std::string(30'000, 'x'));
  const auto t = b.load();
  const std::string text(250'000, 'x');
  EXPECT_EQ(t->decode(t->encode(text, parsing()), true), text);
  Builder s = byte_spm();
  s.add(std::string(100'000, 'x'), 1, -1);
  EXPECT_EQ(s.load()->decode(s.load()->encode(text, plain())), text);
}

}  // namespace
}  // namespace strata::text
