#include "text/jinja/str.h"

#include <algorithm>

#include "base/utf8.h"
#include "text/jinja/ast.h"
#include "text/jinja/loop.h"
#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

namespace strata::text::jinja {
namespace {

class ReprWriter {
 public:
  explicit ReprWriter(Runtime& runtime) : runtime_(runtime) {}

  void write(const Value& value) {
    runtime_.step();
    runtime_.require_bytes(out_.size());
    switch (value.kind) {
      case Kind::list:
      case Kind::tuple:
      case Kind::dict:
      case Kind::view:
        write_container(value);
        return;
      case Kind::space:
        out_ += "<Namespace ";
        write_container(Value::of(Kind::dict, value.space().attributes));
        out_ += ">";
        return;
      default:
        write_single(value);
    }
  }

  Text take() { return Text(std::move(out_), from_template_); }

 private:
  // Everything without values inside; apart, to keep the frames of the others small.
  void write_single(const Value& value) {
    switch (value.kind) {
      case Kind::undefined:
        out_ += "Undefined";
        return;
      case Kind::none:
        out_ += "None";
        return;
      case Kind::boolean:
        out_ += value.boolean ? "True" : "False";
        return;
      case Kind::integer:
        out_ += fmt::format("{}", value.integer);
        return;
      case Kind::real:
        out_ += real_repr(value.real);
        return;
      case Kind::string:
        write_string(value);
        return;
      case Kind::range:
        write_range(value.range());
        return;
      case Kind::loop:
        out_ += fmt::format("<LoopContext {}/{}>", value.loop().index0 + 1,
                            value.loop().get_length(runtime_));
        return;
      case Kind::macro: {
        const String* name = value.macro().node->name;
        out_ +=
            name == nullptr ? "<Macro anonymous>" : "<Macro " + quoted(name->text.bytes()) + ">";
        return;
      }
      case Kind::function:
        out_ += fmt::format("<function {}>", value.function->name);
        return;
      case Kind::method:
        out_ += fmt::format("<built-in method {} of {} object>", value.method().method->name,
                            type_name(value.method().self));
        return;
      case Kind::iterator:
        out_ += fmt::format("<{} object>", value.iterator().type_name);
        return;
      default:
        out_ += fmt::format("<{} object>", type_name(value));
    }
  }

  void write_string(const Value& value) {
    const std::string& bytes = value.bytes();
    if (!value.string().text.all_from_template()) from_template_ = false;
    runtime_.work(bytes.size());
    // The longest escape is four times what it stands for.
    runtime_.require_bytes(out_.size() + bytes.size() * 4);
    out_ += value.is_markup() ? "Markup(" + quoted(bytes) + ")" : quoted(bytes);
  }

  void write_container(const Value& value) {
    const Nested nested(runtime_, k_value_weight);
    // A container inside itself is written as dots.
    if (std::find(open_.begin(), open_.end(), value.object) != open_.end()) {
      out_ += value.is(Kind::list) ? "[...]" : (value.is(Kind::tuple) ? "(...)" : "{...}");
      return;
    }
    open_.push_back(value.object);
    switch (value.kind) {
      case Kind::list:
        write_items(value.list().items, '[', ']');
        break;
      case Kind::tuple:
        write_items(value.list().items, '(', ')');
        break;
      case Kind::dict:
        write_dict(value.dict());
        break;
      default:
        write_view(value.view());
    }
    open_.pop_back();
  }

  void write_items(const std::vector<Value>& items, char open, char close) {
    out_ += open;
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_ += ", ";
      write(items[i]);
    }
    if (close == ')' && items.size() == 1) out_ += ",";
    out_ += close;
  }

  void write_dict(const Dict& dict) {
    out_ += "{";
    bool first = true;
    for (const Dict::Entry& entry : dict.entries()) {
      if (!entry.live) continue;
      if (!first) out_ += ", ";
      first = false;
      write(entry.key);
      out_ += ": ";
      write(entry.value);
    }
    out_ += "}";
  }

  void write_view(const View& view) {
    static constexpr const char* k_names[] = {"dict_keys([", "dict_values([", "dict_items(["};
    out_ += k_names[static_cast<size_t>(view.part)];
    bool first = true;
    for (const Dict::Entry& entry : view.dict->entries()) {
      if (!entry.live) continue;
      if (!first) out_ += ", ";
      first = false;
      if (view.part == View::Part::items) out_ += "(";
      if (view.part != View::Part::values) write(entry.key);
      if (view.part == View::Part::items) out_ += ", ";
      if (view.part != View::Part::keys) write(entry.value);
      if (view.part == View::Part::items) out_ += ")";
    }
    out_ += "])";
  }

  void write_range(const Range& range) {
    if (range.step == 1) {
      out_ += fmt::format("range({}, {})", range.start, range.stop);
    } else {
      out_ += fmt::format("range({}, {}, {})", range.start, range.stop, range.step);
    }
  }

  Runtime& runtime_;
  std::string out_;
  bool from_template_ = true;
  std::vector<const Object*> open_;
};

}  // namespace

std::string quoted(std::string_view text) {
  const bool has_single = text.find('\'') != text.npos;
  const char quote = has_single && text.find('"') == text.npos ? '"' : '\'';
  std::string out(1, quote);
  size_t length = 0;
  for (size_t at = 0; at < text.size(); at += length) {
    const uint32_t c = code_point_at(text, at, length);
    if (c == '\\' || c == static_cast<uint32_t>(quote)) {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (is_printable(c)) {
      out.append(text.substr(at, length));
    } else if (c < 0x100) {
      out += fmt::format("\\x{:02x}", c);
    } else if (c < 0x10000) {
      out += fmt::format("\\u{:04x}", c);
    } else {
      out += fmt::format("\\U{:08x}", c);
    }
  }
  out += quote;
  return out;
}

Text repr(Runtime& runtime, const Value& value) {
  ReprWriter writer(runtime);
  writer.write(value);
  return writer.take();
}

void append_str(Runtime& runtime, Text& out, const Value& value) {
  if (value.is_string()) {
    runtime.work(value.string().text.cost());
    out.append(value.string().text);
  } else if (!value.is_undefined()) {
    out.append(repr(runtime, value));
  }
}

Text to_text(Runtime& runtime, const Value& value) {
  Text out;
  append_str(runtime, out, value);
  return out;
}

Value to_string_value(Runtime& runtime, const Value& value) {
  return value.is_string() ? value : runtime.text(to_text(runtime, value));
}

}  // namespace strata::text::jinja
