#include "text/grammar/schema_pattern.h"

#include <optional>

#include "base/error.h"
#include "base/utf8.h"
#include "text/grammar/code_points.h"
#include "text/grammar/gbnf.h"

namespace strata::text::grammar {
namespace {

constexpr size_t k_max_pattern = 4096;
constexpr int k_max_depth = 40;

// As GBNF class characters.
std::string class_text(const CodePointSet& set) {
  std::string out = "[";
  for (const CodePointRange& range : set) {
    out += fmt::format("\\U{:08X}", range.first);
    if (range.last > range.first) out += fmt::format("-\\U{:08X}", range.last);
  }
  return out + "]";
}

// One character of the set as it stands in a JSON string. Control characters come as their short
// escapes; the others only when there is nothing else.
std::string json_char(const CodePointSet& set) {
  static const CodePointSet k_direct = {
      {0x20, 0x21}, {0x23, 0x5B}, {0x5D, 0xD7FF}, {0xE000, k_last_code_point}};
  std::vector<std::string> parts;
  const CodePointSet direct = intersect(set, k_direct);
  if (!direct.empty()) parts.push_back(class_text(direct));
  const auto holds = [&set](uint32_t c) { return !intersect(set, {{c, c}}).empty(); };
  constexpr std::pair<uint32_t, const char*> escapes[] = {
      {'"', "\"\\\\\\\"\""}, {'\\', "\"\\\\\\\\\""}, {'\b', "\"\\\\b\""}, {'\f', "\"\\\\f\""},
      {'\n', "\"\\\\n\""},   {'\r', "\"\\\\r\""},    {'\t', "\"\\\\t\""}};
  for (const auto& [c, text] : escapes) {
    if (holds(c)) parts.emplace_back(text);
  }
  if (parts.empty()) {
    for (uint32_t c = 0; c < 0x20; ++c) {
      if (holds(c)) parts.push_back(fmt::format("\"\\\\u{:04x}\"", c));
    }
  }
  if (parts.size() == 1) return parts[0];
  std::string out = "(";
  for (size_t i = 0; i < parts.size(); ++i) out += (i > 0 ? " | " : "") + parts[i];
  return parts.empty() ? "" : out + ")";
}

class PatternParser {
 public:
  PatternParser(std::string_view pattern, const std::string& path)
      : pattern_(pattern), path_(path) {}

  std::string run() {
    if (pattern_.size() > k_max_pattern) fail_at("is longer than {} bytes", k_max_pattern);
    std::string out = parse_choice(0);
    if (at_ < pattern_.size()) fail_at("has ')' without '('");
    return out;
  }

 private:
  template <class... Args>
  [[noreturn]] void fail_at(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorCode::bad_request, "schema at {}: the pattern '{}' {} (byte {})", path_,
         printable(pattern_, 60), fmt::format(format, std::forward<Args>(args)...), at_);
  }

  bool at_char(char c) const { return at_ < pattern_.size() && pattern_[at_] == c; }

  std::string parse_choice(int depth) {
    if (depth > k_max_depth) fail_at("nests groups deeper than {}", k_max_depth);
    std::string out = "(" + parse_sequence(depth);
    while (at_char('|')) {
      ++at_;
      out += " | " + parse_sequence(depth);
    }
    return out + ")";
  }

  std::string parse_sequence(int depth) {
    if (depth == 0) {
      if (!at_char('^')) fail_at("is not anchored; write ^...$ around each alternative");
      ++at_;
    }
    std::string out;
    bool ended = false;
    while (at_ < pattern_.size() && pattern_[at_] != '|' && pattern_[at_] != ')') {
      if (at_char('$') && depth == 0) {
        ++at_;
        ended = true;
        break;
      }
      const std::string atom = parse_atom(depth);
      out += " " + atom + parse_quantifier();
    }
    if (depth == 0 && !ended) fail_at("is not anchored; write ^...$ around each alternative");
    if (ended && at_ < pattern_.size() && pattern_[at_] != '|') fail_at("goes on after '$'");
    return out.empty() ? "\"\"" : out;
  }

  std::string parse_atom(int depth) {
    const char c = pattern_[at_];
    if (c == '(') {
      ++at_;
      if (at_char('?')) {
        if (pattern_.substr(at_, 2) != "?:")
          fail_at("has (? that is not (?:...), which is not supported");
        at_ += 2;
      }
      std::string out = parse_choice(depth + 1);
      if (!at_char(')')) fail_at("has '(' without ')'");
      ++at_;
      return out;
    }
    if (c == '[') return checked(parse_class());
    if (c == '.') {
      ++at_;
      return json_char(complement({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}));
    }
    if (c == '*' || c == '+' || c == '?' || c == '{' || c == '}' || c == ']') {
      fail_at("has '{}' where a character is expected; write \\{}", c, c);
    }
    if (c == '^' || c == '$') fail_at("has '{}' inside, where it is not supported", c);
    return checked(parse_char_or_set());
  }

