#include "text/grammar/gbnf.h"

#include <algorithm>
#include <string>
#include <unordered_map>

#include "base/error.h"
#include "base/utf8.h"

namespace strata::text::grammar {
namespace {

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Ast run() {
    if (text_.size() > k_max_grammar_bytes) {
      strata::fail(ErrorCode::bad_request, "the grammar has {} bytes; the most is {}", text_.size(),
                   k_max_grammar_bytes);
    }
    for (size_t at = 0; at < text_.size();) {
      const Utf8Char c = decode_utf8(text_, at);
      if (!c.valid) fail_at(at, "not UTF-8; save the grammar as UTF-8");
      at += c.length;
    }
    skip_space(true);
    while (at_ < text_.size()) {
      parse_rule();
      skip_space(true);
    }
    for (uint32_t i = 0; i < ast_.rules.size(); ++i) {
      if (defined_[i]) continue;
      fail_at(first_use_[i], "rule '{}' is not defined; add a line '{} ::= ...'",
              shown(ast_.rules[i].name), shown(ast_.rules[i].name));
    }
    const auto root = names_.find("root");
    if (root == names_.end()) {
      strata::fail(ErrorCode::bad_request,
                   "the grammar has no rule 'root'; add a line 'root ::= ...', where it starts");
    }
    ast_.root = root->second;
    return std::move(ast_);
  }

 private:
  template <class... Args>
  [[noreturn]] void fail_at(size_t at, fmt::format_string<Args...> format, Args&&... args) const {
    const auto [line, column] = place(at);
    strata::fail(ErrorCode::bad_request, "grammar line {}, column {}: {}", line, column,
                 fmt::format(format, std::forward<Args>(args)...));
  }

  static std::string shown(std::string_view text) { return printable(text, 60); }

  // Columns count characters.
  std::pair<uint32_t, uint32_t> place(size_t at) const {
    uint32_t line = 1, column = 1;
    for (size_t i = 0; i < at && i < text_.size(); ++i) {
      if (text_[i] == '\n') {
        ++line;
        column = 1;
      } else if ((static_cast<uint8_t>(text_[i]) & 0xC0) != 0x80) {
        ++column;
      }
    }
    return {line, column};
  }

  // What stands at the place, for messages.
  std::string found() const {
    if (at_ >= text_.size()) return "the end of the grammar";
    if (text_[at_] == '\n' || text_[at_] == '\r') return "the end of the line";
    const size_t length = decode_utf8(text_, at_).length;
    return "'" + shown(text_.substr(at_, length)) + "'";
  }

  bool at_char(char c) const { return at_ < text_.size() && text_[at_] == c; }

