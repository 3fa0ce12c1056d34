#include "server/fields.h"

#include <cmath>

#include "base/error.h"

namespace strata::server {

Fields::Fields(const Json& object, std::string where) : object_(object), where_(std::move(where)) {
  if (!object.is_object()) {
    const std::string what = where_.empty() ? "the request" : "'" + where_ + "'";
    throw FieldError(where_,
                     fmt::format("{} must be a JSON object, not {}", what, object.type_name()));
  }
}

std::string Fields::path_of(const std::string& name) const {
  return where_.empty() ? name : where_ + "." + name;
}

void Fields::refuse(const std::string& name, const std::string& what) const {
  const std::string field = path_of(name);
  throw FieldError(field, fmt::format("'{}' {}", field, what));
}

const Json* Fields::find(const std::string& name) {
  asked_.insert(name);
  const Json* value = object_.find(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

bool Fields::has(const std::string& name) { return find(name) != nullptr; }

std::optional<bool> Fields::boolean(const std::string& name) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_bool())
    refuse(name, fmt::format("must be true or false, not {}", value->type_name()));
  return value->as_bool();
}

std::optional<int64_t> Fields::integer(const std::string& name, int64_t min, int64_t max) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  int64_t number = 0;
  if (value->is_int()) {
    number = value->as_int();
  } else if (value->is_real() && std::floor(value->as_real()) == value->as_real() &&
             std::fabs(value->as_real()) < 9e15) {
    number = static_cast<int64_t>(value->as_real());
  } else {
    refuse(name, fmt::format("must be a whole number, not {}",
                             value->is_number() ? value->dump() : value->type_name()));
  }
  if (number < min || number > max) {
    refuse(name, fmt::format("is {}, but must lie from {} to {}", number, min, max));
  }
  return number;
}

std::optional<double> Fields::real(const std::string& name, double min, double max) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number())
    refuse(name, fmt::format("must be a number, not {}", value->type_name()));
  const double number = value->as_real();
  if (!(number >= min && number <= max)) {
    refuse(name, fmt::format("is {}, but must lie from {} to {}", number, min, max));
  }
  return number;
}

std::optional<std::string> Fields::string(const std::string& name) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string())
    refuse(name, fmt::format("must be a string, not {}", value->type_name()));
  return value->as_string();
}

std::vector<std::string> Fields::strings(const std::string& name, size_t most) {
  const Json* value = find(name);
  if (value == nullptr) return {};
  if (value->is_string()) return {value->as_string()};
  if (!value->is_array()) {
    refuse(name, fmt::format("must be a string or a list of strings, not {}", value->type_name()));
  }
  std::vector<std::string> out;
  for (const Json& one : value->as_array()) {
    if (!one.is_string())
      refuse(name, fmt::format("must hold strings only, not {}", one.type_name()));
    out.push_back(one.as_string());
  }
  if (out.size() > most)
    refuse(name, fmt::format("holds {} strings, at most {} are taken", out.size(), most));
  return out;
}

const Json* Fields::object(const std::string& name) {
  const Json* value = find(name);
  if (value != nullptr && !value->is_object()) {
    refuse(name, fmt::format("must be an object, not {}", value->type_name()));
  }
  return value;
}

const Json* Fields::list(const std::string& name) {
  const Json* value = find(name);
  if (value != nullptr && !value->is_array()) {
    refuse(name, fmt::format("must be a list, not {}", value->type_name()));
  }
  return value;
}

std::vector<std::string> Fields::unknown() const {
  std::vector<std::string> out;
  for (const auto& [name, value] : object_.as_object()) {
    if (!asked_.contains(name)) out.push_back(name);
  }
  return out;
}

}  // namespace strata::server
