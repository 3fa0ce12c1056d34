#include "text/jinja/lexer.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/utf8.h"
#include "text/jinja/str.h"
#include "text/jinja/string_literal.h"
#include "text/jinja/unicode.h"

namespace strata::text::jinja {
namespace {

// One kind of line break, and the one at the very end is not part of the template.
std::string normalize(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  explicit Lexer(std::string_view source) : text_(normalize(source)) {}

  std::vector<Token> run() {
    while (failed_.empty() && at_ < text_.size()) root();
    if (failed_.empty()) {
      emit(TokenKind::eof, tokens_.empty() ? 1 : tokens_.back().line);
    } else {
      emit(TokenKind::error, line_of(error_at_)).text = failed_;
    }
    return std::move(tokens_);
  }

 private:
  std::string_view view() const { return text_; }
  std::string_view rest() const { return view().substr(at_); }
  bool at(std::string_view wanted) const { return rest().substr(0, wanted.size()) == wanted; }
  bool at(size_t where, std::string_view wanted) const {
    return where <= text_.size() && view().substr(where, wanted.size()) == wanted;
  }

  // Positions only grow, so lines are counted as we go.
  uint32_t line_of(size_t where) {
    for (; counted_ < where; ++counted_) line_ += text_[counted_] == '\n';
    return line_;
  }

  Token& emit(TokenKind kind, uint32_t line) {
    tokens_.emplace_back();
    tokens_.back().kind = kind;
    tokens_.back().line = line;
    return tokens_.back();
  }

  void fail(size_t where, std::string reason) {
    error_at_ = where;
    failed_ = std::move(reason);
  }

  size_t skip_space(size_t where) const {
    size_t length = 0;
    while (where < text_.size() && is_space(code_point_at(text_, where, length))) where += length;
    return where;
  }

  // Template data up to a tag that carries this sign, as whitespace control leaves it.
  void emit_data(size_t begin, size_t end, char sign, bool is_variable) {
    const uint32_t line = line_of(begin);
    std::string_view data = view().substr(begin, end - begin);
    if (sign == '-') {
      size_t length = 0;
      while (!data.empty() && is_space(code_point_before(data, data.size(), length))) {
        data.remove_suffix(length);
      }
    } else if (sign != '+' && !is_variable) {
      const size_t line_begin = data.rfind('\n') + 1;  // npos + 1 is 0
      if ((line_begin > 0 || line_starting_) && only_space(data.substr(line_begin))) {
        data = data.substr(0, line_begin);
      }
    }
    if (!data.empty()) emit(TokenKind::data, line).text = std::string(data);
  }

  static bool only_space(std::string_view data) {
    size_t length = 0;
    for (size_t i = 0; i < data.size(); i += length) {
      if (!is_space(code_point_at(data, i, length))) return false;
    }
    return true;
  }

  char sign_at(size_t where) const {
    if (where >= text_.size()) return 0;
    return text_[where] == '-' || text_[where] == '+' ? text_[where] : '\0';
  }

  void move_to(size_t where) {
    line_starting_ = where > 0 && text_[where - 1] == '\n';
    at_ = where;
  }

  // Data and the tag after it.
  void root() {
    size_t tag = at_;
    while (true) {
      tag = text_.find('{', tag);
      if (tag == std::string::npos || tag + 1 >= text_.size()) {
        emit_data(at_, text_.size(), '+', false);
        move_to(text_.size());
        return;
      }
      const char next = text_[tag + 1];
      if (next == '%' || next == '{' || next == '#') break;
      ++tag;
    }
    const char sign = sign_at(tag + 2);
    const size_t after = tag + 2 + (sign != 0 ? 1 : 0);
    emit_data(at_, tag, sign, text_[tag + 1] == '{');
    switch (text_[tag + 1]) {
      case '#':
        move_to(after);
        comment();
        return;
      case '{':
        emit(TokenKind::variable_begin, line_of(tag));
        move_to(after);
        expression(true);
        return;
      default:
        if (const auto body = raw_begin(after)) {
          move_to(*body);
          raw();
          return;
        }
        emit(TokenKind::block_begin, line_of(tag));
        move_to(after);
        expression(false);
    }
  }

  // Where the text of a raw block begins, if `where` is inside the tag of one.
  std::optional<size_t> raw_begin(size_t where) const {
    where = skip_space(where);
    if (!at(where, "raw")) return std::nullopt;
    where = skip_space(where + 3);
    if (at(where, "-%}")) return skip_space(where + 3);
    if (at(where, "%}")) return where + 2;
    return std::nullopt;
  }

  // The end of a tag at `where`: "-X}" takes the white space after it, "+X}" nothing, "X}" one line
  // break. nullopt when there is none.
  std::optional<size_t> tag_end(size_t where, std::string_view close) const {
    if (where < text_.size() && text_[where] == '+' && at(where + 1, close)) {
      return where + 1 + close.size();
    }
    if (where < text_.size() && text_[where] == '-' && at(where + 1, close)) {
      return skip_space(where + 1 + close.size());
    }
    if (!at(where, close)) return std::nullopt;
    where += close.size();
    return where < text_.size() && text_[where] == '\n' ? where + 1 : where;
  }

  void comment() {
    const size_t begin = at_;
    for (size_t close = text_.find("#}", begin); close != std::string::npos;
         close = text_.find("#}", close + 1)) {
      // A sign before the end belongs to it.
      const bool sign = close > begin && (text_[close - 1] == '-' || text_[close - 1] == '+');
      move_to(*tag_end(close - (sign ? 1 : 0), "#}"));
      return;
    }
    // jinja2 lets an opened comment at the very end pass.
    if (begin < text_.size()) fail(begin, "Missing end of comment tag");
  }

  void raw() {
    const size_t begin = at_;
    for (size_t open = text_.find("{%", begin); open != std::string::npos;
         open = text_.find("{%", open + 1)) {
      const char sign = sign_at(open + 2);
      size_t where = skip_space(open + 2 + (sign != 0 ? 1 : 0));
      if (!at(where, "endraw")) continue;
      where = skip_space(where + 6);
      const auto end = tag_end(where, "%}");
      if (!end) continue;
      emit_data(begin, open, sign, false);
      move_to(*end);
      return;
    }
    if (begin < text_.size()) fail(begin, "Missing end of raw directive");
  }

  // What stands between the braces of a tag.
  void expression(bool variable) {
    std::vector<char> open;
    while (at_ < text_.size()) {
      if (open.empty()) {
        const auto end = variable ? variable_end(at_) : tag_end(at_, "%}");
        if (end) {
          emit(variable ? TokenKind::variable_end : TokenKind::block_end, line_of(at_));
          move_to(*end);
          return;
        }
      }
      const size_t next = skip_space(at_);
      if (next != at_) {
        move_to(next);
        continue;
      }
      if (!token(open)) return;
    }
  }

  std::optional<size_t> variable_end(size_t where) const {
    if (at(where, "-}}")) return skip_space(where + 3);
    if (at(where, "}}")) return where + 2;
    return std::nullopt;
  }

  bool token(std::vector<char>& open) {
    const char c = text_[at_];
    size_t length = 0;
    const uint32_t code = code_point_at(text_, at_, length);
    if (is_ascii_digit(c)) return number();
    if (is_word(code) || is_name_part(code)) return name();
    if (c == '\'' || c == '"') {
      const size_t end = string_end(at_);
      if (end != std::string::npos) return string(end);
    }
    return operator_token(open);
  }

  bool number() {
    const uint32_t line = line_of(at_);
    if (const size_t end = real_end(); end != at_) {
      Token& token = emit(TokenKind::real, line);
      token.real = parse_real(view().substr(at_, end - at_)).value_or(0);
      move_to(end);
      return true;
    }
    const size_t end = integer_end();
    int64_t value = 0;
    if (parse_integer(view().substr(at_, end - at_), 0, value) != ParsedInteger::ok) {
      fail(at_, "integer needs more than 64 bits");
      return false;
    }
    emit(TokenKind::integer, line).integer = value;
    move_to(end);
    return true;
  }

  // End of digits with single underscores between them, `where` if there are none.
  template <class IsDigit>
  size_t digits_end(size_t where, IsDigit is_digit_char) const {
    if (where >= text_.size() || !is_digit_char(text_[where])) return where;
    while (where < text_.size()) {
      if (is_digit_char(text_[where])) {
        ++where;
      } else if (text_[where] == '_' && where + 1 < text_.size() &&
                 is_digit_char(text_[where + 1])) {
        where += 2;
      } else {
        break;
      }
    }
    return where;
  }

  // End of a real number at `at_`, or `at_`.
  size_t real_end() const {
    if (at_ > 0 && text_[at_ - 1] == '.') return at_;
    const size_t whole = digits_end(at_, is_ascii_digit);
    size_t end = whole;
    if (at(whole, ".")) {
      const size_t fraction = digits_end(whole + 1, is_ascii_digit);
      if (fraction != whole + 1) end = fraction;
    }
    if (end < text_.size() && (text_[end] | 0x20) == 'e') {
      size_t digits = end + 1;
      if (digits < text_.size() && (text_[digits] == '+' || text_[digits] == '-')) ++digits;
      const size_t exponent = digits_end(digits, is_ascii_digit);
      if (exponent != digits) return exponent;
    }
    return end == whole ? at_ : end;
  }

  size_t integer_end() const {
    if (text_[at_] != '0') return digits_end(at_, is_ascii_digit);
    const char prefix = at_ + 1 < text_.size() ? static_cast<char>(text_[at_ + 1] | 0x20) : '\0';
    const auto prefixed = [&](auto is_digit_char) {
      const size_t begin = at_ + 2 + (at(at_ + 2, "_") ? 1 : 0);
      const size_t end = digits_end(begin, is_digit_char);
      return end != begin ? end : at_ + 1;
    };
    if (prefix == 'b') return prefixed([](char c) { return c == '0' || c == '1'; });
    if (prefix == 'o') return prefixed([](char c) { return c >= '0' && c <= '7'; });
    if (prefix == 'x') {
      return prefixed([](char c) {
        const char lower = static_cast<char>(c | 0x20);
        return is_ascii_digit(c) || (lower >= 'a' && lower <= 'f');
      });
    }
    return digits_end(at_, [](char c) { return c == '0'; });
  }

  bool name() {
    const size_t begin = at_;
    size_t length = 0;
    const bool valid = is_name_start(code_point_at(text_, begin, length));
    size_t end = begin;
    bool parts = true;
    while (end < text_.size()) {
      const uint32_t c = code_point_at(text_, end, length);
      if (!is_word(c) && !is_name_part(c)) break;
      parts = parts && is_name_part(c);
      end += length;
    }
    if (!valid || !parts) {
      fail(begin, "Invalid character in identifier");
      return false;
    }
    emit(TokenKind::name, line_of(begin)).text = text_.substr(begin, end - begin);
    move_to(end);
    return true;
  }

  // Past the closing quote; npos when the string does not end.
  size_t string_end(size_t where) const {
    const char quote = text_[where];
    for (size_t i = where + 1; i < text_.size(); ++i) {
      if (text_[i] == '\\') {
        ++i;
      } else if (text_[i] == quote) {
        return i + 1;
      }
    }
    return std::string::npos;
  }

  bool string(size_t end) {
    std::string error;
    std::string value;
    if (!resolve_string_literal(view().substr(at_ + 1, end - at_ - 2), value, error)) {
      fail(at_, error);
      return false;
    }
    emit(TokenKind::string, line_of(at_)).text = std::move(value);
    move_to(end);
    return true;
  }

  bool operator_token(std::vector<char>& open) {
    static constexpr std::array<std::string_view, 6> k_double = {
        "//", "**", "==", "!=", ">=", "<="};
    static constexpr std::string_view k_single = "+-/*%~[](){}><=.:|,;";
    std::string_view symbol;
    for (const std::string_view candidate : k_double) {
      if (at(candidate)) symbol = candidate;
    }
    if (symbol.empty() && k_single.find(text_[at_]) != std::string_view::npos) {
      symbol = view().substr(at_, 1);
    }
    if (symbol.empty()) {
      size_t length = 0;
      code_point_at(text_, at_, length);
      fail(at_, "unexpected char " + quoted(view().substr(at_, length)));
      return false;
    }
    if (!balance(open, symbol[0])) return false;
    emit(TokenKind::op, line_of(at_)).text = std::string(symbol);
    move_to(at_ + symbol.size());
    return true;
  }

  bool balance(std::vector<char>& open, char c) {
    switch (c) {
      case '{':
        open.push_back('}');
        return true;
      case '(':
        open.push_back(')');
        return true;
      case '[':
        open.push_back(']');
        return true;
      case '}':
      case ')':
      case ']':
        break;
      default:
        return true;
    }
    if (open.empty()) {
      fail(at_, std::string("unexpected '") + c + "'");
      return false;
    }
    const char expected = open.back();
    open.pop_back();
    if (expected == c) return true;
    fail(at_, std::string("unexpected '") + c + "', expected '" + expected + "'");
    return false;
  }

  std::string text_;
  size_t at_ = 0;
  bool line_starting_ = true;
  size_t counted_ = 0;
  uint32_t line_ = 1;
  std::vector<Token> tokens_;
  std::string failed_;
  size_t error_at_ = 0;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace strata::text::jinja
