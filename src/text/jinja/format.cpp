#include "text/jinja/format.h"

#include <charconv>
#include <cmath>
#include <optional>

#include "base/utf8.h"
#include "text/jinja/format_spec.h"
#include "text/jinja/html.h"
#include "text/jinja/operators.h"
#include "text/jinja/str.h"
#include "text/jinja/unicode.h"

namespace strata::text::jinja {
namespace {

// One conversion of a % format.
struct Conversion {
  std::optional<std::string> key;
  NumberStyle style;
  bool left = false;
  int64_t width = 0;
  std::optional<int64_t> precision;
  char type = 0;
};

class PercentFormatter {
 public:
  PercentFormatter(Runtime& runtime, const Value& format, const Value& argument)
      : runtime_(runtime),
        text_(format.string().text),
        bytes_(text_.bytes()),
        markup_(format.is_markup()),
        argument_(argument) {}

  Text run() {
    while (at_ < bytes_.size()) {
      const size_t percent = std::min(bytes_.find('%', at_), bytes_.size());
      out_.append(text_, at_, percent);
      at_ = percent;
      if (at_ == bytes_.size()) break;
      ++at_;
      convert(read_conversion());
    }
    // A mapping need not be used up.
    const bool is_mapping = argument_.is(Kind::dict) || argument_.is(Kind::list) ||
                            argument_.is(Kind::range) || argument_.is_undefined();
    const size_t count = argument_.is(Kind::tuple) ? argument_.list().items.size() : 1;
    if (!is_mapping && used_ < count) {
      runtime_.fail("not all arguments converted during string formatting");
    }
    return std::move(out_);
  }

 private:
  char peek() const { return at_ < bytes_.size() ? bytes_[at_] : '\0'; }

  Value next_argument() {
    const size_t index = used_++;
    if (argument_.is(Kind::tuple)) {
      const auto& items = argument_.list().items;
      if (index < items.size()) return items[index];
    } else if (index == 0) {
      return argument_;
    }
    runtime_.fail("not enough arguments for format string");
  }

  int64_t read_number() {
    if (peek() == '*') {
      ++at_;
      return require_integer(runtime_, next_argument(), "* in a format");
    }
    int64_t number = 0;
    while (peek() >= '0' && peek() <= '9') {
      number = number * 10 + (bytes_[at_++] - '0');
      if (number > INT32_MAX) runtime_.fail("width or precision of a format is too big");
    }
    return number;
  }

  Conversion read_conversion() {
    Conversion out;
    if (peek() == '(') {
      const size_t begin = ++at_;
      for (int depth = 1; depth > 0; ++at_) {
        if (at_ >= bytes_.size()) runtime_.fail("incomplete format key");
        depth += bytes_[at_] == '(' ? 1 : (bytes_[at_] == ')' ? -1 : 0);
      }
      out.key = bytes_.substr(begin, at_ - 1 - begin);
    }
    for (bool flags = true; flags;) {
      switch (peek()) {
        case '-':
          out.left = true;
          break;
        case '+':
          out.style.sign = '+';
          break;
        case ' ':
          if (out.style.sign == 0) out.style.sign = ' ';
          break;
        case '#':
          out.style.alternate = true;
          break;
        case '0':
          out.style.zero_fill = true;
          break;
        default:
          flags = false;
      }
      if (flags) ++at_;
    }
    out.width = read_number();
    if (out.width < 0) {
      out.left = true;
      out.width = -std::max<int64_t>(out.width, -INT32_MAX);
    }
    if (peek() == '.') {
      ++at_;
      out.precision = std::max<int64_t>(read_number(), 0);
    }
    if (peek() == 'h' || peek() == 'l' || peek() == 'L') ++at_;
    if (at_ >= bytes_.size()) runtime_.fail("incomplete format");
    out.type = bytes_[at_++];
    return out;
  }

