// The filter wordwrap: Python's textwrap, line by line.
#include <algorithm>

#include "text/jinja/args.h"
#include "text/jinja/filters.h"
#include "text/jinja/operators.h"
#include "text/jinja/strings.h"
#include "text/jinja/unicode.h"

namespace strata::text::jinja {
namespace {

// The characters of one line with their place in bytes.
struct Line {
  std::vector<uint32_t> chars;
  std::vector<size_t> offsets;  // one more than chars
};

// Stretches of a line, in characters.
using Chunk = Span;

bool is_ascii_space(uint32_t c) { return c == ' ' || (c >= 9 && c <= 13); }
bool is_letter(uint32_t c) { return is_word(c) && !is_decimal(c); }
bool is_word_punctuation(uint32_t c) {
  return is_word(c) || c == '!' || c == '"' || c == '\'' || c == '&' || c == '.' || c == ',' ||
         c == '?';
}

// Cuts a line where it may be broken: around white space, after hyphens inside words, around
// dashes between words.
class Splitter {
 public:
  Splitter(const std::vector<uint32_t>& chars, bool on_hyphens)
      : chars_(chars), on_hyphens_(on_hyphens) {}

  std::vector<Chunk> run() const {
    std::vector<Chunk> out;
    for (size_t at = 0; at < chars_.size();) {
      const size_t end = chunk_end(at);
      out.emplace_back(at, end);
      at = end;
    }
    return out;
  }

 private:
  bool letter(size_t i) const { return i < chars_.size() && is_letter(chars_[i]); }
  bool hyphen(size_t i) const { return i < chars_.size() && chars_[i] == '-'; }

  size_t chunk_end(size_t at) const {
    if (is_ascii_space(chars_[at])) {
      while (at < chars_.size() && is_ascii_space(chars_[at])) ++at;
      return at;
    }
    if (on_hyphens_ && dash_at(at)) return dash_end(at);
    for (size_t i = at + 1;; ++i) {
      if (i >= chars_.size()) return i;
      if (on_hyphens_ && hyphen_inside_word(i)) return i + 1;
      if (is_ascii_space(chars_[i])) return i;
      if (on_hyphens_ && dash_at(i)) return i;
    }
  }

  size_t dash_end(size_t at) const {
    while (hyphen(at)) ++at;
    return at;
  }

  // Two or more hyphens with a word on either side.
  bool dash_at(size_t at) const {
    if (at == 0 || !is_word_punctuation(chars_[at - 1]) || !hyphen(at) || !hyphen(at + 1)) {
      return false;
    }
    const size_t end = dash_end(at);
    return end < chars_.size() && is_word(chars_[end]);
  }

  // A hyphen after two letters (or after "a-b") and before two more.
  bool hyphen_inside_word(size_t at) const {
    if (!hyphen(at)) return false;
    const bool after_two = at >= 2 && letter(at - 1) && letter(at - 2);
    const bool after_hyphenated = at >= 3 && letter(at - 1) && hyphen(at - 2) && letter(at - 3);
    if (!after_two && !after_hyphenated) return false;
    return letter(at + 1) && (letter(at + 2) || (hyphen(at + 2) && letter(at + 3)));
  }

  const std::vector<uint32_t>& chars_;
  bool on_hyphens_;
};

struct WrapStyle {
  int64_t width = 79;
  bool break_long_words = true;
  bool break_on_hyphens = true;
};

class Wrapper {
 public:
  Wrapper(Runtime& runtime, const Line& line, const WrapStyle& style)
      : runtime_(runtime), line_(line), style_(style) {
    chunks_ = Splitter(line.chars, style.break_on_hyphens).run();
    std::reverse(chunks_.begin(), chunks_.end());
  }

