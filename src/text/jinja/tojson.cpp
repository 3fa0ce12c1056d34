// The filter tojson as Hugging Face has it: json.dumps with ensure_ascii off.
#include <cmath>

#include "text/jinja/args.h"
#include "text/jinja/filters.h"
#include "text/jinja/operators.h"
#include "text/jinja/sorting.h"
#include "text/jinja/str.h"
#include "text/jinja/unicode.h"

namespace strata::text::jinja {
namespace {

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<std::string> indent;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};

class JsonWriter {
 public:
  JsonWriter(Runtime& runtime, const JsonStyle& style) : runtime_(runtime), style_(style) {}

  void write(const Value& value) {
    runtime_.step();
    runtime_.require_bytes(out_.size());
    switch (value.kind) {
      case Kind::list:
      case Kind::tuple:
        write_list(value.list());
        return;
      case Kind::dict:
        write_dict(value.dict());
        return;
      default:
        write_single(value);
    }
  }

  // One origin for the whole: nothing of a variable may be taken for the template's.
  Text take() { return Text(std::move(out_), from_template_); }

 private:
  // Everything without values inside; apart, to keep the frames of the others small.
  void write_single(const Value& value) {
    switch (value.kind) {
      case Kind::none:
        out_ += "null";
        return;
      case Kind::boolean:
        out_ += value.boolean ? "true" : "false";
        return;
      case Kind::integer:
        out_ += fmt::format("{}", value.integer);
        return;
      case Kind::real:
        out_ += real(value.real);
        return;
      case Kind::string:
        write_string(value.string().text);
        return;
      default:
        runtime_.fail("Object of type {} is not JSON serializable", type_name(value));
    }
  }

  static std::string real(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
    return real_repr(value);
  }

  void write_string(const Text& text) {
    if (!text.all_from_template()) from_template_ = false;
    runtime_.work(text.size());
    const std::string& bytes = text.bytes();
    out_ += '"';
    size_t length = 0;
    for (size_t at = 0; at < bytes.size(); at += length) {
      if (out_.size() > checked_) {
        runtime_.require_bytes(out_.size());
        checked_ = out_.size() + k_check_interval;
      }
      const uint32_t c = code_point_at(bytes, at, length);
      switch (c) {
        case '"':
          out_ += "\\\"";
          break;
        case '\\':
          out_ += "\\\\";
          break;
        case '\n':
          out_ += "\\n";
          break;
        case '\r':
          out_ += "\\r";
          break;
        case '\t':
          out_ += "\\t";
          break;
        case '\f':
          out_ += "\\f";
          break;
        case '\b':
          out_ += "\\b";
          break;
        default:
          if (c < 0x20 || (style_.ensure_ascii && c >= 0x7f)) {
            escape(c);
          } else {
            out_.append(bytes, at, length);
          }
      }
    }
    out_ += '"';
  }

  void escape(uint32_t c) {
    if (c < 0x10000) {
      out_ += fmt::format("\\u{:04x}", c);
    } else {
      c -= 0x10000;
      out_ += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (c >> 10), 0xDC00 + (c & 0x3FF));
    }
  }

  void new_line() {
    if (!style_.indent) return;
    out_ += '\n';
    runtime_.require_bytes(out_.size() + level_ * style_.indent->size());
    runtime_.work(level_ * style_.indent->size());
    for (size_t i = 0; i < level_; ++i) out_ += *style_.indent;
  }

  void write_list(const List& list) {
    const Nested nested(runtime_, k_value_weight);
    out_ += '[';
    ++level_;
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      new_line();
      write(list.items[i]);
    }
    --level_;
    if (!list.items.empty()) new_line();
    out_ += ']';
  }

  void write_dict(const Dict& dict) {
    const Nested nested(runtime_, k_value_weight);
    std::vector<Keyed> members;
    for (const Dict::Entry& entry : dict.entries()) {
      if (!entry.live) continue;
      runtime_.step();
      members.push_back({{entry.key}, entry.value});
    }
    if (style_.sort_keys) sort_keyed(runtime_, members, false);
    out_ += '{';
    ++level_;
    for (size_t i = 0; i < members.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      new_line();
      write_key(members[i].key[0]);
      out_ += style_.key_separator;
      write(members[i].item);
    }
    --level_;
    if (!members.empty()) new_line();
    out_ += '}';
  }

  void write_key(const Value& key) {
    switch (key.kind) {
      case Kind::string:
        write_string(key.string().text);
        return;
      case Kind::none:
      case Kind::boolean:
      case Kind::integer:
      case Kind::real:
        out_ += '"';
        write(key);
        out_ += '"';
        return;
      default:
        runtime_.fail("keys must be str, int, float, bool or None, not {}", type_name(key));
    }
  }

  Runtime& runtime_;
  const JsonStyle& style_;
  // A string is checked against the limit every so many bytes: escapes make it longer.
  static constexpr size_t k_check_interval = 1 << 16;

  std::string out_;
  size_t checked_ = 0;
  bool from_template_ = true;
  size_t level_ = 0;
};

Value filter_tojson(Runtime& runtime, const Value& subject, const CallArgs& args) {
  const Params params(runtime, "tojson", args,
                      {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = params.truth_or(0, false);
  style.sort_keys = params.truth_or(3, false);
  if (params.given_and_not_none(1)) {
    if (params[1].is_string()) {
      style.indent = params[1].bytes();
    } else {
      const int64_t width = std::max<int64_t>(params.integer(1), 0);
      runtime.require_bytes(static_cast<uint64_t>(width));
      style.indent = std::string(static_cast<size_t>(width), ' ');
    }
    style.item_separator.resize(1);  // the space would stand before the line break
  }
  if (params.given_and_not_none(2)) {
    const std::vector<Value> pair = items_of(runtime, params[2]);
    if (pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string()) {
      runtime.fail("tojson: separators must be two strings");
    }
    style.item_separator = pair[0].bytes();
    style.key_separator = pair[1].bytes();
  }
  JsonWriter writer(runtime, style);
  writer.write(subject);
  return runtime.text(writer.take());
}

}  // namespace

const FilterDef k_json_filters[] = {
    {"tojson", filter_tojson},
    {nullptr, nullptr},
};

}  // namespace strata::text::jinja
