// Cuts a template into tokens as jinja2 does with trim_blocks and lstrip_blocks.
//
// Errors: a token of kind `error` with the reason; it counts when the parser comes to it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace strata::text::jinja {

enum class TokenKind : uint8_t {
  data,
  block_begin,
  block_end,
  variable_begin,
  variable_end,
  name,
  string,
  integer,
  real,
  op,
  eof,
  error,
};

struct Token {
  TokenKind kind = TokenKind::eof;
  uint32_t line = 1;
  std::string text;  // name, operator, resolved string, template data, reason of an error
  int64_t integer = 0;
  double real = 0;

  bool is_op(std::string_view symbol) const { return kind == TokenKind::op && text == symbol; }
  bool is_name(std::string_view word) const { return kind == TokenKind::name && text == word; }
};

// `source` is valid UTF-8. The last token is eof or error.
std::vector<Token> tokenize(std::string_view source);

}  // namespace strata::text::jinja
