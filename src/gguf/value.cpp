#include "gguf/value.h"

#include <limits>
#include <type_traits>
#include <utility>

#include "base/error.h"

namespace strata::gguf {
namespace {

template <class T>
constexpr bool is_integer_v = std::is_integral_v<T> && !std::is_same_v<T, bool>;

// Whether a double holds the integer exactly. The bound keeps the conversion back defined.
template <class Int>
bool exact_in_double(Int value) {
  const double real = static_cast<double>(value);
  const double bound = std::is_signed_v<Int> ? 0x1p63 : 0x1p64;
  return real < bound && static_cast<Int>(real) == value;
}

bool exact_in_float(double value) {
  if (value != value) return true;
  const double limit = static_cast<double>(std::numeric_limits<float>::max());
  const bool infinite = value - value != 0;
  if (!infinite && (value > limit || value < -limit)) return false;
  return static_cast<double>(static_cast<float>(value)) == value;
}

template <class T>
std::optional<uint64_t> scalar_to_uint(const T& value) {
  if constexpr (std::is_integral_v<T>) {
    if constexpr (std::is_signed_v<T>) {
      if (value < 0) return std::nullopt;
    }
    return static_cast<uint64_t>(value);
  } else {
    return std::nullopt;
  }
}

template <class T>
std::optional<int64_t> scalar_to_int(const T& value) {
  if constexpr (std::is_same_v<T, uint64_t>) {
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
    return static_cast<int64_t>(value);
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<int64_t>(value);
  } else {
    return std::nullopt;
  }
}

template <class T>
std::optional<double> scalar_to_real(const T& value) {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<double>(value);
  } else if constexpr (is_integer_v<T>) {
    if (!exact_in_double(value)) return std::nullopt;
    return static_cast<double>(value);
  } else {
    return std::nullopt;
  }
}

template <class T>
std::optional<bool> scalar_to_bool(const T& value) {
  if constexpr (std::is_integral_v<T>) {
    if (value == T{0}) return false;
    if (value == T{1}) return true;
  }
  return std::nullopt;
}

// "u32 7", "the array [1, 2] (2 i32)"
std::string describe(const Value& value) {
  const std::string shown = to_display(value, 40);
  if (std::holds_alternative<Array>(value)) return "the array " + shown;
  return fmt::format("{} {}", name_of(type_of(value)), shown);
}

constexpr const char* k_want_uint = "a non-negative integer";
constexpr const char* k_want_int = "an integer that fits 64 bits";
constexpr const char* k_want_real = "a number";
constexpr const char* k_want_bool = "a boolean";
constexpr const char* k_want_string = "a string";

// Calls `visit` on every element of the array in turn, as its own type (booleans as bool), until
// it says false.
template <class Visit>
bool each_element(const Array& array, Visit visit) {
  return std::visit(
      [&](const auto& held) {
        using Held = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<Held, BoolArray>) {
          for (const uint8_t value : held.values) {
            if (!visit(value != 0)) return false;
          }
        } else {
          for (const auto& value : held) {
            if (!visit(value)) return false;
          }
        }
        return true;
      },
      array);
}

}  // namespace

const char* name_of(ValueType type) {
  switch (type) {
    case ValueType::u8:
      return "u8";
    case ValueType::i8:
      return "i8";
    case ValueType::u16:
      return "u16";
    case ValueType::i16:
      return "i16";
    case ValueType::u32:
      return "u32";
    case ValueType::i32:
      return "i32";
    case ValueType::f32:
      return "f32";
    case ValueType::boolean:
      return "bool";
    case ValueType::string:
      return "string";
    case ValueType::array:
      return "array";
    case ValueType::u64:
      return "u64";
    case ValueType::i64:
      return "i64";
    case ValueType::f64:
      return "f64";
  }
  return "unknown";
}

// The variants list their alternatives in the order of the ids; Array leaves out `array` itself.
ValueType type_of(const Value& value) {
  static_assert(std::is_same_v<std::variant_alternative_t<9, Value>, Array>);
  static_assert(std::is_same_v<std::variant_alternative_t<12, Value>, double>);
  return static_cast<ValueType>(value.index());
}

ValueType element_type_of(const Array& array) {
  static_assert(std::is_same_v<std::variant_alternative_t<8, Array>, std::vector<std::string>>);
  static_assert(std::is_same_v<std::variant_alternative_t<9, Array>, std::vector<uint64_t>>);
  const size_t index = array.index();
  return static_cast<ValueType>(index < 9 ? index : index + 1);
}

uint64_t size_of(const Array& array) {
  return std::visit(
      [](const auto& held) -> uint64_t {
        if constexpr (std::is_same_v<std::decay_t<decltype(held)>, BoolArray>) {
          return held.values.size();
        } else {
          return held.size();
        }
      },
      array);
}

std::optional<uint64_t> to_uint(const Value& value) {
  return std::visit([](const auto& held) { return scalar_to_uint(held); }, value);
}

const Value* Metadata::find(std::string_view key) const {
  const auto at = index_.find(key);
  return at == index_.end() ? nullptr : &entries_[at->second].value;
}

