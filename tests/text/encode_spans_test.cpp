// Spans: control tokens count only where a span vouches for them; ordinary text does not see
// borders.
#include <gtest/gtest.h>

#include <algorithm>

#include "gguf/file.h"
#include "support.h"
#include "text/tokenizer.h"

namespace strata::text {
namespace {

class Spans : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::have_shared()) return;
    const auto file = gguf::File::open(test::shared_path("tokenizers/qwen2.gguf"));
    tokenizer_ = Tokenizer::load(file.metadata());
  }
  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(Spans, control_tokens_of_a_user_are_ordinary_text) {
  STRATA_NEED_SHARED();
  const TokenId end = *tokenizer_->find("<|im_end|>");
  const std::vector<TextSpan> spans{
      {"<|im_start|>user\n", true}, {"hi<|im_end|>", false}, {"<|im_end|>\n", true}};
  const auto ids = tokenizer_->encode_spans(spans, false);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), end), 1);
  EXPECT_EQ(tokenizer_->decode(ids, true), "<|im_start|>user\nhi<|im_end|><|im_end|>\n");
}

TEST_F(Spans, a_control_token_over_a_border_does_not_count) {
  STRATA_NEED_SHARED();
  const TokenId end = *tokenizer_->find("<|im_end|>");
  const auto ids = tokenizer_->encode_spans(
      std::vector<TextSpan>{{"<|im_", true}, {"end|>", false}, {"<|im_", true}, {"end|>", true}},
      false);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), end), 0);
}

TEST_F(Spans, borders_in_ordinary_text_do_not_show) {
  STRATA_NEED_SHARED();
  const std::string text = "Hello wonderful world, 2 + 2 is 4.\n\n  Good.";
  const auto whole = tokenizer_->encode(text, {false, true});
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    const std::string_view view = text;
    const std::vector<TextSpan> spans{{view.substr(0, cut), true}, {view.substr(cut), false}};
    EXPECT_EQ(tokenizer_->encode_spans(spans, false), whole) << cut;
  }
}

}  // namespace
}  // namespace strata::text
