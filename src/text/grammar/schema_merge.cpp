#include "text/grammar/schema_merge.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"

namespace strata::text::grammar {
namespace {

// A type or a list of them, as a list.
Json::Array as_list(const Json& value) {
  return value.is_array() ? value.as_array() : Json::Array{value};
}

bool holds(const Json::Array& list, const Json& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

Json merge_types(const Json& a, const Json& b) {
  const Json::Array right = as_list(b);
  Json::Array out;
  for (const Json& type : as_list(a)) {
    if (holds(right, type)) {
      out.push_back(type);
    } else if (type == Json("number") && holds(right, "integer")) {
      out.push_back("integer");
    } else if (type == Json("integer") && holds(right, "number")) {
      out.push_back("integer");
    }
  }
  return out.size() == 1 ? out[0] : Json(std::move(out));
}

// Both must hold; one that is a boolean decides alone.
Json both(const Json& a, const Json& b) {
  if (a == b) return a;
  for (const auto& [one, other] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    if (one->is_bool()) return one->as_bool() ? *other : *one;
  }
  return Json::object({{"allOf", Json(Json::Array{a, b})}});
}

void merge_properties(Json& base, const Json& extra, const std::string& path) {
  if (!base.is_object() || !extra.is_object()) {
    fail(ErrorCode::bad_request, "schema at {}: properties is not an object", path);
  }
  for (const auto& [name, schema] : extra.as_object()) {
    const Json* known = base.find(name);
    base.set(name, known == nullptr ? schema : both(*known, schema));
  }
}

}  // namespace

bool is_annotation(std::string_view keyword) {
  constexpr std::array<std::string_view, 16> all = {
      "title", "description", "default",  "examples",   "example",  "$schema",
      "$id",   "id",          "$comment", "deprecated", "readOnly", "writeOnly",
      "$defs", "definitions", "$anchor",  "strict"};
  return std::find(all.begin(), all.end(), keyword) != all.end();
}

bool is_of_type(const Json& value, std::string_view type) {
  if (type == "integer") {
    return value.is_int() || (value.is_real() && std::trunc(value.as_real()) == value.as_real());
  }
  if (type == "number") return value.is_number();
  if (type == "boolean") return value.is_bool();
  if (type == "string") return value.is_string();
  if (type == "null") return value.is_null();
  if (type == "array") return value.is_array();
  return type == "object" && value.is_object();
}

void merge_schema(Json& base, const Json& extra, const std::string& path) {
  for (const auto& [key, value] : extra.as_object()) {
    const Json* found = base.find(key);
    if (found == nullptr) {
      base.set(key, value);
      continue;
    }
    if (*found == value || is_annotation(key)) continue;
    const Json known = *found;
    if (key == "type") {
      base.set(key, merge_types(known, value));
    } else if (key == "properties") {
      Json merged = known;
      merge_properties(merged, value, path);
      base.set(key, std::move(merged));
    } else if ((key == "required" || key == "allOf") && known.is_array() && value.is_array()) {
      Json merged = known;
      for (const Json& item : value.as_array()) {
        if (!holds(merged.as_array(), item)) merged.push(item);
      }
      base.set(key, std::move(merged));
    } else if (key == "enum" && known.is_array() && value.is_array()) {
      Json merged = Json::array();
      for (const Json& item : known.as_array()) {
        if (holds(value.as_array(), item)) merged.push(item);
      }
      base.set(key, std::move(merged));
    } else if (key == "additionalProperties" || key == "items") {
      base.set(key, both(known, value));
    } else if (known.is_number() && value.is_number() &&
               (key.starts_with("min") || key == "exclusiveMinimum")) {
      base.set(key, known.as_real() > value.as_real() ? known : value);
    } else if (known.is_number() && value.is_number() &&
               (key.starts_with("max") || key == "exclusiveMaximum")) {
      base.set(key, known.as_real() < value.as_real() ? known : value);
    } else {
      fail(ErrorCode::bad_request,
           "schema at {}: two values of '{}' must hold at once, which is not supported; write one "
           "schema that says both",
           path, printable(key, 40));
    }
  }
}

}  // namespace strata::text::grammar
