// "{} {name!r:>10}".format(...).
#include <optional>

#include "base/utf8.h"
#include "text/jinja/attributes.h"
#include "text/jinja/format.h"
#include "text/jinja/format_spec.h"
#include "text/jinja/html.h"
#include "text/jinja/operators.h"
#include "text/jinja/str.h"
#include "text/jinja/unicode.h"

namespace strata::text::jinja {
namespace {

// [[fill]align][sign][#][0][width][group][.precision][type]
struct Spec {
  std::string fill = " ";
  char align = 0;
  NumberStyle style;
  int64_t width = 0;
  std::optional<int64_t> precision;
  char type = 0;
  bool empty = true;
};

bool is_align(char c) { return c == '<' || c == '>' || c == '^' || c == '='; }

class SpecReader {
 public:
  SpecReader(Runtime& runtime, std::string_view text) : runtime_(runtime), text_(text) {}

  Spec read() {
    Spec out;
    out.empty = text_.empty();
    if (text_.empty()) return out;
    bool fill_given = false;
    size_t length = 0;
    code_point_at(text_, 0, length);
    if (text_.size() > length && is_align(text_[length])) {
      out.fill = std::string(text_.substr(0, length));
      fill_given = true;
      out.align = text_[length];
      at_ = length + 1;
    } else if (is_align(peek())) {
      out.align = text_[at_++];
    }
    if (peek() == '+' || peek() == '-' || peek() == ' ') {
      const char sign = text_[at_++];
      if (sign != '-') out.style.sign = sign;
    }
    if (take('#')) out.style.alternate = true;
    if (take('0')) {
      out.style.zero_fill = true;
      // A fill of its own comes before, an alignment of its own only changes the side.
      if (!fill_given) out.fill.assign(1, '0');
      if (out.align == 0) out.align = '=';
    }
    out.width = read_number();
    if (peek() == ',' || peek() == '_') out.style.group = text_[at_++];
    if (take('.')) {
      if (peek() < '0' || peek() > '9') runtime_.fail("Format specifier missing precision");
      out.precision = read_number();
    }
    if (at_ < text_.size()) out.type = text_[at_++];
    if (at_ != text_.size()) runtime_.fail("Invalid format specifier");
    return out;
  }

 private:
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  int64_t read_number() {
    int64_t number = 0;
    while (peek() >= '0' && peek() <= '9') {
      number = number * 10 + (text_[at_++] - '0');
      if (number > INT32_MAX) runtime_.fail("Too many decimal digits in format string");
    }
    return number;
  }

  Runtime& runtime_;
  std::string_view text_;
  size_t at_ = 0;
};

class BraceFormatter {
 public:
  BraceFormatter(Runtime& runtime, const CallArgs& args, bool markup)
      : runtime_(runtime), args_(args), markup_(markup) {}

  // `depth`: how many levels of fields inside specs may still come.
  Text run(const Text& format, int depth) {
    if (depth < 0) runtime_.fail("Max string recursion exceeded");
    Text out;
    const std::string& bytes = format.bytes();
    size_t at = 0;
    while (at < bytes.size()) {
      const size_t brace = std::min(bytes.find_first_of("{}", at), bytes.size());
      out.append(format, at, brace);
      at = brace;
      if (at == bytes.size()) break;
      if (at + 1 < bytes.size() && bytes[at + 1] == bytes[at]) {
        out.append(format, at, at + 1);
        at += 2;
        continue;
      }
      if (bytes[at] == '}') runtime_.fail("Single '}}' encountered in format string");
      const size_t begin = ++at;
      int open = 1;
      while (at < bytes.size() && open > 0) {
        if (bytes[at] == '{') ++open;
        if (bytes[at] == '}') --open;
        ++at;
      }
      if (open > 0) runtime_.fail("expected '}}' before end of string");
      append_field(out, format.slice(begin, at - 1), depth);
    }
    return out;
  }

