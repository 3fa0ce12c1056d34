// Methods of list, tuple, dict, range and cycler.
#include <algorithm>
#include <iterator>

#include "text/jinja/args.h"
#include "text/jinja/attributes.h"
#include "text/jinja/methods_string.h"
#include "text/jinja/operators.h"
#include "text/jinja/sorting.h"
#include "text/jinja/str.h"

namespace strata::text::jinja {
namespace {

std::vector<Value>& items(const Value& self) { return self.list().items; }

std::ptrdiff_t offset(int64_t index) { return static_cast<std::ptrdiff_t>(index); }

Value list_append(Runtime& runtime, const Value& self, const CallArgs& args) {
  const Params params(runtime, "append", args, {""}, 1);
  runtime.push(self.list(), params[0]);
  return Value::none();
}

Value list_extend(Runtime& runtime, const Value& self, const CallArgs& args) {
  const Params params(runtime, "extend", args, {""}, 1);
  // All of them first: a list may be extended by itself.
  for (const Value& item : items_of(runtime, params[0])) runtime.push(self.list(), item);
  return Value::none();
}

Value list_insert(Runtime& runtime, const Value& self, const CallArgs& args) {
  const Params params(runtime, "insert", args, {"", ""}, 2);
  const auto size = static_cast<int64_t>(items(self).size());
  int64_t at = params.integer(0);
  if (at < 0) at = at < -size ? 0 : at + size;
  runtime.charge(sizeof(Value));
  runtime.step(items(self).size() / 16);
  items(self).insert(items(self).begin() + offset(std::min(at, size)), params[1]);
  return Value::none();
}

Value list_pop(Runtime& runtime, const Value& self, const CallArgs& args) {
  const Params params(runtime, "pop", args, {""});
  const auto size = static_cast<int64_t>(items(self).size());
  if (size == 0) runtime.fail("pop from empty list");
  int64_t at = params.integer_or(0, -1);
  if (at < 0) at += size;
  if (at < 0 || at >= size) runtime.fail("pop index out of range");
  const Value out = items(self)[static_cast<size_t>(at)];
  runtime.step(static_cast<uint64_t>(size - at) / 16);
  items(self).erase(items(self).begin() + offset(at));
  return out;
}

// Position of the first equal item, or the size.
size_t position_of(Runtime& runtime, const Value& self, const Value& wanted, size_t begin,
                   size_t end) {
  for (size_t i = begin; i < std::min(end, items(self).size()); ++i) {
    if (equal(runtime, items(self)[i], wanted)) return i;
  }
  return items(self).size();
}

Value list_index(Runtime& runtime, const Value& self, const CallArgs& args) {
  const Params params(runtime, "index", args, {"", "", ""}, 1);
  const auto size = static_cast<int64_t>(items(self).size());
  const auto bound = [&](size_t index, int64_t fallback) {
    int64_t at = params.integer_or(index, fallback);
    if (at < 0) at = at < -size ? 0 : at + size;
    return static_cast<size_t>(std::min(at, size));
  };
  const size_t found = position_of(runtime, self, params[0], bound(1, 0), bound(2, size));
  if (found == items(self).size()) {
    runtime.fail("{} is not in {}", repr(runtime, params[0]).bytes(), type_name(self));
  }
  return Value::of(static_cast<int64_t>(found));
}

Value list_count(Runtime& runtime, const Value& self, const CallArgs& args) {
  const Params params(runtime, "count", args, {""}, 1);
  int64_t count = 0;
  for (const Value& item : items(self)) count += equal(runtime, item, params[0]);
  return Value::of(count);
}

Value list_remove(Runtime& runtime, const Value& self, const CallArgs& args) {
  const Params params(runtime, "remove", args, {""}, 1);
  const size_t found = position_of(runtime, self, params[0], 0, items(self).size());
  if (found == items(self).size()) runtime.fail("list.remove(x): x not in list");
  runtime.step(items(self).size() / 16);
  items(self).erase(items(self).begin() + offset(static_cast<int64_t>(found)));
  return Value::none();
}

Value list_reverse(Runtime& runtime, const Value& self, const CallArgs& args) {
  const Params params(runtime, "reverse", args, {});
  runtime.step(items(self).size() / 16);
  std::reverse(items(self).begin(), items(self).end());
  return Value::none();
}

Value list_sort(Runtime& runtime, const Value& self, const CallArgs& args) {
  const Params params(runtime, "sort", args, {"reverse"});
  std::vector<Keyed> keyed;
  for (const Value& item : items(self)) {
    runtime.charge(sizeof(Keyed) + sizeof(Value));
    keyed.push_back({{item}, item});
  }
  sort_keyed(runtime, keyed, params.truth_or(0, false));
  for (size_t i = 0; i < keyed.size(); ++i) items(self)[i] = keyed[i].item;
  return Value::none();
}

Value list_copy(Runtime& runtime, const Value& self, const CallArgs& args) {
  const Params params(runtime, "copy", args, {});
  return runtime.list(items(self));
}

Value list_clear(Runtime& runtime, const Value& self, const CallArgs& args) {
  const Params params(runtime, "clear", args, {});
  items(self).clear();
  return Value::none();
}

constexpr MethodDef k_list_methods[] = {
    {"append", list_append},   {"clear", list_clear},   {"copy", list_copy},
    {"count", list_count},     {"extend", list_extend}, {"index", list_index},
    {"insert", list_insert},   {"pop", list_pop},       {"remove", list_remove},
    {"reverse", list_reverse}, {"sort", list_sort},
};

constexpr MethodDef k_tuple_methods[] = {
    {"count", list_count},
    {"index", list_index},
};

template <View::Part Part>
Value dict_view(Runtime& runtime, const Value& self, const CallArgs& args) {
  const Params params(runtime, "the method", args, {});
  return Value::of(Kind::view, runtime.make<View>(0, &self.dict(), Part));
}

Value dict_get(Runtime& runtime, const Value& self, const CallArgs& args) {
  const Params params(runtime, "get", args, {"", ""}, 1);
  require_hashable(runtime, params[0]);
  const Value* found = self.dict().find(params[0]);
  return found != nullptr ? *found : params[1];
}

Value dict_pop(Runtime& runtime, const Value& self, const CallArgs& args) {
  const Params params(runtime, "pop", args, {"", ""}, 1);
  require_hashable(runtime, params[0]);
  const Value* found = self.dict().find(params[0]);
  if (found == nullptr) {
    if (params.given(1)) return params[1];
    runtime.fail("KeyError: {}", repr(runtime, params[0]).bytes());
  }
  const Value out = *found;
  self.dict().erase(params[0]);
  return out;
}

Value dict_popitem(Runtime& runtime, const Value& self, const CallArgs& args) {
  const Params params(runtime, "popitem", args, {});
  if (self.dict().size() == 0) runtime.fail("popitem(): dictionary is empty");
  const auto& entries = self.dict().entries();
  auto last = entries.rbegin();
  while (!last->live) {
    runtime.step();
    ++last;
  }
  const Value out = runtime.tuple({last->key, last->value});
  self.dict().erase(items(out)[0]);
  return out;
}

Value dict_setdefault(Runtime& runtime, const Value& self, const CallArgs& args) {
  const Params params(runtime, "setdefault", args, {"", ""}, 1);
  require_hashable(runtime, params[0]);
  if (const Value* found = self.dict().find(params[0])) return *found;
  runtime.set(self.dict(), params[0], params[1]);
  return params[1];
}

Value dict_update(Runtime& runtime, const Value& self, const CallArgs& args) {
  if (args.positional.size() > 1) runtime.fail("update expected at most 1 argument");
  if (!args.positional.empty()) {
    Value source = args.positional[0];
    if (source.is(Kind::dict)) {
      source = Value::of(Kind::view, runtime.make<View>(0, &source.dict(), View::Part::items));
    }
    for (const Value& pair : items_of(runtime, source)) {
      const std::vector<Value> parts = items_of(runtime, pair);
      if (parts.size() != 2) {
        runtime.fail("dictionary update sequence element has length {}; 2 is required",
                     parts.size());
      }
      runtime.set(self.dict(), parts[0], parts[1]);
    }
  }
  for (const auto& [name, value] : args.named) {
    runtime.set(self.dict(), Value::of(const_cast<String*>(name)), value);
  }
  return Value::none();
}

Value dict_copy(Runtime& runtime, const Value& self, const CallArgs& args) {
  const Params params(runtime, "copy", args, {});
  Dict* out = runtime.dict();
  for (const Dict::Entry& entry : self.dict().entries()) {
    runtime.step();
    if (entry.live) runtime.set(*out, entry.key, entry.value);
  }
  return Value::of(Kind::dict, out);
}

Value dict_clear(Runtime& runtime, const Value& self, const CallArgs& args) {
  const Params params(runtime, "clear", args, {});
  self.dict().clear();
  return Value::none();
}

constexpr MethodDef k_dict_methods[] = {
    {"clear", dict_clear},
    {"copy", dict_copy},
    {"get", dict_get},
    {"items", dict_view<View::Part::items>},
    {"keys", dict_view<View::Part::keys>},
    {"pop", dict_pop},
    {"popitem", dict_popitem},
    {"setdefault", dict_setdefault},
    {"update", dict_update},
    {"values", dict_view<View::Part::values>},
};

Value range_count(Runtime& runtime, const Value& self, const CallArgs& args) {
  const Params params(runtime, "count", args, {""}, 1);
  return Value::of(int64_t{contains(runtime, self, params[0])});
}

Value range_index(Runtime& runtime, const Value& self, const CallArgs& args) {
  const Params params(runtime, "index", args, {""}, 1);
  if (!contains(runtime, self, params[0])) {
    runtime.fail("{} is not in range", repr(runtime, params[0]).bytes());
  }
  const int64_t number =
      params[0].is(Kind::real) ? static_cast<int64_t>(params[0].real) : params[0].as_integer();
  int64_t index = 0;
  self.range().find(number, index);
  return Value::of(index);
}

constexpr MethodDef k_range_methods[] = {
    {"count", range_count},
    {"index", range_index},
};

Value cycler_next(Runtime& runtime, const Value& self, const CallArgs& args) {
  const Params params(runtime, "next", args, {});
  Cycler& cycler = self.cycler();
  const Value out = cycler.items[cycler.at];
  cycler.at = (cycler.at + 1) % cycler.items.size();
  return out;
}

Value cycler_reset(Runtime& runtime, const Value& self, const CallArgs& args) {
  const Params params(runtime, "reset", args, {});
  self.cycler().at = 0;
  return Value::none();
}

constexpr MethodDef k_cycler_methods[] = {
    {"next", cycler_next},
    {"reset", cycler_reset},
};

}  // namespace

const MethodDef* find_list_method(std::string_view name) {
  return find_in(std::begin(k_list_methods), std::end(k_list_methods), name);
}

const MethodDef* find_tuple_method(std::string_view name) {
  return find_in(std::begin(k_tuple_methods), std::end(k_tuple_methods), name);
}

const MethodDef* find_dict_method(std::string_view name) {
  return find_in(std::begin(k_dict_methods), std::end(k_dict_methods), name);
}

const MethodDef* find_range_method(std::string_view name) {
  return find_in(std::begin(k_range_methods), std::end(k_range_methods), name);
}

const MethodDef* find_cycler_method(std::string_view name) {
  return find_in(std::begin(k_cycler_methods), std::end(k_cycler_methods), name);
}

}  // namespace strata::text::jinja
