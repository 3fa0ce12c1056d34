#include "base/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"
#include "base/utf8.h"

namespace strata {
namespace {

// Deeper trees than this would make copying and freeing them a danger to the stack.
constexpr uint32_t k_depth_ceiling = 1000;

// Reads bytes and tells its maker how far the parser has come.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, const char** furthest) : at_(at), furthest_(furthest) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    if (furthest_ != nullptr) *furthest_ = at_;
    return *this;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  const char** furthest_;
};

// Among members with one key the first keeps its place and the last gives its value, as in Python.
void drop_duplicates(Json::Object& members) {
  const size_t n = members.size();
  if (n < 2) return;
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return members[a].first < members[b].first; });
  std::vector<bool> dropped(n, false);
  bool any = false;
  for (size_t i = 0; i < n;) {
    size_t last = i;
    while (last + 1 < n && members[order[last + 1]].first == members[order[i]].first) ++last;
    if (last > i) {
      any = true;
      members[order[i]].second = std::move(members[order[last]].second);
      for (size_t k = i + 1; k <= last; ++k) dropped[order[k]] = true;
    }
    i = last + 1;
  }
  if (!any) return;
  size_t kept = 0;
  for (size_t i = 0; i < n; ++i) {
    if (dropped[i]) continue;
    if (kept != i) members[kept] = std::move(members[i]);
    ++kept;
  }
  members.resize(kept);
}

// The library's message without its own name and its line and column; one printable line.
std::string reason_of(std::string_view what) {
  if (const size_t end = what.find("] "); end != what.npos) what.remove_prefix(end + 2);
  if (what.substr(0, 11) == "parse error") {
    if (const size_t end = what.find(": "); end != what.npos) what.remove_prefix(end + 2);
  }
  return printable(what, 200);
}

class Builder {
 public:
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;

  Builder(uint32_t max_depth, const char* begin, const char* const* at)
      : max_depth_(max_depth), begin_(begin), at_(at) {}

  bool null() { return put(Json()); }
  bool boolean(bool value) { return put(Json(value)); }
  bool number_integer(number_integer_t value) { return put(Json(int64_t{value})); }
  bool number_unsigned(number_unsigned_t value) { return put(Json(uint64_t{value})); }
  bool number_float(number_float_t value, const string_t&) { return put(Json(value)); }
  bool string(string_t& value) { return put(Json(std::move(value))); }
  bool binary(binary_t&) { return false; }  // not part of JSON text
  bool start_object(size_t) { return open(Json::object()); }
  bool start_array(size_t) { return open(Json::array()); }
  bool key(string_t& value) {
    open_.back().key = std::move(value);
    return true;
  }
  bool end_object() {
    drop_duplicates(open_.back().value.as_object());
    return close();
  }
  bool end_array() { return close(); }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& error) {
    // The library counts from one and past the end.
    const size_t offset = position == 0 ? 0 : position - 1;
    fail(ErrorCode::bad_request, "JSON: byte {}: {}", offset, reason_of(error.what()));
  }

  Json take() { return std::move(root_); }

 private:
  struct Open {
    Json value;
    std::string key;  // of the member that comes next
  };

  bool open(Json value) {
    if (open_.size() >= max_depth_) {
      fail(ErrorCode::bad_request, "JSON: byte {}: nested deeper than {} levels", *at_ - begin_ - 1,
           max_depth_);
    }
    open_.push_back({std::move(value), {}});
    return true;
  }

  bool close() {
    Json value = std::move(open_.back().value);
    open_.pop_back();
    return put(std::move(value));
  }

  bool put(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (Open& top = open_.back(); top.value.is_array()) {
      top.value.as_array().push_back(std::move(value));
    } else {
      top.value.as_object().emplace_back(std::move(top.key), std::move(value));
    }
    return true;
  }

  std::vector<Open> open_;
  Json root_;
  uint32_t max_depth_;
  const char* begin_;
  const char* const* at_;
};

void dump_string(std::string& out, std::string_view text) {
  out.push_back('"');
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = decode_utf8(text, at);
    if (!c.valid) {
      append_utf8(out, 0xFFFD);
    } else if (c.code_point == '"' || c.code_point == '\\') {
      out.push_back('\\');
      out.push_back(text[at]);
    } else if (c.code_point >= 0x20) {
      out.append(text.substr(at, c.length));
    } else if (c.code_point == '\n') {
      out += "\\n";
    } else if (c.code_point == '\r') {
      out += "\\r";
    } else if (c.code_point == '\t') {
      out += "\\t";
    } else if (c.code_point == '\b') {
      out += "\\b";
    } else if (c.code_point == '\f') {
      out += "\\f";
    } else {
      out += fmt::format("\\u{:04x}", c.code_point);
    }
    at += c.length;
  }
  out.push_back('"');
}

