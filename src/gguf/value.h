// Metadata of a GGUF file: typed values under unique keys, in file order.
//
// Purpose: hold what a file says and give it out in the type the reader wants, where that loses
// nothing; otherwise an error that names the key, the type found and the type wanted.
// Ownership: values own their bytes; views returned point into the Metadata.
// Threads: constant after construction, readable from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace strata::gguf {

// The values are the ids used in files.
enum class ValueType : uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12,
};

const char* name_of(ValueType type);

// One element type each; booleans are stored as bytes. The vector's type tells the element type,
// except for booleans, hence the distinct struct.
struct BoolArray {
  std::vector<uint8_t> values;
  bool operator==(const BoolArray&) const = default;
};
using Array = std::variant<std::vector<uint8_t>, std::vector<int8_t>, std::vector<uint16_t>,
                           std::vector<int16_t>, std::vector<uint32_t>, std::vector<int32_t>,
                           std::vector<float>, BoolArray, std::vector<std::string>,
                           std::vector<uint64_t>, std::vector<int64_t>, std::vector<double>>;
using Value = std::variant<uint8_t, int8_t, uint16_t, int16_t, uint32_t, int32_t, float, bool,
                           std::string, Array, uint64_t, int64_t, double>;

ValueType type_of(const Value& value);
ValueType element_type_of(const Array& array);
uint64_t size_of(const Array& array);

// The value as an unsigned integer, where that loses nothing.
std::optional<uint64_t> to_uint(const Value& value);

// One line for people: strings quoted, escaped and cut after `max_chars`, arrays by their first
// elements and their count.
std::string to_display(const Value& value, size_t max_chars = 60);

class Metadata {
 public:
  static constexpr uint64_t k_max_layers = 65536;

  struct Entry {
    std::string key;
    Value value;
  };

  // Where the metadata come from (a path), for messages; empty when they were made here.
  void set_origin(std::string origin) { origin_ = std::move(origin); }

  const std::vector<Entry>& entries() const { return entries_; }
  const Value* find(std::string_view key) const;
  bool has(std::string_view key) const { return find(key) != nullptr; }

  // Adds at the end; a key that exists is replaced in place.
  void set(std::string key, Value value);

  // find_*: nullopt when the key is absent. get_*: an absent key is ErrorCode::bad_file that names
  // it. Both: a value that cannot be had in the type asked for without loss is ErrorCode::bad_file.
  // Any integer width and sign converts when the value fits; integers convert to reals that hold
  // them exactly; booleans and the integers 0 and 1 convert to each other.
  std::optional<uint64_t> find_uint(std::string_view key) const;
  std::optional<int64_t> find_int(std::string_view key) const;
  std::optional<double> find_real(std::string_view key) const;
  std::optional<bool> find_bool(std::string_view key) const;
  std::optional<std::string_view> find_string(std::string_view key) const;
  uint64_t get_uint(std::string_view key) const;
  double get_real(std::string_view key) const;
  std::string_view get_string(std::string_view key) const;

  // Arrays; nullptr / nullopt when absent. A scalar is not an array. Elements convert as scalars
  // do; an empty array is an empty array of any type.
  const std::vector<std::string>* find_strings(std::string_view key) const;
  std::optional<std::vector<int64_t>> find_ints(std::string_view key) const;
  std::optional<std::vector<float>> find_reals(std::string_view key) const;

  // A scalar repeated `count` times, or an array of exactly `count` integers. `count` above
  // k_max_layers is ErrorCode::bad_file.
  std::optional<std::vector<uint64_t>> find_uint_per_layer(std::string_view key,
                                                           uint64_t count) const;

 private:
  [[noreturn]] void fail_conversion(std::string_view key, const Value& value,
                                    const char* wanted) const;
  [[noreturn]] void fail_absent(std::string_view key, const char* wanted) const;
  std::string message_start() const;

  std::string origin_;
  std::vector<Entry> entries_;
  // A tree, not a hash table: keys come from files, and nobody can make a tree slow.
  std::map<std::string, size_t, std::less<>> index_;
};

}  // namespace strata::gguf
