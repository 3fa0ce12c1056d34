// strata tokenize: how a text is cut into tokens.
#include <fmt/format.h>

#include "base/error.h"
#include "gguf/file.h"
#include "strata/inputs.h"
#include "strata/output.h"
#include "strata/verb.h"
#include "text/tokenizer.h"

namespace strata::app {

int tokenize_verb(const Options& options) {
  gguf::ParseOptions parse;
  parse.allow_missing_data = true;  // only the vocabulary is needed
  const gguf::File file = gguf::File::open(require_model(options), parse);
  const auto tokenizer = text::Tokenizer::load(file.metadata());
  text::EncodeOptions encode;
  encode.add_special = options.bos;
  encode.parse_special = options.parse_special;
  const std::vector<TokenId> ids = tokenizer->encode(input_text(options), encode);
  std::string out;
  if (options.ids) {
    for (const TokenId id : ids) fmt::format_to(std::back_inserter(out), " {}", id);
    print(std::string_view(out).substr(out.empty() ? 0 : 1));
    print("\n");
    return 0;
  }
  const size_t width = fmt::format("{}", tokenizer->size()).size();
  // WPM normalises: its tokens do not spell the text, so they are shown as the vocabulary has them.
  const bool as_stored = tokenizer->model() == "bert";
  for (const TokenId id : ids) {
    const std::string piece =
        as_stored ? std::string(tokenizer->token_text(id)) : tokenizer->piece(id, true);
    print(fmt::format("{:>{}} '{}'\n", id, width, printable(piece, size_t{1} << 16)));
  }
  return 0;
}

}  // namespace strata::app