  Value argument_for(const Conversion& conversion) {
    if (!conversion.key) return next_argument();
    if (!argument_.is(Kind::dict)) runtime_.fail("format requires a mapping");
    const Value* found = argument_.dict().find(*conversion.key);
    if (found == nullptr) runtime_.fail("KeyError: {}", quoted(*conversion.key));
    return *found;
  }

  void convert(const Conversion& conversion) {
    if (conversion.type == '%') {
      out_.append(text_, at_ - 1, at_);
      return;
    }
    const Value value = argument_for(conversion);
    Text piece;
    switch (conversion.type) {
      case 's':
      case 'r':
      case 'a':
        piece = cut(text_piece(conversion, value), conversion.precision);
        break;
      case 'c':
        piece = character(value);
        break;
      case 'd':
      case 'i':
      case 'u':
      case 'x':
      case 'X':
      case 'o':
        piece = Text(integer_piece(conversion, value), true);
        break;
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        piece = Text(real_piece(conversion, value), true);
        break;
      default:
        runtime_.fail("unsupported format character '{}'",
                      conversion.type >= 0x20 && conversion.type < 0x7f ? conversion.type : '?');
    }
    append_padded(runtime_, out_, piece, conversion.width, conversion.left ? '<' : '>', " ");
  }

  Text text_piece(const Conversion& conversion, const Value& value) {
    Text text = conversion.type == 's' ? to_text(runtime_, value) : repr(runtime_, value);
    if (conversion.type == 'a') text = Text(ascii_only(text.bytes()), text.all_from_template());
    if (!markup_) return text;
    const Value piece = runtime_.text(std::move(text), value.is_markup());
    return escape_html(runtime_, piece).string().text;
  }

  Text cut(Text text, std::optional<int64_t> precision) {
    if (!precision) return text;
    return text.slice(0, byte_offset(text.bytes(), static_cast<size_t>(*precision)));
  }

  Text character(const Value& value) {
    if (value.is_string() && value.string().length == 1) return value.string().text;
    if (!value.is_integral()) runtime_.fail("%c requires int or char");
    const int64_t code = value.as_integer();
    if (code < 0 || code > 0x10FFFF) runtime_.fail("%c arg not in range(0x110000)");
    std::string out;
    append_utf8(out, static_cast<uint32_t>(code));
    return Text(std::move(out), true);
  }

  std::string integer_piece(const Conversion& conversion, const Value& value) {
    require_defined(runtime_, value);
    const bool decimal = conversion.type == 'd' || conversion.type == 'i' || conversion.type == 'u';
    int64_t number = 0;
    if (value.is_integral()) {
      number = value.as_integer();
    } else if (decimal && value.is(Kind::real)) {
      number = truncate_real(runtime_, value.real);
    } else {
      runtime_.fail("%{} format: {} is required, not {}", conversion.type,
                    decimal ? "a real number" : "an integer", type_name(value));
    }
    NumberStyle style = conversion.style;
    style.least_digits = conversion.precision.value_or(0);
    style.zero_width = style.zero_fill && !conversion.left ? conversion.width : 0;
    return format_integer(runtime_, number, decimal ? 'd' : conversion.type, style);
  }

  std::string real_piece(const Conversion& conversion, const Value& value) {
    require_defined(runtime_, value);
    if (!value.is_number()) runtime_.fail("must be real number, not {}", type_name(value));
    NumberStyle style = conversion.style;
    style.zero_width = style.zero_fill && !conversion.left ? conversion.width : 0;
    return format_real(runtime_, value.as_real(), conversion.type, conversion.precision.value_or(6),
                       style);
  }

  Runtime& runtime_;
  const Text& text_;
  const std::string& bytes_;
  bool markup_;
  const Value argument_;
  size_t at_ = 0;
  size_t used_ = 0;
  Text out_;
};

}  // namespace

Value format_percent(Runtime& runtime, const Value& format, const Value& argument) {
  runtime.work(format.bytes().size());
  return runtime.text(PercentFormatter(runtime, format, argument).run(), format.is_markup());
}

}  // namespace strata::text::jinja
