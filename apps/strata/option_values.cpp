// From the text of a value to the type of the option, the same in every locale.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>

#include "base/error.h"
#include "base/suggest.h"
#include "strata/options.h"

namespace strata::app {
namespace {

struct Reader {
  Options& options;
  const OptionInfo& info;
  std::string_view text;
  const std::string& origin;

  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorCode::usage, "{}: {}", printable(origin, 300),
         fmt::format(format, std::forward<Args>(args)...));
  }

  std::string unset_words() const {
    std::string out;
    for (const std::string& word : split_words(info.constraint.unset, '|')) out += ", or " + word;
    if (!info.constraint.most.empty()) out += fmt::format(", or {}", info.constraint.most);
    return out;
  }

  bool is_unset_word() const {
    const auto words = split_words(info.constraint.unset, '|');
    return std::find(words.begin(), words.end(), text) != words.end();
  }

  template <class T>
  std::from_chars_result read(T& value) const {
    std::string_view digits = text;
    if (digits.starts_with('+') && !digits.starts_with("+-")) digits.remove_prefix(1);
    auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (result.ec == std::errc() && result.ptr != digits.data() + digits.size()) {
      result.ec = std::errc::invalid_argument;
    }
    return result;
  }

  std::string wanted_integer() const {
    const Constraint& c = info.constraint;
    return fmt::format("give a whole number from {} to {}{}", c.int_min, c.int_max, unset_words());
  }

  int64_t integer() const {
    if (!info.constraint.most.empty() && text == info.constraint.most) {
      return info.constraint.int_max;
    }
    int64_t value = 0;
    const auto result = read(value);
    if (result.ec == std::errc::invalid_argument)
      refuse("not a whole number; {}", wanted_integer());
    const Constraint& c = info.constraint;
    if (result.ec != std::errc() || value < c.int_min || value > c.int_max) {
      refuse("out of range; {}", wanted_integer());
    }
    return value;
  }

  bool boolean() const {
    std::string lower;
    for (const char c : text) lower += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    for (const char* yes : {"1", "true", "on", "yes"}) {
      if (lower == yes) return true;
    }
    for (const char* no : {"0", "false", "off", "no"}) {
      if (lower == no) return false;
    }
    refuse("neither yes nor no; give 1, true, on, yes or 0, false, off, no");
  }

  void operator()(bool Options::*member) const { options.*member = boolean(); }
  void operator()(std::optional<bool> Options::*member) const { options.*member = boolean(); }
  void operator()(int64_t Options::*member) const { options.*member = integer(); }

  void operator()(std::optional<int64_t> Options::*member) const {
    if (is_unset_word()) {
      options.*member = std::nullopt;
    } else {
      options.*member = integer();
    }
  }

  void operator()(std::optional<uint64_t> Options::*member) const {
    if (is_unset_word()) {
      options.*member = std::nullopt;
      return;
    }
    uint64_t value = 0;
    if (read(value).ec != std::errc()) {
      refuse("not usable; give a whole number from 0 to {}{}", UINT64_MAX, unset_words());
    }
    options.*member = value;
  }

  void operator()(double Options::*member) const {
    const Constraint& c = info.constraint;
    const std::string wanted = fmt::format("give a number {} {} to {}",
                                           c.above_min ? "above" : "from", c.real_min, c.real_max);
    double value = 0;
    const auto result = read(value);
    if (result.ec == std::errc::invalid_argument) refuse("not a number; {}", wanted);
    const bool too_low = c.above_min ? value <= c.real_min : value < c.real_min;
    if (result.ec != std::errc() || !std::isfinite(value) || too_low || value > c.real_max) {
      refuse("out of range; {}", wanted);
    }
    options.*member = value;
  }

  std::string string() const {
    const Constraint& c = info.constraint;
    if (c.kind == Constraint::Kind::choice) {
      const auto words = split_words(c.words, '|');
      if (std::find(words.begin(), words.end(), text) == words.end()) {
        refuse("not known; give one of {}", join_names(words));
      }
    }
    if (text.find('\0') != std::string_view::npos) refuse("holds a NUL byte");
    if (c.kind == Constraint::Kind::path && text.empty()) refuse("the path is empty");
    return std::string(text);
  }
  void operator()(std::string Options::*member) const { options.*member = string(); }
  void operator()(std::optional<std::string> Options::*member) const { options.*member = string(); }
  void operator()(std::vector<std::string> Options::*member) const {
    if (text.empty()) refuse("the text is empty");
    (options.*member).push_back(string());
  }

  // TOKEN+BIAS or TOKEN-BIAS; the sign belongs to the bias.
  void operator()(BiasList Options::*member) const {
    const char* end = text.data() + text.size();
    int32_t id = 0;
    const auto first = std::from_chars(text.data(), end, id);
    const bool has_id = first.ec == std::errc() && id >= 0 && first.ptr != end;
    double bias = 0;
    if (has_id && (*first.ptr == '+' || *first.ptr == '-')) {
      const auto second = std::from_chars(first.ptr + 1, end, bias);
      if (second.ec == std::errc() && second.ptr == end && !std::isnan(bias) && !(bias < 0)) {
        if (*first.ptr == '-') bias = -bias;
        if (bias < HUGE_VAL) {
          (options.*member).emplace_back(id, bias);
          return;
        }
      }
    }
    refuse("not a bias; give TOKEN+BIAS or TOKEN-BIAS, as in 15043+1, 15043-0.5 or 15043-inf");
  }
};

}  // namespace

void set_option(Options& options, const OptionInfo& info, std::string_view text,
                const std::string& origin) {
  std::visit(Reader{options, info, text, origin}, info.member);
}

bool switch_value(const OptionInfo& info, std::string_view text, const std::string& origin) {
  Options scratch;
  return Reader{scratch, info, text, origin}.boolean();
}

std::string unescape(std::string_view text) {
  const auto hex = [&](size_t at) {
    if (at >= text.size()) return -1;
    const char c = text[at];
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  };
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out += text[i];
      continue;
    }
    const char next = text[i + 1];
    const size_t known = std::string_view("nrt\\'\"").find(next);
    if (known != std::string_view::npos) {
      out += "\n\r\t\\'\""[known];
      ++i;
    } else if (next == 'x' && hex(i + 2) >= 0 && hex(i + 3) >= 0) {
      out += static_cast<char>(hex(i + 2) * 16 + hex(i + 3));
      i += 3;
    } else {
      out += '\\';
    }
  }
  return out;
}

}  // namespace strata::app