  std::string checked(const CodePointSet& set) const {
    std::string out = json_char(set);
    if (out.empty()) fail_at("has a class that no character is in");
    return out;
  }

  std::string parse_quantifier() {
    std::string out;
    if (at_char('*') || at_char('+') || at_char('?')) {
      out = pattern_[at_++];
    } else if (at_char('{')) {
      ++at_;
      const uint64_t min = parse_count();
      if (at_char(',')) {
        ++at_;
        if (at_char('}')) {
          out = fmt::format("{{{},}}", min);
        } else {
          const uint64_t max = parse_count();
          if (max < min) fail_at("has a repetition that ends below its beginning");
          out = fmt::format("{{{},{}}}", min, max);
        }
      } else {
        out = fmt::format("{{{}}}", min);
      }
      if (!at_char('}')) fail_at("has a repetition that is not {{n}}, {{n,}} or {{n,m}}");
      ++at_;
    }
    if (!out.empty() && at_char('?')) ++at_;  // lazy: the same texts
    return out;
  }

  uint64_t parse_count() {
    const size_t begin = at_;
    uint64_t value = 0;
    while (at_ < pattern_.size() && pattern_[at_] >= '0' && pattern_[at_] <= '9') {
      value = value * 10 + static_cast<uint64_t>(pattern_[at_++] - '0');
      if (value > k_max_repeat) fail_at("repeats more than {} times", k_max_repeat);
    }
    if (at_ == begin) fail_at("has '{{' without a number; write \\{{ for the character");
    return value;
  }

  uint32_t parse_hex(int digits) {
    uint32_t value = 0;
    for (int i = 0; i < digits; ++i, ++at_) {
      const char c = at_ < pattern_.size() ? pattern_[at_] : '\0';
      const std::string_view all = "0123456789abcdefABCDEF";
      const size_t digit = all.find(c);
      if (digit == all.npos) fail_at("has an escape with fewer than {} digits", digits);
      value = value * 16 + static_cast<uint32_t>(digit < 16 ? digit : digit - 6);
    }
    return value;
  }

  static CodePointSet one(uint32_t c) { return {{c, c}}; }

  // A character, or what an escape like \d stands for.
  CodePointSet parse_char_or_set() {
    if (!at_char('\\')) {
      const Utf8Char c = decode_utf8(pattern_, at_);
      at_ += c.length;
      return one(c.code_point);
    }
    ++at_;
    if (at_ >= pattern_.size()) fail_at("ends in '\\'");
    const Utf8Char escaped = decode_utf8(pattern_, at_);
    at_ += escaped.length;
    const CodePointSet digits = {{'0', '9'}};
    const CodePointSet word = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    const CodePointSet space = {
        {'\t', '\r'},     {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
        {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
    switch (escaped.code_point) {
      case 'd':
        return digits;
      case 'D':
        return complement(digits);
      case 'w':
        return word;
      case 'W':
        return complement(word);
      case 's':
        return space;
      case 'S':
        return complement(space);
      case 'n':
        return one('\n');
      case 'r':
        return one('\r');
      case 't':
        return one('\t');
      case 'f':
        return one('\f');
      case 'v':
        return one('\v');
      case 'x':
        return one(parse_hex(2));
      case 'u':
        return one(parse_hex(4));
      default:
        break;
    }
    const bool is_letter_or_digit =
        escaped.code_point < 0x80 &&
        ((escaped.code_point | 0x20) - 'a' < 26u || escaped.code_point - '0' < 10u);
    if (is_letter_or_digit) {
      fail_at("has \\{}, which is not supported", static_cast<char>(escaped.code_point));
    }
    return one(escaped.code_point);
  }

  CodePointSet parse_class() {
    ++at_;
    const bool negated = at_char('^');
    if (negated) ++at_;
    CodePointSet set;
    while (!at_char(']')) {
      if (at_ >= pattern_.size()) fail_at("has '[' without ']'");
      const CodePointSet first = parse_char_or_set();
      const bool single = first.size() == 1 && first[0].first == first[0].last;
      const bool is_range =
          single && at_char('-') && at_ + 1 < pattern_.size() && pattern_[at_ + 1] != ']';
      if (!is_range) {
        set.insert(set.end(), first.begin(), first.end());
        continue;
      }
      ++at_;
      const CodePointSet last = parse_char_or_set();
      if (last.size() != 1 || last[0].first != last[0].last || last[0].first < first[0].first) {
        fail_at("has a class with a range that ends below its beginning or in a class");
      }
      set.push_back({first[0].first, last[0].first});
    }
    ++at_;
    set = normalise(std::move(set));
    return negated ? complement(set) : set;
  }

  std::string_view pattern_;
  const std::string& path_;
  size_t at_ = 0;
};

}  // namespace

std::string gbnf_of_pattern(std::string_view pattern, const std::string& path) {
  return PatternParser(pattern, path).run();
}

std::string gbnf_literal(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<uint8_t>(c) < 0x20 || c == 0x7F) {
      out += fmt::format("\\x{:02X}", static_cast<uint8_t>(c));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

}  // namespace strata::text::grammar
