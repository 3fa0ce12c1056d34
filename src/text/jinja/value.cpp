#include "text/jinja/value.h"

#include <cmath>

#include "text/jinja/operators.h"
#include "text/jinja/str.h"
#include "text/jinja/unicode.h"

namespace strata::text::jinja {
namespace {

// Up to this many entries a dict is searched from end to end.
constexpr size_t k_linear_entries = 8;

constexpr size_t k_absent = SIZE_MAX;

int rank(const Value& value) {
  switch (value.kind) {
    case Kind::boolean:
    case Kind::integer:
    case Kind::real:
      return 0;
    case Kind::string:
      return 1;
    case Kind::none:
      return 2;
    case Kind::undefined:
      return 3;
    case Kind::tuple:
      return 4;
    default:
      return 5;  // by identity
  }
}

template <class T>
int three_way(const T& a, const T& b) {
  return a < b ? -1 : (b < a ? 1 : 0);
}

int compare_numeric_keys(const Value& a, const Value& b) {
  // Not-a-number sorts below everything and equals itself, so that the order stays total.
  const bool a_nan = a.kind == Kind::real && std::isnan(a.real);
  const bool b_nan = b.kind == Kind::real && std::isnan(b.real);
  if (a_nan || b_nan) return static_cast<int>(b_nan) - static_cast<int>(a_nan);
  return compare_numbers(a, b);
}

}  // namespace

String::String(Text value) : text(std::move(value)), length(count_code_points(text.bytes())) {}

int KeyLess::compare(const Value& a, const Value& b) {
  const int rank_a = rank(a);
  const int rank_b = rank(b);
  if (rank_a != rank_b) return three_way(rank_a, rank_b);
  switch (rank_a) {
    case 0:
      return compare_numeric_keys(a, b);
    case 1:
      return a.bytes().compare(b.bytes());
    case 2:
    case 3:
      return 0;
    case 4: {
      const auto& left = a.list().items;
      const auto& right = b.list().items;
      for (size_t i = 0; i < left.size() && i < right.size(); ++i) {
        if (const int order = compare(left[i], right[i]); order != 0) return order;
      }
      return three_way(left.size(), right.size());
    }
    default:
      return three_way(reinterpret_cast<uintptr_t>(a.object),
                       reinterpret_cast<uintptr_t>(b.object));
  }
}

size_t Dict::position(const Value& key) const {
  if (!index_.empty()) {
    const auto found = index_.find(key);
    return found == index_.end() ? k_absent : found->second;
  }
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].live && KeyLess::compare(entries_[i].key, key) == 0) return i;
  }
  return k_absent;
}

const Value* Dict::find(const Value& key) const {
  const size_t at = position(key);
  return at == k_absent ? nullptr : &entries_[at].value;
}

const Value* Dict::find(std::string_view key) const {
  if (index_.empty()) {
    for (const Entry& entry : entries_) {
      if (entry.live && entry.key.is_string() && entry.key.bytes() == key) return &entry.value;
    }
    return nullptr;
  }
  String name(Text(std::string(key), true));
  return find(Value::of(&name));
}

void Dict::set(const Value& key, const Value& value) {
  const size_t at = position(key);
  if (at != k_absent) {
    entries_[at].value = value;
    return;
  }
  entries_.push_back({key, value, true});
  ++live_;
  ++version_;
  if (!index_.empty()) {
    index_.emplace(key, entries_.size() - 1);
  } else if (entries_.size() > k_linear_entries) {
    compact();
  }
}

bool Dict::erase(const Value& key) {
  const size_t at = position(key);
  if (at == k_absent) return false;
  if (!index_.empty()) index_.erase(entries_[at].key);
  entries_[at].live = false;
  --live_;
  ++version_;
  if (entries_.size() > k_linear_entries && live_ < entries_.size() / 2) compact();
  return true;
}

void Dict::clear() {
  entries_.clear();
  index_.clear();
  live_ = 0;
  ++version_;
}

// Drops dead entries and builds the index anew (none for a small dict).
void Dict::compact() {
  std::vector<Entry> kept;
  kept.reserve(live_);
  for (const Entry& entry : entries_) {
    if (entry.live) kept.push_back(entry);
  }
  entries_ = std::move(kept);
  index_.clear();
  if (entries_.size() <= k_linear_entries) return;
  for (size_t i = 0; i < entries_.size(); ++i) index_.emplace(entries_[i].key, i);
}

const char* type_name(Kind kind) {
  switch (kind) {
    case Kind::undefined:
      return "Undefined";
    case Kind::none:
      return "NoneType";
    case Kind::boolean:
      return "bool";
    case Kind::integer:
      return "int";
    case Kind::real:
      return "float";
    case Kind::string:
      return "str";
    case Kind::list:
      return "list";
    case Kind::tuple:
      return "tuple";
    case Kind::dict:
      return "dict";
    case Kind::view:
      return "dict view";
    case Kind::range:
      return "range";
    case Kind::space:
      return "Namespace";
    case Kind::loop:
      return "LoopContext";
    case Kind::macro:
      return "Macro";
    case Kind::function:
      return "function";
    case Kind::method:
      return "method";
    case Kind::cycler:
      return "Cycler";
    case Kind::joiner:
      return "Joiner";
    case Kind::iterator:
      return "generator";
  }
  return "object";
}

std::string undefined_message(const Value& value) {
  const std::string& subject = value.bytes();
  if (value.detail == Value::k_undefined_message) return subject;
  if (value.detail == Value::k_undefined_name) return quoted(subject) + " is undefined";
  const auto owner = static_cast<Kind>(value.detail);
  const std::string name = owner == Kind::none ? "None" : std::string(type_name(owner)) + " object";
  return "'" + name + "' has no attribute " + quoted(subject);
}

}  // namespace strata::text::jinja