  void skip_space(bool newlines) {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#') {
        while (at_ < text_.size() && text_[at_] != '\n' && text_[at_] != '\r') ++at_;
      } else if (c == ' ' || c == '\t' || (newlines && (c == '\n' || c == '\r'))) {
        ++at_;
      } else {
        return;
      }
    }
  }

  std::string_view parse_name(const char* what) {
    const size_t begin = at_;
    while (at_ < text_.size() && is_name_char(text_[at_])) ++at_;
    if (at_ == begin) {
      fail_at(at_, "found {} where {} is expected", found(), what);
    }
    return text_.substr(begin, at_ - begin);
  }

  uint32_t rule_number(std::string_view name, size_t at) {
    const auto [found, added] =
        names_.emplace(std::string(name), static_cast<uint32_t>(ast_.rules.size()));
    if (added) {
      if (ast_.rules.size() >= k_max_rules) {
        fail_at(at, "more than {} rules; write a smaller grammar", k_max_rules);
      }
      ast_.rules.push_back({std::string(name), 0, 0, 0});
      defined_.push_back(false);
      first_use_.push_back(at);
    }
    return found->second;
  }

  void parse_rule() {
    const size_t begin = at_;
    const std::string_view name =
        parse_name("the name of a rule (letters, digits and '-', then ::=)");
    skip_space(false);
    if (text_.substr(at_, 3) != "::=") {
      fail_at(at_, "found {} after the rule name '{}' where '::=' is expected", found(),
              shown(name));
    }
    at_ += 3;
    const uint32_t number = rule_number(name, begin);
    if (defined_[number]) {
      fail_at(begin, "rule '{}' is defined twice; join the two with '|'", shown(name));
    }
    defined_[number] = true;
    const auto [line, column] = place_on(begin);
    ast_.rules[number].line = line;
    ast_.rules[number].column = column;
    skip_space(true);
    const uint32_t expr = parse_choice(0);
    ast_.rules[number].expr = expr;
    if (at_ < text_.size() && text_[at_] != '\n' && text_[at_] != '\r') {
      if (at_char(')')) fail_at(at_, "')' without '('; remove it");
      fail_at(at_,
              "found {} where a literal \"...\", a class [...], a rule name, '(' or the end of the "
              "line is expected",
              found());
    }
  }

  // As place(), walking on from the last rule, so that all rules together take linear time.
  std::pair<uint32_t, uint32_t> place_on(size_t at) {
    for (; placed_ < at; ++placed_) {
      if (text_[placed_] == '\n') {
        ++line_;
        line_begin_ = placed_ + 1;
      }
    }
    return {line_, static_cast<uint32_t>(at - line_begin_) + 1};
  }

  uint32_t add(Expr expr) {
    ast_.exprs.push_back(expr);
    return static_cast<uint32_t>(ast_.exprs.size()) - 1;
  }

  uint32_t add_list(ExprKind kind, const std::vector<uint32_t>& items) {
    if (items.size() == 1) return items[0];
    const Expr expr{kind, static_cast<uint32_t>(ast_.children.size()),
                    static_cast<uint32_t>(items.size())};
    ast_.children.insert(ast_.children.end(), items.begin(), items.end());
    return add(expr);
  }

  // Alternatives up to the end of the rule (depth 0) or to ')'.
  uint32_t parse_choice(uint32_t depth) {
    std::vector<uint32_t> items;
    while (true) {
      items.push_back(parse_sequence(depth));
      if (!at_char('|')) break;
      ++at_;
      skip_space(true);
    }
    return add_list(ExprKind::choice, items);
  }

  uint32_t parse_sequence(uint32_t depth) {
    std::vector<uint32_t> items;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      uint32_t item = 0;
      if (c == '"') {
        item = parse_literal();
      } else if (c == '[') {
        item = parse_class();
      } else if (c == '.') {
        ++at_;
        item = add_set({{0, k_last_code_point}});
      } else if (c == '(') {
        item = parse_group(depth);
      } else if (is_name_char(c)) {
        const size_t begin = at_;
        const uint32_t number = rule_number(parse_name("a rule name"), begin);
        item = add({ExprKind::rule, number});
      } else if (c == '*' || c == '+' || c == '?' || c == '{') {
        fail_at(at_, "found '{}' with nothing before it to repeat", c);
      } else {
        break;
      }
      skip_space(depth > 0);
      items.push_back(parse_repetitions(item, depth));
    }
    return add_list(ExprKind::sequence, items);
  }

  uint32_t parse_group(uint32_t depth) {
    const size_t begin = at_;
    if (depth >= k_max_group_depth) {
      fail_at(at_, "groups are nested deeper than {}; give the inner ones a rule of their own",
              k_max_group_depth);
    }
    ++at_;
    skip_space(true);
    const uint32_t item = parse_choice(depth + 1);
    if (!at_char(')')) {
      const auto [line, column] = place(begin);
      fail_at(at_, "found {} where ')' is expected (the '(' stands at line {}, column {})", found(),
              line, column);
    }
    ++at_;
    return item;
  }

  uint32_t parse_repetitions(uint32_t item, uint32_t depth) {
    for (uint32_t operators = 0; at_ < text_.size(); ++operators) {
      uint32_t min = 0, max = k_unbounded;
      const size_t begin = at_;
      const char c = text_[at_];
      if (c == '*') {
        ++at_;
      } else if (c == '+') {
        ++at_;
        min = 1;
      } else if (c == '?') {
        ++at_;
        max = 1;
      } else if (c == '{') {
        ++at_;
        skip_space(depth > 0);
        min = parse_count();
        max = min;
        skip_space(depth > 0);
        if (at_char(',')) {
          ++at_;
          skip_space(depth > 0);
          max = at_char('}') ? k_unbounded : parse_count();
          skip_space(depth > 0);
        }
        if (!at_char('}')) {
          fail_at(at_, "found {} in a repetition; write {{n}}, {{n,}} or {{n,m}}", found());
        }
        ++at_;
        if (max < min) {
          fail_at(begin, "the repetition {{{},{}}} ends below its beginning; write {{{},{}}}", min,
                  max, max, min);
        }
      } else {
        return item;
      }
      if (operators >= k_max_repeat_operators) {
        fail_at(begin, "more than {} repetitions of one thing", k_max_repeat_operators);
      }
      const Expr expr{ExprKind::repeat, static_cast<uint32_t>(ast_.children.size()), 1, min, max};
      ast_.children.push_back(item);
      item = add(expr);
      skip_space(depth > 0);
    }
    return item;
  }

  uint32_t parse_count() {
    const size_t begin = at_;
    uint64_t value = 0;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
      value = std::min<uint64_t>(value * 10 + static_cast<uint64_t>(text_[at_] - '0'),
                                 uint64_t{1} << 40);
      ++at_;
    }
    if (at_ == begin) {
      fail_at(at_, "found {} in a repetition where a number is expected, as in {{2,5}}", found());
    }
    if (value > k_max_repeat) {
      fail_at(begin, "a repetition of {}; the most is {}, and {{n,}} or '*' have no upper end",
              text_.substr(begin, std::min<size_t>(at_ - begin, 20)), k_max_repeat);
    }
    return static_cast<uint32_t>(value);
  }

  // One character of a literal or a class.
  uint32_t parse_char(size_t begin, char closing) {
    if (at_ >= text_.size()) {
      fail_at(begin, "'{}' is not closed; add '{}'", text_[begin], closing);
    }
    if (text_[at_] != '\\') {
      const Utf8Char c = decode_utf8(text_, at_);
      at_ += c.length;
      return c.code_point;
    }
    const size_t escape = at_++;
    const char c = at_ < text_.size() ? text_[at_++] : '\0';
    switch (c) {
      case 'n':
        return '\n';
      case 't':
        return '\t';
      case 'r':
        return '\r';
      case '\\':
      case '"':
      case '[':
      case ']':
      case '-':
      case '^':
      case '/':
        return static_cast<uint32_t>(c);
      case 'x':
        return parse_hex(escape, 2);
      case 'u':
        return parse_hex(escape, 4);
      case 'U':
        return parse_hex(escape, 8);
      default:
        fail_at(escape,
                "unknown escape; there are \\n \\r \\t \\\\ \\\" \\[ \\] \\- \\^ \\/ \\xHH \\uHHHH "
                "\\UHHHHHHHH");
    }
  }

  uint32_t parse_hex(size_t escape, int digits) {
    uint64_t value = 0;
    for (int i = 0; i < digits; ++i, ++at_) {
      const int digit = at_ < text_.size() ? hex_value(text_[at_]) : -1;
      if (digit < 0) fail_at(escape, "this escape has {} hexadecimal digits", digits);
      value = value * 16 + static_cast<uint64_t>(digit);
    }
    if (value > k_last_code_point || (value >= 0xD800 && value <= 0xDFFF)) {
      fail_at(escape, "U+{:04X} is not a character; give one up to U+10FFFF, no surrogate", value);
    }
    return static_cast<uint32_t>(value);
  }

  uint32_t parse_literal() {
    const size_t begin = at_++;
    const size_t first = ast_.bytes.size();
    while (!at_char('"')) {
      if (at_char('\n')) fail_at(begin, "'\"' is not closed on its line; write \\n for a newline");
      append_utf8(ast_.bytes, parse_char(begin, '"'));
    }
    ++at_;
    return add({ExprKind::literal, static_cast<uint32_t>(first),
                static_cast<uint32_t>(ast_.bytes.size() - first)});
  }

  uint32_t parse_class() {
    const size_t begin = at_++;
    const bool negated = at_char('^');
    if (negated) ++at_;
    CodePointSet set;
    while (!at_char(']')) {
      const size_t from = at_;
      const uint32_t first = parse_char(begin, ']');
      uint32_t last = first;
      if (at_char('-') && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
        ++at_;
        last = parse_char(begin, ']');
      }
      if (last < first) {
        fail_at(from, "the range '{}' ends below its beginning; turn it round",
                shown(text_.substr(from, at_ - from)));
      }
      set.push_back({first, last});
    }
    ++at_;
    if (set.empty()) fail_at(begin, "an empty class matches nothing; '.' is any character");
    set = normalise(std::move(set));
    if (negated) set = complement(set);
    // Surrogates are no characters, so a class of nothing else is empty too.
    set = intersect(set, {{0, 0xD7FF}, {0xE000, k_last_code_point}});
    if (set.empty()) fail_at(begin, "this class matches no character at all");
    return add_set(set);
  }

  uint32_t add_set(const CodePointSet& set) {
    const Expr expr{ExprKind::set, static_cast<uint32_t>(ast_.ranges.size()),
                    static_cast<uint32_t>(set.size())};
    ast_.ranges.insert(ast_.ranges.end(), set.begin(), set.end());
    return add(expr);
  }

  std::string_view text_;
  size_t at_ = 0;
  Ast ast_;
  std::unordered_map<std::string, uint32_t> names_;
  std::vector<bool> defined_;
  std::vector<size_t> first_use_;
  size_t placed_ = 0;
  size_t line_begin_ = 0;
  uint32_t line_ = 1;
};

}  // namespace

Ast parse_gbnf(std::string_view text) { return Parser(text).run(); }

}  // namespace strata::text::grammar
