// JSON values at the borders of rooms: ordered objects, exact 64-bit integers.
//
// Purpose: our own value type, so that no other room sees the library that parses.
// Errors: parse throws ErrorCode::bad_request with the byte offset and reason. Nesting is limited.
// Ownership: a value owns everything below it; copying is deep.
// Threads: as a standard container.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace strata {

class Json {
 public:
  using Array = std::vector<Json>;
  using Member = std::pair<std::string, Json>;
  using Object = std::vector<Member>;  // in order of appearance, keys unique

  Json() = default;  // null
  Json(std::nullptr_t) {}
  Json(bool value) : value_(value) {}
  Json(int value) : value_(int64_t{value}) {}
  Json(int64_t value) : value_(value) {}
  Json(uint32_t value) : value_(int64_t{value}) {}
  Json(uint64_t value);  // above the int64 range it becomes a real
  Json(double value) : value_(value) {}
  Json(const char* value) : value_(std::string(value)) {}
  Json(std::string_view value) : value_(std::string(value)) {}
  Json(std::string value) : value_(std::move(value)) {}
  Json(Array value) : value_(std::move(value)) {}

  static Json array() { return Json(Array{}); }
  static Json object();
  static Json object(std::initializer_list<Member> members);

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_int() const { return std::holds_alternative<int64_t>(value_); }
  bool is_real() const { return std::holds_alternative<double>(value_); }
  bool is_number() const { return is_int() || is_real(); }
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_array() const { return std::holds_alternative<Array>(value_); }
  bool is_object() const { return std::holds_alternative<Object>(value_); }
  const char* type_name() const;  // "null", "boolean", "integer", "number", "string", ...

  // The wrong type is ErrorCode::bad_request.
  bool as_bool() const;
  int64_t as_int() const;
  double as_real() const;  // also from an integer
  const std::string& as_string() const;
  const Array& as_array() const;
  Array& as_array();
  const Object& as_object() const;
  Object& as_object();

  // Object access: nullptr when absent or not an object.
  const Json* find(std::string_view key) const;
  // Adds or replaces a member (a null value becomes an object first).
  Json& set(std::string key, Json value);
  // Appends (a null value becomes an array first).
  Json& push(Json value);

  bool operator==(const Json& other) const = default;

  // Compact when indent < 0. Invalid UTF-8 is replaced; non-finite reals are written as null;
  // non-ASCII characters are written as themselves.
  std::string dump(int indent = -1) const;
  static Json parse(std::string_view text, uint32_t max_depth = 200);

 private:
  std::variant<std::monostate, bool, int64_t, double, std::string, Array, Object> value_;
};

}  // namespace strata