 private:
  void append_field(Text& out, const Text& field, int depth) {
    const std::string& bytes = field.bytes();
    // The name ends at ! or : outside of brackets.
    size_t end = 0;
    for (bool bracket = false; end < bytes.size(); ++end) {
      if (bytes[end] == '[') bracket = true;
      if (bytes[end] == ']') bracket = false;
      if (!bracket && (bytes[end] == '!' || bytes[end] == ':')) break;
    }
    char conversion = 0;
    size_t spec_begin = end;
    if (end < bytes.size() && bytes[end] == '!') {
      if (end + 1 >= bytes.size()) {
        runtime_.fail("end of string while looking for conversion specifier");
      }
      conversion = bytes[end + 1];
      spec_begin = end + 2;
      if (spec_begin < bytes.size() && bytes[spec_begin] != ':') {
        runtime_.fail("expected ':' after conversion specifier");
      }
    }
    const Value value = convert(resolve(field.slice(0, end)), conversion);
    Text spec_text;
    if (spec_begin < bytes.size()) {
      spec_text = run(field.slice(spec_begin + 1, bytes.size()), depth - 1);
    }
    append_formatted(out, value, SpecReader(runtime_, spec_text.bytes()).read());
  }

  Value convert(const Value& value, char conversion) {
    switch (conversion) {
      case 0:
        return value;
      case 's':
        return to_string_value(runtime_, value);
      case 'r':
        return runtime_.text(repr(runtime_, value));
      case 'a': {
        const Text text = repr(runtime_, value);
        return runtime_.text(ascii_only(text.bytes()), text.all_from_template());
      }
      default:
        runtime_.fail("Unknown conversion specifier in a format string");
    }
  }

  // name, name.attribute, name[key], 0, ...
  Value resolve(const Text& field) {
    const std::string& bytes = field.bytes();
    const size_t end = std::min(bytes.find_first_of(".["), bytes.size());
    Value value = argument(bytes.substr(0, end));
    size_t at = end;
    while (at < bytes.size()) {
      runtime_.step();
      if (bytes[at] == '.') {
        const size_t next = std::min(bytes.find_first_of(".[", at + 1), bytes.size());
        if (next == at + 1) runtime_.fail("Empty attribute in format string");
        const Value name = runtime_.text(field.slice(at + 1, next));
        value = get_attribute(runtime_, value, name.string_pointer());
        at = next;
        continue;
      }
      const size_t close = bytes.find(']', at);
      if (close == std::string::npos) runtime_.fail("Missing ']' in format string");
      if (close == at + 1) runtime_.fail("Empty attribute in format string");
      const std::string key = bytes.substr(at + 1, close - at - 1);
      value = get_item(runtime_, value, key_of(key, field.slice(at + 1, close)));
      at = close + 1;
      if (at < bytes.size() && bytes[at] != '.' && bytes[at] != '[') {
        runtime_.fail("Only '.' or '[' may follow ']' in format field specifier");
      }
    }
    return value;
  }

  Value key_of(const std::string& key, Text text) {
    int64_t index = 0;
    if (is_index(key) && parse_integer(key, 10, index) == ParsedInteger::ok) {
      return Value::of(index);
    }
    return runtime_.text(std::move(text));
  }

  static bool is_index(const std::string& text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  }

  Value argument(const std::string& name) {
    const bool automatic = name.empty();
    if (automatic || is_index(name)) {
      if (numbering_ != Numbering::none && (numbering_ == Numbering::automatic) != automatic) {
        runtime_.fail("cannot mix automatic and manual field numbering");
      }
      numbering_ = automatic ? Numbering::automatic : Numbering::manual;
      int64_t index = 0;
      if (automatic) {
        index = next_++;
      } else if (parse_integer(name, 10, index) != ParsedInteger::ok) {
        index = INT64_MAX;
      }
      if (index >= static_cast<int64_t>(args_.positional.size())) {
        runtime_.fail("Replacement index {} out of range for positional args tuple", index);
      }
      return args_.positional[static_cast<size_t>(index)];
    }
    for (const auto& [key, value] : args_.named) {
      if (key->text.bytes() == name) return value;
    }
    runtime_.fail("KeyError: {}", quoted(name));
  }

  void append_formatted(Text& out, const Value& value, const Spec& spec) {
    Text piece;
    if (spec.empty || value.is_string()) {
      if (value.is_string()) {
        format_text(piece, value.string().text, spec);
      } else {
        append_str(runtime_, piece, value);
      }
    } else if (value.is_number()) {
      format_number(piece, value, spec);
    } else {
      runtime_.fail("unsupported format string passed to {}.__format__", type_name(value));
    }
    runtime_.require_bytes(out.cost() + piece.cost());
    if (markup_) {
      const Value escaped =
          escape_html(runtime_, runtime_.text(std::move(piece), value.is_markup()));
      out.append(escaped.string().text);
    } else {
      out.append(piece);
    }
  }