  // Lines as lists of chunks, in characters.
  std::vector<std::vector<Chunk>> run() {
    std::vector<std::vector<Chunk>> lines;
    while (!chunks_.empty()) {
      runtime_.step();
      std::vector<Chunk> current;
      int64_t length = 0;
      if (!lines.empty() && blank(chunks_.back())) chunks_.pop_back();
      while (!chunks_.empty() && length + size(chunks_.back()) <= style_.width) {
        length += size(chunks_.back());
        current.push_back(chunks_.back());
        chunks_.pop_back();
      }
      if (!chunks_.empty() && size(chunks_.back()) > style_.width) {
        take_long_word(current, style_.width - length);
      }
      if (!current.empty() && blank(current.back())) current.pop_back();
      if (!current.empty()) lines.push_back(std::move(current));
    }
    return lines;
  }

 private:
  static int64_t size(const Chunk& chunk) {
    return static_cast<int64_t>(chunk.second - chunk.first);
  }

  bool blank(const Chunk& chunk) const {
    for (size_t i = chunk.first; i < chunk.second; ++i) {
      if (!is_space(line_.chars[i])) return false;
    }
    return true;
  }

  void take_long_word(std::vector<Chunk>& current, int64_t space) {
    Chunk& chunk = chunks_.back();
    if (!style_.break_long_words) {
      if (!current.empty()) return;
      current.push_back(chunk);
      chunks_.pop_back();
      return;
    }
    size_t end = chunk.first + static_cast<size_t>(space);
    if (style_.break_on_hyphens) {
      // After the last hyphen that fits, unless only hyphens come before it.
      for (size_t i = end; i > chunk.first + 1; --i) {
        if (line_.chars[i - 1] != '-') continue;
        const auto first = line_.chars.begin() + static_cast<std::ptrdiff_t>(chunk.first);
        const auto last = line_.chars.begin() + static_cast<std::ptrdiff_t>(i - 1);
        if (std::any_of(first, last, [](uint32_t c) { return c != '-'; })) end = i;
        break;
      }
    }
    current.emplace_back(chunk.first, end);
    chunk.first = end;
  }

  Runtime& runtime_;
  const Line& line_;
  const WrapStyle& style_;
  std::vector<Chunk> chunks_;  // the next one last
};

Line read_line(const Text& text, size_t begin, size_t end) {
  Line out;
  size_t length = 0;
  for (size_t at = begin; at < end; at += length) {
    out.offsets.push_back(at);
    out.chars.push_back(code_point_at(text.bytes(), at, length));
  }
  out.offsets.push_back(end);
  return out;
}

Value filter_wordwrap(Runtime& runtime, const Value& subject, const CallArgs& args) {
  const Params params(runtime, "wordwrap", args,
                      {"width", "break_long_words", "wrapstring", "break_on_hyphens"});
  require_defined(runtime, subject);
  if (!subject.is_string()) {
    runtime.fail("wordwrap: expected a string, found '{}'", type_name(subject));
  }
  const Text& text = subject.string().text;
  WrapStyle style;
  style.width = params.integer_or(0, 79);
  style.break_long_words = params.truth_or(1, true);
  style.break_on_hyphens = params.truth_or(3, true);
  Text separator("\n", text.all_from_template());
  if (params.given_and_not_none(2)) separator = params.string(2).text;
  runtime.work(text.size() * 16);
  runtime.require_bytes(text.size() * (sizeof(uint32_t) + 2 * sizeof(size_t)));
  Text out;
  bool first_line = true;
  for (const auto& [begin, end] : line_spans(runtime, text.bytes(), false)) {
    if (!first_line) out.append(separator);
    first_line = false;
    const Line line = read_line(text, begin, end);
    if (style.width <= 0) runtime.fail("invalid width {} (must be > 0)", style.width);
    bool first_piece = true;
    for (const auto& chunks : Wrapper(runtime, line, style).run()) {
      runtime.require_bytes(out.cost() + separator.cost());
      if (!first_piece) out.append(separator);
      first_piece = false;
      for (const Chunk& chunk : chunks) {
        out.append(text, line.offsets[chunk.first], line.offsets[chunk.second]);
      }
    }
  }
  return runtime.text(std::move(out));
}

}  // namespace

const FilterDef k_wrap_filters[] = {
    {"wordwrap", filter_wordwrap},
    {nullptr, nullptr},
};

}  // namespace strata::text::jinja