void Metadata::set(std::string key, Value value) {
  const auto [at, added] = index_.try_emplace(key, entries_.size());
  if (added) {
    entries_.push_back({std::move(key), std::move(value)});
  } else {
    entries_[at->second].value = std::move(value);
  }
}

std::string Metadata::message_start() const {
  return origin_.empty() ? std::string() : fmt::format("'{}': ", printable(origin_, 400));
}

void Metadata::fail_conversion(std::string_view key, const Value& value, const char* wanted) const {
  fail(ErrorCode::bad_file,
       "{}metadata key '{}' is {}, but {} is needed; the file is damaged or from a faulty "
       "converter",
       message_start(), printable(key), describe(value), wanted);
}

void Metadata::fail_absent(std::string_view key, const char* wanted) const {
  fail(ErrorCode::bad_file,
       "{}metadata key '{}' ({}) is missing; the file is incomplete or not of the kind expected "
       "here",
       message_start(), printable(key), wanted);
}

std::optional<uint64_t> Metadata::find_uint(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto out = to_uint(*value);
  if (!out) fail_conversion(key, *value, k_want_uint);
  return out;
}

std::optional<int64_t> Metadata::find_int(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto out = std::visit([](const auto& held) { return scalar_to_int(held); }, *value);
  if (!out) fail_conversion(key, *value, k_want_int);
  return out;
}

std::optional<double> Metadata::find_real(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto out = std::visit([](const auto& held) { return scalar_to_real(held); }, *value);
  if (!out) fail_conversion(key, *value, k_want_real);
  return out;
}

std::optional<bool> Metadata::find_bool(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto out = std::visit([](const auto& held) { return scalar_to_bool(held); }, *value);
  if (!out) fail_conversion(key, *value, k_want_bool);
  return out;
}

std::optional<std::string_view> Metadata::find_string(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  const std::string* text = std::get_if<std::string>(value);
  if (text == nullptr) fail_conversion(key, *value, k_want_string);
  return std::string_view(*text);
}

uint64_t Metadata::get_uint(std::string_view key) const {
  const auto out = find_uint(key);
  if (!out) fail_absent(key, k_want_uint);
  return *out;
}

double Metadata::get_real(std::string_view key) const {
  const auto out = find_real(key);
  if (!out) fail_absent(key, k_want_real);
  return *out;
}

std::string_view Metadata::get_string(std::string_view key) const {
  const auto out = find_string(key);
  if (!out) fail_absent(key, k_want_string);
  return *out;
}

const std::vector<std::string>* Metadata::find_strings(std::string_view key) const {
  static const std::vector<std::string> k_none;
  const Value* value = find(key);
  if (value == nullptr) return nullptr;
  if (const Array* array = std::get_if<Array>(value)) {
    if (const auto* strings = std::get_if<std::vector<std::string>>(array)) return strings;
    if (size_of(*array) == 0) return &k_none;
  }
  fail_conversion(key, *value, "an array of strings");
}

std::optional<std::vector<int64_t>> Metadata::find_ints(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  const Array* array = std::get_if<Array>(value);
  std::vector<int64_t> out;
  const auto take = [&out](const auto& element) {
    const auto converted = scalar_to_int(element);
    if (converted) out.push_back(*converted);
    return converted.has_value();
  };
  if (array == nullptr || !each_element(*array, take)) {
    fail_conversion(key, *value, "an array of integers");
  }
  return out;
}

std::optional<std::vector<float>> Metadata::find_reals(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  const Array* array = std::get_if<Array>(value);
  std::vector<float> out;
  const auto take = [&out](const auto& element) {
    const auto real = scalar_to_real(element);
    if (!real || !exact_in_float(*real)) return false;
    out.push_back(static_cast<float>(*real));
    return true;
  };
  if (array == nullptr || !each_element(*array, take)) {
    fail_conversion(key, *value, "an array of numbers that single precision holds");
  }
  return out;
}

std::optional<std::vector<uint64_t>> Metadata::find_uint_per_layer(std::string_view key,
                                                                   uint64_t count) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (count > k_max_layers) {
    fail(ErrorCode::bad_file,
         "{}metadata key '{}' is wanted for {} layers; more than {} are not "
         "supported",
         message_start(), printable(key), count, k_max_layers);
  }
  const Array* array = std::get_if<Array>(value);
  if (array == nullptr) {
    const auto one = to_uint(*value);
    if (!one) fail_conversion(key, *value, "a non-negative integer or one per layer");
    return std::vector<uint64_t>(count, *one);
  }
  if (size_of(*array) != count) {
    fail(ErrorCode::bad_file,
         "{}metadata key '{}' has {} values, but {} are needed, one per layer; "
         "the file is damaged or from a faulty converter",
         message_start(), printable(key), size_of(*array), count);
  }
  std::vector<uint64_t> out;
  const auto take = [&out](const auto& element) {
    const auto converted = scalar_to_uint(element);
    if (converted) out.push_back(*converted);
    return converted.has_value();
  };
  if (!each_element(*array, take)) {
    fail_conversion(key, *value, "a non-negative integer or one per layer");
  }
  return out;
}

}  // namespace strata::gguf
