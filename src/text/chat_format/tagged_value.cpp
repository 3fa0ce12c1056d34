#include "text/chat_format/tagged_value.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "text/chat_format/chat_format.h"

namespace strata::text {
namespace {

enum : unsigned {
  k_string = 1,
  k_number = 2,  // not whole
  k_integer = 4,
  k_boolean = 8,
  k_null = 16,
  k_object = 32,
  k_array = 64,
  k_all = 127
};
constexpr int k_max_depth = 16;

unsigned type_of(const Json& value) {
  if (value.is_string()) return k_string;
  if (value.is_int()) return k_integer;
  if (value.is_real()) return std::floor(value.as_real()) == value.as_real() ? k_integer : k_number;
  if (value.is_bool()) return k_boolean;
  if (value.is_null()) return k_null;
  return value.is_object() ? k_object : k_array;
}

unsigned type_named(std::string_view name) {
  if (name == "string") return k_string;
  if (name == "number") return k_number | k_integer;
  if (name == "integer") return k_integer;
  if (name == "boolean") return k_boolean;
  if (name == "null") return k_null;
  if (name == "object") return k_object;
  if (name == "array") return k_array;
  return 0;
}

const Json* list_of(const Json& schema, std::string_view key) {
  const Json* list = schema.find(key);
  return list != nullptr && list->is_array() ? list : nullptr;
}

unsigned types_of(const Json& schema, const Json& document, int depth) {
  if (depth > k_max_depth || !schema.is_object()) return k_all;
  const Json* target = resolve_reference(schema, document);
  if (target == nullptr) return k_all;
  unsigned out = k_all;
  if (target != &schema) out &= types_of(*target, document, depth + 1);
  if (const Json* type = schema.find("type")) {
    unsigned named = 0;
    if (type->is_string()) named = type_named(type->as_string());
    if (type->is_array()) {
      for (const Json& one : type->as_array()) {
        if (one.is_string()) named |= type_named(one.as_string());
      }
    }
    if (named != 0) out &= named;
  }
  if (const Json* value = schema.find("const")) out &= type_of(*value);
  if (const Json* values = list_of(schema, "enum")) {
    unsigned any = 0;
    for (const Json& one : values->as_array()) any |= type_of(one);
    if (any != 0) out &= any;
  }
  for (const char* key : {"anyOf", "oneOf"}) {
    const Json* choices = list_of(schema, key);
    if (choices == nullptr) continue;
    unsigned any = 0;
    for (const Json& one : choices->as_array()) any |= types_of(one, document, depth + 1);
    out &= any;
  }
  if (const Json* all = list_of(schema, "allOf")) {
    for (const Json& one : all->as_array()) out &= types_of(one, document, depth + 1);
  }
  return out;
}

// Only types and choices between them: whatever is of a type is a value.
bool is_free(const Json& schema, int depth) {
  if (depth > k_max_depth || !schema.is_object()) return schema.is_bool();
  for (const auto& [key, value] : schema.as_object()) {
    if (key == "anyOf" || key == "oneOf") {
      if (!value.is_array()) return false;
      for (const Json& one : value.as_array()) {
        if (!is_free(one, depth + 1)) return false;
      }
    } else if (key != "type" && key != "description" && key != "title" && key != "default" &&
               key != "examples") {
      return false;
    }
  }
  return true;
}

// All strings that the schema allows, when it is a plain list of them.
bool list_strings(const Json& schema, std::vector<std::string>& out, int depth) {
  if (depth > k_max_depth || !schema.is_object()) return false;
  bool listed = false;
  for (const auto& [key, value] : schema.as_object()) {
    if (key == "const") {
      if (!value.is_string()) return false;
      out.push_back(value.as_string());
      listed = true;
    } else if (key == "enum" && value.is_array()) {
      for (const Json& one : value.as_array()) {
        if (one.is_string()) out.push_back(one.as_string());
      }
      listed = !out.empty();
    } else if ((key == "anyOf" || key == "oneOf") && value.is_array()) {
      for (const Json& one : value.as_array()) {
        if (!list_strings(one, out, depth + 1)) return false;
      }
      listed = true;
    } else if (key != "type" && key != "description" && key != "title" && key != "default" &&
               key != "examples") {
      return false;
    }
  }
  return listed;
}

std::optional<uint64_t> length_of(const Json& schema, const char* key) {
  const Json* value = schema.find(key);
  if (value == nullptr || !value->is_int() || value->as_int() < 0) return std::nullopt;
  return static_cast<uint64_t>(value->as_int());
}

std::optional<Json> parse(std::string_view text) {
  try {
    return Json::parse(text, 100);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

const Json* resolve_reference(const Json& schema, const Json& document) {
  const Json* at = &schema;
  for (int hops = 0; hops < k_max_depth; ++hops) {
    const Json* reference = at->find("$ref");
    if (reference == nullptr) return at;
    if (!reference->is_string()) return nullptr;
    const std::string& path = reference->as_string();
    if (path.empty() || path[0] != '#') return nullptr;
    at = &document;
    for (size_t begin = 1; begin < path.size();) {
      if (path[begin] != '/') return nullptr;
      const size_t end = std::min(path.find('/', begin + 1), path.size());
      std::string key;
      for (size_t i = begin + 1; i < end; ++i) {
        const bool escape =
            path[i] == '~' && i + 1 < end && (path[i + 1] == '0' || path[i + 1] == '1');
        key += escape ? (path[++i] == '0' ? '~' : '/') : path[i];
      }
      at = at->find(key);
      if (at == nullptr) return nullptr;
      begin = end;
    }
  }
  return nullptr;
}

TaggedValue::TaggedValue(const Json& schema, const Json& document) {
  const Json* target = resolve_reference(schema, document);
  const Json& plain = target != nullptr ? *target : schema;
  types_ = types_of(schema, document, 0);
  any_text_ =
      (types_ & ~(k_string | k_number | k_integer | k_boolean | k_null)) == 0 && is_free(plain, 0);
  if (types_ == k_all && plain.is_object() && plain.as_object().empty()) any_text_ = true;
  if ((types_ & k_string) == 0) {
    kind_ = Kind::json;
  } else if (types_ != k_string) {
    kind_ = Kind::mixed;
  } else {
    kind_ = Kind::text;
    for (const char* key : {"enum", "const", "pattern", "format", "anyOf", "oneOf", "allOf"}) {
      if (plain.find(key) != nullptr) kind_ = Kind::choice;
    }
    if (kind_ == Kind::choice && !list_strings(plain, strings_, 0)) strings_.clear();
    if (kind_ == Kind::text) {
      min_length_ = length_of(plain, "minLength");
      max_length_ = length_of(plain, "maxLength");
    }
  }
}

std::string TaggedValue::json_of(std::string_view written) const {
  const std::string_view inner = trimmed(written);
  const auto as_string = [&] { return Json(written).dump(); };
  const auto listed = [&](std::string_view text) {
    return std::find(strings_.begin(), strings_.end(), text) != strings_.end();
  };
  switch (kind_) {
    case Kind::text:
      return as_string();
    case Kind::choice: {
      if (listed(written)) return as_string();
      if (listed(inner)) return Json(inner).dump();
      const std::optional<Json> value = parse(inner);
      return value && value->is_string() ? value->dump() : as_string();
    }
    case Kind::json:
    case Kind::mixed:
      break;
  }
  // As templates that print values by Python's rules show them.
  if (inner == "True" && (types_ & k_boolean) != 0) return "true";
  if (inner == "False" && (types_ & k_boolean) != 0) return "false";
  if (inner == "None" && (types_ & k_null) != 0) return "null";
  const std::optional<Json> value = parse(inner);
  if (!value) return as_string();
  if (kind_ == Kind::mixed && (type_of(*value) & types_) == 0) return as_string();
  return std::string(inner);
}

}  // namespace strata::text
