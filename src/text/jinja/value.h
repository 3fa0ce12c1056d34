// Values of a template: Python's, as far as templates see them.
//
// Ownership: a Value is a small copyable handle. What it points to belongs to a Heap (that of one
// rendering, or that of the parsed template for its constants) and lives as long as the heap does,
// so cycles and deep nesting need no care. Freeing is not recursive.
// Threads: strings are immutable; everything else belongs to one rendering.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/text.h"

namespace strata::text::jinja {

class Runtime;
struct FunctionDef;
struct MethodDef;
struct MacroNode;
struct Scope;

enum class Kind : uint8_t {
  undefined,
  none,
  boolean,
  integer,
  real,
  string,
  list,
  tuple,
  dict,
  view,      // of a dict: keys(), values(), items()
  range,     // range(...)
  space,     // namespace(...)
  loop,      // the variable `loop`
  macro,     // macro or caller
  function,  // global function
  method,    // bound method
  cycler,
  joiner,
  iterator,  // can be walked once: what map, select and the like give
};

struct Object {
  virtual ~Object() = default;
};

struct String;
struct List;
struct Dict;
struct View;
struct Range;
struct Space;
struct Loop;
struct Macro;
struct Method;
struct Cycler;
struct Joiner;
struct Iterator;

struct Value {
  // What `detail` says of an undefined value: how its `string()` is to be read.
  static constexpr uint8_t k_undefined_name = 255;     // the name of a variable
  static constexpr uint8_t k_undefined_message = 254;  // a whole message
  // Otherwise: the kind of the object that lacks an attribute of this name.

  Kind kind = Kind::none;
  uint8_t detail = 0;  // for strings: 1 when marked as safe HTML
  union {
    bool boolean;
    int64_t integer = 0;
    double real;
    Object* object;
    const FunctionDef* function;
  };

  static Value none() { return {}; }
  static Value of(bool value) {
    Value out;
    out.kind = Kind::boolean;
    out.boolean = value;
    return out;
  }
  static Value of(int64_t value) {
    Value out;
    out.kind = Kind::integer;
    out.integer = value;
    return out;
  }
  static Value of(double value) {
    Value out;
    out.kind = Kind::real;
    out.real = value;
    return out;
  }
  static Value of(const FunctionDef* value) {
    Value out;
    out.kind = Kind::function;
    out.function = value;
    return out;
  }
  static Value of(Kind kind, Object* object, uint8_t detail = 0) {
    Value out;
    out.kind = kind;
    out.detail = detail;
    out.object = object;
    return out;
  }
  static Value of(String* value, bool markup = false);
  static Value undefined(const String* name, uint8_t detail);

  bool is(Kind other) const { return kind == other; }
  bool is_string() const { return kind == Kind::string; }
  bool is_undefined() const { return kind == Kind::undefined; }
  bool is_none() const { return kind == Kind::none; }
  bool is_markup() const { return kind == Kind::string && detail != 0; }
  bool is_sequence() const { return kind == Kind::list || kind == Kind::tuple; }
  // Booleans are integers, as in Python.
  bool is_integral() const { return kind == Kind::integer || kind == Kind::boolean; }
  bool is_number() const { return is_integral() || kind == Kind::real; }
  int64_t as_integer() const { return kind == Kind::boolean ? int64_t{boolean} : integer; }
  double as_real() const { return kind == Kind::real ? real : static_cast<double>(as_integer()); }

  // Valid for the kind only.
  const String& string() const;
  const String* string_pointer() const { return &string(); }
  const std::string& bytes() const;
  List& list() const;  // list or tuple
  Dict& dict() const;
  View& view() const;
  Range& range() const;
  Space& space() const;
  Loop& loop() const;
  Macro& macro() const;
  Method& method() const;
  Cycler& cycler() const;
  Joiner& joiner() const;
  Iterator& iterator() const;
};

struct String final : Object {
  explicit String(Text value);
  const Text text;
  const size_t length;  // in code points
  bool ascii() const { return length == text.size(); }
};

struct List final : Object {
  List() = default;
  explicit List(std::vector<Value> values, bool is_group = false)
      : items(std::move(values)), group(is_group) {}
  std::vector<Value> items;
  bool group = false;  // a tuple made by groupby: has .grouper and .list
};

// Order total over the keys that hashable() accepts; equal exactly where Python finds them equal.
struct KeyLess {
  bool operator()(const Value& a, const Value& b) const { return compare(a, b) < 0; }
  static int compare(const Value& a, const Value& b);
};

// In order of insertion. Keys must be hashable: check with hashable() before.
struct Dict final : Object {
  struct Entry {
    Value key;
    Value value;
    bool live = true;
  };

