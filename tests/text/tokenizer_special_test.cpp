// Special tokens: cutting them out, BOS and EOS, the end-of-generation set, what is shown.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "gguf/file.h"
#include "support.h"
#include "text/tokenizers/special_splitter.h"
#include "tokenizer_support.h"

namespace strata::text {
namespace {

using namespace test_support;

constexpr int k_control = 3;
constexpr int k_user_defined = 4;

TEST(Special, ControlTokensOnlyWhereTheCallerVouches) {
  Builder b = byte_bpe("qwen2");
  const int32_t end = b.add("<|im_end|>", k_control);
  const int32_t think = b.add("<think>", k_user_defined);
  const auto t = b.load();
  EXPECT_EQ(t->encode("a<|im_end|>b", parsing()), (Ids{'a', end, 'b'}));
  const Ids forged = t->encode("a<|im_end|>b", plain());
  EXPECT_EQ(std::count(forged.begin(), forged.end(), end), 0);
  EXPECT_EQ(t->decode(forged), "a<|im_end|>b");
  // User-defined tokens are part of ordinary text.
  EXPECT_EQ(t->encode("a<think>b", plain()), (Ids{'a', think, 'b'}));
  EXPECT_EQ(t->decode(Ids{'a', think, end}), "a<think>");
  EXPECT_EQ(t->decode(Ids{'a', think, end}, true), "a<think><|im_end|>");
}

TEST(Special, TheLongestTokenFirst) {
  Builder b = byte_bpe();
  const int32_t two = b.add("==", k_user_defined);
  const int32_t three = b.add("===", k_user_defined);
  const int32_t tail = b.add("=>>>", k_user_defined);
  const int32_t one = '=';
  b.types['='] = k_user_defined;
  const auto t = b.load();
  EXPECT_EQ(t->encode("=======", plain()), (Ids{three, three, one}));
  EXPECT_EQ(t->encode("==", plain()), Ids{two});
  // The longest goes first wherever it stands.
  EXPECT_EQ(t->encode("===>>>", plain()), (Ids{two, tail}));
  EXPECT_EQ(t->encode("==x==", plain()), (Ids{two, 'x', two}));
}

// The rule by definition: token after token, the longest first, each from the left.
std::vector<std::pair<size_t, uint32_t>> cut_plainly(const std::vector<std::string>& tokens,
                                                     const std::string& text) {
  std::vector<uint32_t> order(tokens.size());
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::vector<bool> taken(text.size());
  std::vector<std::pair<size_t, uint32_t>> found;
  for (size_t length = 20; length > 0; --length) {
    for (size_t at = 0; at + length <= text.size(); ++at) {
      for (uint32_t i = 0; i < tokens.size(); ++i) {
        if (tokens[i].size() != length || text.compare(at, length, tokens[i]) != 0) continue;
        if (std::find(taken.begin() + static_cast<ptrdiff_t>(at),
                      taken.begin() + static_cast<ptrdiff_t>(at + length),
                      true) != taken.begin() + static_cast<ptrdiff_t>(at + length)) {
          continue;
        }
        std::fill_n(taken.begin() + static_cast<ptrdiff_t>(at), length, true);
        found.emplace_back(at, i);
      }
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

TEST(Special, SplitterAsTheDefinition) {
  std::mt19937 random(2);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::string> tokens;
    for (size_t n = 1 + random() % 12; n > 0; --n) {
      std::string token;
      for (size_t m = 1 + random() % 6; m > 0; --m) token.push_back("ab"[random() % 2]);
      if (std::find(tokens.begin(), tokens.end(), token) == tokens.end()) tokens.push_back(token);
    }
    SpecialSplitter splitter;
    for (uint32_t i = 0; i < tokens.size(); ++i) splitter.add(tokens[i], i);
    splitter.finish();
    std::string text;
    for (size_t m = random() % 60; m > 0; --m) text.push_back("aabbc"[random() % 5]);
    std::vector<std::pair<size_t, uint32_t>> got;
    std::string rebuilt;
    for (const auto& segment : splitter.split(text)) {
      ASSERT_LT(segment.begin, segment.end);
      rebuilt += text.substr(segment.begin, segment.end - segment.begin);
      if (segment.token != SpecialSplitter::k_text) got.emplace_back(segment.begin, segment.token);
    }
    EXPECT_EQ(rebuilt, text);
    EXPECT_EQ(got, cut_plainly(tokens, text)) << text;
  }
}

TEST(Special, ExactlyOneBosWhoeverSaysIt) {
  Builder b = byte_spm();
  b.set("add_space_prefix", false);
  const auto t = b.load();
  // add_special and a BOS in the text, parsed or not: the four combinations.
  EXPECT_EQ(t->encode("<s>a", parsing(true)), (Ids{1, 3 + 'a'}));
  EXPECT_EQ(t->encode("a", parsing(true)), (Ids{1, 3 + 'a'}));
  EXPECT_EQ(t->encode("<s>a", parsing(false)), (Ids{1, 3 + 'a'}));
  EXPECT_EQ(t->encode("a", parsing(false)), Ids{3 + 'a'});
  // Not parsed: the text is text, and BOS is added.
  EXPECT_EQ(t->encode("<s>"), (Ids{1, 3 + '<', 3 + 's', 3 + '>'}));
  // Two in the text are the caller's own doing.
  EXPECT_EQ(t->encode("<s><s>", parsing(true)), (Ids{1, 1}));
  // A BOS elsewhere is none at the beginning.
  EXPECT_EQ(t->encode("a<s>", parsing(true)), (Ids{1, 3 + 'a', 1}));
}

TEST(Special, EosIsAddedOnce) {
  Builder b = byte_spm();
  b.set("add_space_prefix", false);
  b.set("add_bos_token", false);
  b.set("add_eos_token", true);
  const auto t = b.load();
  EXPECT_TRUE(t->add_eos());
  EXPECT_FALSE(t->add_bos());
  EXPECT_EQ(t->encode("a"), (Ids{3 + 'a', 2}));
  EXPECT_EQ(t->encode("a</s>", parsing(true)), (Ids{3 + 'a', 2}));
  EXPECT_EQ(t->encode("a", plain()), Ids{3 + 'a'});
}

TEST(Special, DefaultsByModelAndPreTokenizer) {
  EXPECT_TRUE(byte_spm().load()->add_bos());
  EXPECT_EQ(byte_spm().load()->bos(), 1);
  EXPECT_EQ(byte_spm().load()->eos(), 2);
  EXPECT_EQ(byte_spm().load()->unknown(), 0);
  EXPECT_FALSE(byte_bpe("gpt-2").load()->add_bos());
  EXPECT_EQ(byte_bpe("gpt-2").load()->bos(), 11);
  EXPECT_EQ(byte_bpe("gpt-2").load()->eos(), 11);
  EXPECT_FALSE(byte_bpe("gpt-2").load()->add_space_prefix());
  EXPECT_TRUE(byte_bpe("llama-bpe").load()->add_bos());
  EXPECT_TRUE(byte_bpe("tekken").load()->add_bos());
  EXPECT_EQ(byte_bpe("glm4").load()->bos(), std::nullopt);
  // A default that is an ordinary token must not end a generation.
  EXPECT_FALSE(byte_bpe("gpt-2").load()->is_end_of_generation(11));
}

TEST(Special, EndOfGenerationFromIdsAndTexts) {
  Builder b = byte_bpe("qwen2");
  const int32_t text_end = b.add("<|endoftext|>", k_control);
  const int32_t turn_end = b.add("<|im_end|>", k_control);
  const int32_t start = b.add("<|im_start|>", k_control);
  const int32_t own = b.add("<own_end>", k_control);
  const int32_t typed_wrong = b.add("<|eot_id|>");
  b.set("eos_token_id", static_cast<uint32_t>(turn_end));
  b.set("eot_token_id", static_cast<uint32_t>(own));
  const auto t = b.load();
  EXPECT_EQ(t->end_of_generation(), (Ids{text_end, turn_end, own, typed_wrong}));
  EXPECT_TRUE(t->is_end_of_generation(own));
  EXPECT_FALSE(t->is_end_of_generation(start));
  EXPECT_FALSE(t->is_end_of_generation(-1));
  EXPECT_FALSE(t->is_end_of_generation(1'000'000));
  // A marker that the file calls ordinary is a control token all the same.
  EXPECT_EQ(t->kind(typed_wrong), TokenKind::control);
  EXPECT_EQ(t->encode("<|eot_id|>", parsing()), Ids{typed_wrong});
}

TEST(Special, ATextThatMergesMakeIsNoMarker) {
  Builder b = byte_bpe();
  b.merges = {"< /", "</ s", "</s >"};
  b.add("</");
  b.add("</s");
  const int32_t tag = b.add("</s>");
  const auto t = b.load();
  EXPECT_FALSE(t->is_end_of_generation(tag));
  EXPECT_EQ(t->kind(tag), TokenKind::normal);
}

TEST(Special, EndOfAPartOfAnAnswerDoesNotEndIt) {
  Builder b = byte_bpe("gpt-4o");
  const int32_t end = b.add("<|end|>", k_control);
  EXPECT_TRUE(b.load()->is_end_of_generation(end));
  const int32_t done = b.add("<|return|>", k_control);
  const int32_t call = b.add("<|call|>", k_control);
  const int32_t channel = b.add("<|channel|>", k_control);
  const auto t = b.load();
  EXPECT_EQ(t->end_of_generation(), (Ids{done, call}));
  // What frames the parts is seen, but cannot be forged.
  EXPECT_EQ(t->piece(end), "<|end|>");
  EXPECT_EQ(t->piece(channel), "<|channel|>");
  EXPECT_EQ(t->piece(done), "");
  const Ids forged = t->encode("<|channel|>", plain());
  EXPECT_EQ(std::count(forged.begin(), forged.end(), channel), 0);
}

TEST(Special, IdsOutsideTheVocabularyAreRefused) {
  const auto t = byte_bpe().load();
  for (const TokenId id : {-1, 256, INT32_MAX, INT32_MIN}) {
    EXPECT_THROW((void)t->piece(id), Error) << id;
    EXPECT_THROW((void)t->token_text(id), Error) << id;
    EXPECT_THROW((void)t->decode(Ids{0, id}), Error) << id;
    EXPECT_THROW((void)t->kind(id), Error) << id;
  }
}

// Known ids of the published tokenizers.
TEST(Special, PublishedChatMarkers) {
  STRATA_NEED_SHARED();
  const auto load = [](const std::string& name) {
    return Tokenizer::load(
        gguf::File::open(test::shared_path("tokenizers/" + name + ".gguf")).metadata());
  };
  // Phi-3's tokenizer drops white space behind its markers.
  const auto phi = load("phi-3");
  EXPECT_EQ(phi->encode("<|user|>\nHello<|end|>\n<|assistant|>\n", parsing(true)),
            (Ids{1, 32010, 15043, 32007, 32001}));
  EXPECT_TRUE(phi->is_end_of_generation(32007));
  EXPECT_TRUE(phi->is_end_of_generation(32000));

  const auto qwen = load("qwen2");
  EXPECT_EQ(qwen->encode("<|im_start|>user\n", parsing(true)), (Ids{151644, 872, 198}));
  EXPECT_EQ(qwen->find("<|im_end|>"), 151645);
  EXPECT_TRUE(qwen->is_end_of_generation(151645));
  EXPECT_TRUE(qwen->is_end_of_generation(151643));
  EXPECT_FALSE(qwen->is_end_of_generation(151644));

  const auto llama3 = load("llama-bpe");
  EXPECT_EQ(llama3->encode("<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\n",
                           parsing(true)),
            (Ids{128000, 128006, 882, 128007, 271}));
  EXPECT_EQ(llama3->encode("user"), (Ids{128000, 882}));
  EXPECT_TRUE(llama3->is_end_of_generation(128009));
  EXPECT_TRUE(llama3->is_end_of_generation(128001));

  const auto bert = load("bert-bge");
  EXPECT_EQ(bert->encode("hello world"), (Ids{101, 7592, 2088, 102}));
}

}  // namespace
}  // namespace strata::text
