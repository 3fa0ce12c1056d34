#include "text/jinja/attributes.h"

#include <algorithm>

#include "text/jinja/ast.h"
#include "text/jinja/loop.h"
#include "text/jinja/operators.h"
#include "text/jinja/str.h"
#include "text/jinja/unicode.h"

namespace strata::text::jinja {
namespace {

Value missing_attribute(const Value& object, const String* name) {
  return Value::undefined(name, static_cast<uint8_t>(object.kind));
}

Value missing_item(Runtime& runtime, const Value& object, const Value& key) {
  if (key.is_string()) return missing_attribute(object, key.string_pointer());
  const std::string owner = object.is_none() ? "None" : std::string(type_name(object)) + " object";
  const Text shown = repr(runtime, key);
  return runtime.undefined(owner + " has no element " + shown.bytes());
}

std::optional<Value> macro_attribute(Runtime& runtime, const Macro& macro, std::string_view name) {
  const MacroNode& node = *macro.node;
  if (name == "name") {
    return node.name == nullptr ? Value::none() : Value::of(const_cast<String*>(node.name));
  }
  if (name == "arguments") {
    std::vector<Value> names;
    for (const MacroNode::Parameter& parameter : node.parameters) {
      names.push_back(Value::of(const_cast<String*>(parameter.name)));
    }
    return runtime.tuple(std::move(names));
  }
  if (name == "catch_kwargs") return Value::of(node.uses_kwargs);
  if (name == "catch_varargs") return Value::of(node.uses_varargs);
  if (name == "caller") return Value::of(node.uses_caller);
  return std::nullopt;
}

// Plain attributes: everything but methods.
std::optional<Value> data_attribute(Runtime& runtime, const Value& object, const String* name) {
  const std::string& key = name->text.bytes();
  switch (object.kind) {
    case Kind::space: {
      // The sandbox hides what begins with an underscore.
      if (!key.empty() && key[0] == '_') return std::nullopt;
      const Value* found = object.space().attributes->find(key);
      return found != nullptr ? std::optional<Value>(*found) : std::nullopt;
    }
    case Kind::loop:
      return loop_attribute(runtime, object.loop(), key);
    case Kind::macro:
      return macro_attribute(runtime, object.macro(), key);
    case Kind::tuple:
      if (object.list().group && key == "grouper") return object.list().items[0];
      if (object.list().group && key == "list") return object.list().items[1];
      return std::nullopt;
    case Kind::cycler:
      if (key == "current") return object.cycler().items[object.cycler().at];
      if (key == "items") return runtime.tuple(object.cycler().items);
      if (key == "pos") return Value::of(static_cast<int64_t>(object.cycler().at));
      return std::nullopt;
    case Kind::joiner:
      if (key == "sep") return object.joiner().separator;
      if (key == "used") return Value::of(object.joiner().used);
      return std::nullopt;
    case Kind::range:
      if (key == "start") return Value::of(object.range().start);
      if (key == "stop") return Value::of(object.range().stop);
      if (key == "step") return Value::of(object.range().step);
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

std::optional<Value> attribute_of(Runtime& runtime, const Value& object, const String* name) {
  if (const MethodDef* method = find_method(object, name->text.bytes())) {
    return Value::of(Kind::method, runtime.make<Method>(0, object, method));
  }
  return data_attribute(runtime, object, name);
}

// Position in a sequence of this length; false when it is outside.
bool resolve_index(int64_t index, int64_t length, int64_t& out) {
  out = index < 0 ? index + length : index;
  return out >= 0 && out < length;
}

std::optional<Value> item_of(Runtime& runtime, const Value& object, const Value& key) {
  int64_t at = 0;
  switch (object.kind) {
    case Kind::undefined:
      fail_undefined(runtime, object);
    case Kind::dict: {
      // A key that cannot be one is only a key that is not there.
      if (!is_hashable(runtime, key)) return std::nullopt;
      const Value* found = object.dict().find(key);
      return found != nullptr ? std::optional<Value>(*found) : std::nullopt;
    }
    case Kind::list:
    case Kind::tuple: {
      const auto& items = object.list().items;
      if (!key.is_integral() ||
          !resolve_index(key.as_integer(), static_cast<int64_t>(items.size()), at)) {
        return std::nullopt;
      }
      return items[static_cast<size_t>(at)];
    }
    case Kind::string: {
      const String& string = object.string();
      if (!key.is_integral() ||
          !resolve_index(key.as_integer(), static_cast<int64_t>(string.length), at)) {
        return std::nullopt;
      }
      auto begin = static_cast<size_t>(at);
      if (!string.ascii()) {
        runtime.work(string.text.size());
        begin = byte_offset(string.text.bytes(), begin);
      }
      size_t length = 0;
      code_point_at(string.text.bytes(), begin, length);
      return runtime.text(string.text.slice(begin, begin + length), object.is_markup());
    }
    case Kind::range:
      if (!key.is_integral() || !resolve_index(key.as_integer(), object.range().size, at)) {
        return std::nullopt;
      }
      return Value::of(object.range().at(at));
    default:
      return std::nullopt;
  }
}

Value slice_string(Runtime& runtime, const Value& object, const SliceBounds& bounds) {
  const String& string = object.string();
  const std::string& bytes = string.text.bytes();
  if (bounds.count == 0) return runtime.text(Text(), object.is_markup());
  runtime.work(bytes.size());
  const auto first = static_cast<size_t>(bounds.start);
  const auto count = static_cast<size_t>(bounds.count);
  if (bounds.step == 1) {
    const size_t begin = string.ascii() ? first : byte_offset(bytes, first);
    const size_t end = string.ascii()
                           ? first + count
                           : begin + byte_offset(std::string_view(bytes).substr(begin), count);
    return runtime.text(string.text.slice(begin, end), object.is_markup());
  }
  // Where every character begins.
  runtime.require_bytes(string.length * sizeof(size_t));
  runtime.step(count);
  std::vector<size_t> begins;
  begins.reserve(string.length + 1);
  size_t length = 0;
  for (size_t at = 0; at < bytes.size(); at += length) {
    begins.push_back(at);
    code_point_at(bytes, at, length);
  }
  begins.push_back(bytes.size());
  Text out;
  for (size_t i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(bounds.start + static_cast<int64_t>(i) * bounds.step);
    out.append(string.text, begins[at], begins[at + 1]);
  }
  return runtime.text(std::move(out), object.is_markup());
}

// start + index * step; saturates, which only an empty slice of a huge range can come to.
int64_t range_bound(const Range& range, int64_t index) {
  int64_t out = 0;
  if (__builtin_mul_overflow(index, range.step, &out) ||
      __builtin_add_overflow(out, range.start, &out)) {
    return (index < 0) == (range.step < 0) ? INT64_MAX : INT64_MIN;
  }
  return out;
}

Value slice_range(Runtime& runtime, const Range& from, const SliceBounds& bounds) {
  Range* out = runtime.make<Range>(0);
  out->start = range_bound(from, bounds.start);
  out->stop = range_bound(from, bounds.stop);
  // The product can only overflow where no second item is left to be reached.
  if (__builtin_mul_overflow(from.step, bounds.step, &out->step)) out->step = from.step;
  out->size = bounds.count;
  return Value::of(Kind::range, out);
}

int64_t bound_of(Runtime& runtime, const Value& value) {
  require_defined(runtime, value);
  if (!value.is_integral()) {
    runtime.fail("slice indices must be integers or none, not '{}'", type_name(value));
  }
  return value.as_integer();
}

}  // namespace

const MethodDef* find_method(const Value& object, std::string_view name) {
  switch (object.kind) {
    case Kind::string:
      return find_string_method(name);
    case Kind::list:
      return find_list_method(name);
    case Kind::tuple:
      return find_tuple_method(name);
    case Kind::dict:
      return find_dict_method(name);
    case Kind::loop:
      return find_loop_method(name);
    case Kind::cycler:
      return find_cycler_method(name);
    case Kind::range:
      return find_range_method(name);
    default:
      return nullptr;
  }
}

Value get_attribute(Runtime& runtime, const Value& object, const String* name) {
  require_defined(runtime, object);
  runtime.work(name->text.size() * 8);
  if (auto found = attribute_of(runtime, object, name)) return *found;
  if (object.is(Kind::dict)) {
    if (const Value* found = object.dict().find(name->text.bytes())) return *found;
  }
  return missing_attribute(object, name);
}

Value get_attribute_only(Runtime& runtime, const Value& object, const String* name) {
  require_defined(runtime, object);
  if (auto found = attribute_of(runtime, object, name)) return *found;
  return missing_attribute(object, name);
}

Value get_item(Runtime& runtime, const Value& object, const Value& key) {
  if (auto found = item_of(runtime, object, key)) return *found;
  if (key.is_string()) {
    if (auto found = attribute_of(runtime, object, key.string_pointer())) return *found;
  }
  return missing_item(runtime, object, key);
}

SliceBounds slice_bounds(Runtime& runtime, int64_t length, const Value& start, const Value& stop,
                         const Value& step) {
  SliceBounds out;
  out.step = step.is_none() ? 1 : bound_of(runtime, step);
  if (out.step == 0) runtime.fail("slice step cannot be zero");
  // Far beyond any length, and safe to negate and to multiply.
  out.step = std::clamp<int64_t>(out.step, -INT32_MAX, INT32_MAX);
  const bool back = out.step < 0;
  const int64_t lowest = back ? -1 : 0;
  const int64_t highest = back ? length - 1 : length;
  const auto clip = [&](const Value& value, int64_t fallback) {
    if (value.is_none()) return fallback;
    int64_t at = bound_of(runtime, value);
    if (at < 0) at = at < -length ? -1 : at + length;
    if (at < 0) return lowest;
    return std::min(at, highest);
  };
  out.start = clip(start, back ? highest : lowest);
  const int64_t end = clip(stop, back ? lowest : highest);
  out.stop = end;
  if (back) {
    out.count = out.start > end ? (out.start - end - 1) / -out.step + 1 : 0;
  } else {
    out.count = out.start < end ? (end - out.start - 1) / out.step + 1 : 0;
  }
  return out;
}

Value get_slice(Runtime& runtime, const Value& object, const Value& start, const Value& stop,
                const Value& step) {
  require_defined(runtime, object);
  int64_t length = 0;
  switch (object.kind) {
    case Kind::string:
    case Kind::list:
    case Kind::tuple:
    case Kind::range:
      find_length(object, length);
      break;
    default:
      runtime.fail("'{}' object cannot be sliced", type_name(object));
  }
  const SliceBounds bounds = slice_bounds(runtime, length, start, stop, step);
  if (object.is_string()) return slice_string(runtime, object, bounds);
  if (object.is(Kind::range)) return slice_range(runtime, object.range(), bounds);
  runtime.require_bytes(static_cast<uint64_t>(bounds.count) * sizeof(Value));
  runtime.step(static_cast<uint64_t>(bounds.count) / 16);
  std::vector<Value> items;
  items.reserve(static_cast<size_t>(bounds.count));
  for (int64_t i = 0; i < bounds.count; ++i) {
    items.push_back(object.list().items[static_cast<size_t>(bounds.start + i * bounds.step)]);
  }
  return object.is(Kind::list) ? runtime.list(std::move(items)) : runtime.tuple(std::move(items));
}

AttributePath::AttributePath(Runtime& runtime, const Value& path, std::optional<Value> fallback)
    : runtime_(runtime), fallback_(std::move(fallback)) {
  if (fallback_ && fallback_->is_none()) fallback_.reset();
  if (path.is_none()) return;
  if (!path.is_string()) {
    keys_.push_back(path);
    return;
  }
  const Text& text = path.string().text;
  size_t begin = 0;
  while (true) {
    const size_t dot = text.bytes().find('.', begin);
    const size_t end = dot == std::string::npos ? text.size() : dot;
    const std::string_view part = std::string_view(text.bytes()).substr(begin, end - begin);
    int64_t index = 0;
    const bool digits = !part.empty() && std::all_of(part.begin(), part.end(),
                                                     [](char c) { return c >= '0' && c <= '9'; });
    if (digits && parse_integer(part, 10, index) == ParsedInteger::ok) {
      keys_.push_back(Value::of(index));
    } else {
      keys_.push_back(runtime.text(text.slice(begin, end)));
    }
    if (dot == std::string::npos) return;
    begin = dot + 1;
  }
}

Value AttributePath::get(const Value& from) const {
  Value value = from;
  for (const Value& key : keys_) {
    runtime_.step();
    value = get_item(runtime_, value, key);
    if (fallback_ && value.is_undefined()) value = *fallback_;
  }
  return value;
}

}  // namespace strata::text::jinja