void dump_real(std::string& out, double value) {
  if (!std::isfinite(value)) {
    out += "null";
    return;
  }
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  const std::string_view digits(buffer, static_cast<size_t>(end - buffer));
  out += digits;
  // It must be read back as a real.
  if (digits.find_first_of(".e") == digits.npos) out += ".0";
}

void new_line(std::string& out, int indent, int level) {
  if (indent < 0) return;
  out.push_back('\n');
  out.append(static_cast<size_t>(indent) * static_cast<size_t>(level), ' ');
}

void dump_value(std::string& out, const Json& value, int indent, int level) {
  if (value.is_null()) {
    out += "null";
  } else if (value.is_bool()) {
    out += value.as_bool() ? "true" : "false";
  } else if (value.is_int()) {
    out += fmt::format("{}", value.as_int());
  } else if (value.is_real()) {
    dump_real(out, value.as_real());
  } else if (value.is_string()) {
    dump_string(out, value.as_string());
  } else if (value.is_array()) {
    const Json::Array& items = value.as_array();
    out.push_back('[');
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out.push_back(',');
      new_line(out, indent, level + 1);
      dump_value(out, items[i], indent, level + 1);
    }
    if (!items.empty()) new_line(out, indent, level);
    out.push_back(']');
  } else {
    const Json::Object& members = value.as_object();
    out.push_back('{');
    for (size_t i = 0; i < members.size(); ++i) {
      if (i > 0) out.push_back(',');
      new_line(out, indent, level + 1);
      dump_string(out, members[i].first);
      out += indent < 0 ? ":" : ": ";
      dump_value(out, members[i].second, indent, level + 1);
    }
    if (!members.empty()) new_line(out, indent, level);
    out.push_back('}');
  }
}

template <class T, class Variant>
auto& expect(Variant& value, const Json& json, const char* wanted) {
  auto* found = std::get_if<T>(&value);
  if (found == nullptr) {
    fail(ErrorCode::bad_request, "JSON: expected {}, found {}", wanted, json.type_name());
  }
  return *found;
}

}  // namespace

Json::Json(uint64_t value) {
  if (value <= static_cast<uint64_t>(INT64_MAX)) {
    value_ = static_cast<int64_t>(value);
  } else {
    value_ = static_cast<double>(value);
  }
}

Json Json::object() {
  Json out;
  out.value_ = Object{};
  return out;
}

Json Json::object(std::initializer_list<Member> members) {
  Json out;
  Object list(members.begin(), members.end());
  drop_duplicates(list);
  out.value_ = std::move(list);
  return out;
}

const char* Json::type_name() const {
  if (is_null()) return "null";
  if (is_bool()) return "boolean";
  if (is_int()) return "integer";
  if (is_real()) return "number";
  if (is_string()) return "string";
  return is_array() ? "array" : "object";
}

bool Json::as_bool() const { return expect<bool>(value_, *this, "boolean"); }

int64_t Json::as_int() const { return expect<int64_t>(value_, *this, "integer"); }

double Json::as_real() const {
  if (is_int()) return static_cast<double>(std::get<int64_t>(value_));
  return expect<double>(value_, *this, "number");
}

const std::string& Json::as_string() const { return expect<std::string>(value_, *this, "string"); }

const Json::Array& Json::as_array() const { return expect<Array>(value_, *this, "array"); }

Json::Array& Json::as_array() { return expect<Array>(value_, *this, "array"); }

const Json::Object& Json::as_object() const { return expect<Object>(value_, *this, "object"); }

Json::Object& Json::as_object() { return expect<Object>(value_, *this, "object"); }

const Json* Json::find(std::string_view key) const {
  const auto* members = std::get_if<Object>(&value_);
  if (members == nullptr) return nullptr;
  for (const Member& member : *members) {
    if (member.first == key) return &member.second;
  }
  return nullptr;
}

Json& Json::set(std::string key, Json value) {
  if (is_null()) value_ = Object{};
  Object& members = as_object();
  for (Member& member : members) {
    if (member.first == key) return member.second = std::move(value);
  }
  return members.emplace_back(std::move(key), std::move(value)).second;
}

Json& Json::push(Json value) {
  if (is_null()) value_ = Array{};
  return as_array().emplace_back(std::move(value));
}

std::string Json::dump(int indent) const {
  std::string out;
  dump_value(out, *this, indent, 0);
  return out;
}

Json Json::parse(std::string_view text, uint32_t max_depth) {
  const char* begin = text.data();
  const char* furthest = begin;
  Builder builder(std::min(max_depth, k_depth_ceiling), begin, &furthest);
  nlohmann::json::sax_parse(CountingIterator(begin, &furthest),
                            CountingIterator(begin + text.size(), nullptr), &builder);
  return builder.take();
}

}  // namespace strata