  void format_text(Text& out, const Text& text, const Spec& spec) {
    if (spec.type != 0 && spec.type != 's') fail_type(spec, "str");
    if (spec.style.sign != 0) runtime_.fail("Sign not allowed in string format specifier");
    if (spec.style.alternate) {
      runtime_.fail("Alternate form (#) not allowed in string format specifier");
    }
    if (spec.style.group != 0) runtime_.fail("Cannot specify '{}' with 's'.", spec.style.group);
    if (spec.align == '=' && !spec.style.zero_fill) {
      runtime_.fail("'=' alignment not allowed in string format specifier");
    }
    Text piece = text;
    if (spec.precision) {
      piece = text.slice(0, byte_offset(text.bytes(), static_cast<size_t>(*spec.precision)));
    }
    const char align = spec.align == 0 || spec.align == '=' ? '<' : spec.align;
    append_padded(runtime_, out, piece, spec.width, align, spec.fill);
  }

  void format_number(Text& out, const Value& value, const Spec& spec) {
    NumberStyle style = spec.style;
    const bool zeros = spec.align == '=' && spec.fill == "0";
    if (zeros) style.zero_width = spec.width;
    std::string digits;
    switch (spec.type) {
      case 'c': {
        const int64_t code = require_integer(runtime_, value, "format code 'c'");
        if (code < 0 || code > 0x10FFFF) runtime_.fail("%c arg not in range(0x110000)");
        append_utf8(digits, static_cast<uint32_t>(code));
        break;
      }
      case 'b':
      case 'd':
      case 'o':
      case 'x':
      case 'X':
        if (!value.is_integral()) fail_type(spec, type_name(value));
        if (spec.precision) runtime_.fail("Precision not allowed in integer format specifier");
        digits = format_integer(runtime_, value.as_integer(), spec.type, style);
        break;
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
      case '%':
        digits =
            format_real(runtime_, value.as_real(), spec.type, spec.precision.value_or(6), style);
        break;
      case 'n':
      case 0:
        digits = plain_number(value, spec, style);
        break;
      default:
        fail_type(spec, type_name(value));
    }
    if (spec.align == '=' && !zeros) {
      // The fill goes between the sign and the digits.
      const bool sign =
          !digits.empty() && (digits[0] == '-' || digits[0] == '+' || digits[0] == ' ');
      out.append(digits.substr(0, sign ? 1 : 0), true);
      append_padded(runtime_, out, Text(digits.substr(sign ? 1 : 0), true),
                    spec.width - (sign ? 1 : 0), '>', spec.fill);
      return;
    }
    const char align = spec.align == 0 || spec.align == '=' ? '>' : spec.align;
    append_padded(runtime_, out, Text(std::move(digits), true), spec.width, align, spec.fill);
  }

  std::string plain_number(const Value& value, const Spec& spec, const NumberStyle& style) {
    if (value.is_integral()) return format_integer(runtime_, value.as_integer(), 'd', style);
    return format_real(runtime_, value.real, spec.type == 'n' ? 'g' : '\0',
                       spec.precision.value_or(spec.type == 'n' ? 6 : -1), style);
  }

  [[noreturn]] void fail_type(const Spec& spec, const char* type) {
    runtime_.fail("Unknown format code '{}' for object of type '{}'",
                  spec.type >= 0x20 && spec.type < 0x7f ? spec.type : '?', type);
  }

  enum class Numbering { none, automatic, manual };
  Runtime& runtime_;
  const CallArgs& args_;
  bool markup_;
  Numbering numbering_ = Numbering::none;
  int64_t next_ = 0;
};

}  // namespace

Value format_braces(Runtime& runtime, const Value& format, const CallArgs& args) {
  runtime.work(format.bytes().size());
  BraceFormatter formatter(runtime, args, format.is_markup());
  return runtime.text(formatter.run(format.string().text, 1), format.is_markup());
}

}  // namespace strata::text::jinja
