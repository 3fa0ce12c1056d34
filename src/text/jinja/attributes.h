// a.b, a[b] and a[b:c:d], as jinja2's sandbox resolves them.
#pragma once

#include <optional>

#include "text/jinja/runtime.h"

namespace strata::text::jinja {

// The attribute first, then the item; undefined when there is neither.
Value get_attribute(Runtime& runtime, const Value& object, const String* name);
// The attribute only.
Value get_attribute_only(Runtime& runtime, const Value& object, const String* name);
// The item first, then (for a string key) the attribute.
Value get_item(Runtime& runtime, const Value& object, const Value& key);
// Bounds are integers or none.
Value get_slice(Runtime& runtime, const Value& object, const Value& start, const Value& stop,
                const Value& step);
// The method of this name, nullptr when the type has none.
const MethodDef* find_method(const Value& object, std::string_view name);

// Clips Python's slice bounds to a length; `count` items from `start` in steps of `step`.
struct SliceBounds {
  int64_t start = 0;
  int64_t stop = 0;
  int64_t step = 1;
  int64_t count = 0;
};
SliceBounds slice_bounds(Runtime& runtime, int64_t length, const Value& start, const Value& stop,
                         const Value& step);

// Tables of the built-in types, implemented in methods_*.cpp.
const MethodDef* find_string_method(std::string_view name);
const MethodDef* find_list_method(std::string_view name);
const MethodDef* find_tuple_method(std::string_view name);
const MethodDef* find_dict_method(std::string_view name);
const MethodDef* find_cycler_method(std::string_view name);
const MethodDef* find_range_method(std::string_view name);

// Walks "a.b.0" from a value, as the `attribute` of filters does. An integer key is one step.
class AttributePath {
 public:
  // `fallback` replaces what is undefined on the way; nullopt or none: stays undefined.
  AttributePath(Runtime& runtime, const Value& path, std::optional<Value> fallback = {});
  Value get(const Value& from) const;

 private:
  Runtime& runtime_;
  std::vector<Value> keys_;
  std::optional<Value> fallback_;
};

}  // namespace strata::text::jinja