  size_t size() const { return live_; }
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  // An existing key keeps its place and its own spelling.
  void set(const Value& key, const Value& value);
  bool erase(const Value& key);
  void clear();
  // Entries with `live` set, in order; the others are to be skipped.
  const std::vector<Entry>& entries() const { return entries_; }
  // Grows with every insertion and removal: an iterator can tell that the dict has changed.
  uint64_t version() const { return version_; }

  // Rough size of one entry with its index.
  static constexpr size_t k_entry_cost = 112;

 private:
  size_t position(const Value& key) const;
  void compact();

  std::vector<Entry> entries_;
  std::map<Value, size_t, KeyLess> index_;  // used once there are more than a few entries
  size_t live_ = 0;
  uint64_t version_ = 0;
};

struct View final : Object {
  enum class Part : uint8_t { keys, values, items };
  View(Dict* of, Part which) : dict(of), part(which) {}
  Dict* dict;
  Part part;
};

struct Range final : Object {
  int64_t start = 0;
  int64_t stop = 0;
  int64_t step = 1;
  int64_t size = 0;
  // Unsigned on the way: from one end of the integers to the other the product does not fit.
  int64_t at(int64_t index) const {
    return static_cast<int64_t>(static_cast<uint64_t>(start) +
                                static_cast<uint64_t>(index) * static_cast<uint64_t>(step));
  }
  // Place of a number that lies between the ends; false when it is between two items.
  bool find(int64_t number, int64_t& index) const {
    const bool up = step > 0;
    const uint64_t distance = up ? static_cast<uint64_t>(number) - static_cast<uint64_t>(start)
                                 : static_cast<uint64_t>(start) - static_cast<uint64_t>(number);
    const uint64_t stride = up ? static_cast<uint64_t>(step) : ~static_cast<uint64_t>(step) + 1;
    index = static_cast<int64_t>(distance / stride);
    return distance % stride == 0;
  }
};

struct Space final : Object {
  explicit Space(Dict* values) : attributes(values) {}
  Dict* attributes;
};

struct Iterator : Object {
  virtual bool next(Runtime& runtime, Value& out) = 0;
  // How many iterators are stacked on one another.
  uint32_t depth = 1;
  const char* type_name = "generator";
};

struct Macro final : Object {
  const MacroNode* node = nullptr;
  Scope* scope = nullptr;  // where it was defined
};

struct Method final : Object {
  Method(const Value& bound_to, const MethodDef* def) : self(bound_to), method(def) {}
  Value self;
  const MethodDef* method;
};

struct Cycler final : Object {
  explicit Cycler(std::vector<Value> values) : items(std::move(values)) {}
  std::vector<Value> items;
  size_t at = 0;
};

struct Joiner final : Object {
  explicit Joiner(const Value& value) : separator(value) {}
  Value separator;
  bool used = false;
};

class Heap {
 public:
  template <class T, class... Args>
  T* make(Args&&... args) {
    auto owned = std::make_unique<T>(std::forward<Args>(args)...);
    T* out = owned.get();
    objects_.push_back(std::move(owned));
    return out;
  }

 private:
  std::vector<std::unique_ptr<Object>> objects_;
};

inline Value Value::of(String* value, bool markup) {
  return of(Kind::string, value, markup ? 1 : 0);
}
inline Value Value::undefined(const String* name, uint8_t detail) {
  return of(Kind::undefined, const_cast<String*>(name), detail);
}
inline const String& Value::string() const { return *static_cast<const String*>(object); }
inline const std::string& Value::bytes() const { return string().text.bytes(); }
inline List& Value::list() const { return *static_cast<List*>(object); }
inline Dict& Value::dict() const { return *static_cast<Dict*>(object); }
inline View& Value::view() const { return *static_cast<View*>(object); }
inline Range& Value::range() const { return *static_cast<Range*>(object); }
inline Space& Value::space() const { return *static_cast<Space*>(object); }
inline Macro& Value::macro() const { return *static_cast<Macro*>(object); }
inline Method& Value::method() const { return *static_cast<Method*>(object); }
inline Cycler& Value::cycler() const { return *static_cast<Cycler*>(object); }
inline Joiner& Value::joiner() const { return *static_cast<Joiner*>(object); }
inline Iterator& Value::iterator() const { return *static_cast<Iterator*>(object); }

// "int", "str", "NoneType", ... as Python names them in messages.
const char* type_name(Kind kind);
inline const char* type_name(const Value& value) { return type_name(value.kind); }

// Why an undefined value is undefined: "'x' is undefined".
std::string undefined_message(const Value& value);

}  // namespace strata::text::jinja
