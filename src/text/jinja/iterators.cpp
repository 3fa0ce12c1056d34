#include "text/jinja/iterators.h"

#include "text/jinja/loop.h"
#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

namespace strata::text::jinja {
namespace {

// An iterator that calls the one below it uses the stack; so many may stand on one another.
constexpr uint32_t k_max_stacked = 100;

Iterator* iterate_string(Runtime& runtime, const Value& value) {
  const Text* text = &value.string().text;
  return make_iterator(runtime, [text, at = size_t{0}](Runtime& rt, Value& out) mutable {
    if (at >= text->size()) return false;
    size_t length = 0;
    code_point_at(text->bytes(), at, length);
    out = rt.text(text->slice(at, at + length));
    at += length;
    return true;
  });
}

Iterator* iterate_string_reversed(Runtime& runtime, const Value& value) {
  const Text* text = &value.string().text;
  return make_iterator(runtime, [text, end = text->size()](Runtime& rt, Value& out) mutable {
    if (end == 0) return false;
    size_t length = 0;
    code_point_before(text->bytes(), end, length);
    out = rt.text(text->slice(end - length, end));
    end -= length;
    return true;
  });
}

Value dict_item(Runtime& runtime, const Dict::Entry& entry, View::Part part) {
  switch (part) {
    case View::Part::keys:
      return entry.key;
    case View::Part::values:
      return entry.value;
    case View::Part::items:
      return runtime.tuple({entry.key, entry.value});
  }
  return {};
}

Iterator* iterate_dict(Runtime& runtime, const Dict* dict, View::Part part) {
  const uint64_t version = dict->version();
  return make_iterator(runtime,
                       [dict, part, version, at = size_t{0}](Runtime& rt, Value& out) mutable {
                         if (dict->version() != version)
                           rt.fail("dictionary changed size during iteration");
                         const auto& entries = dict->entries();
                         while (at < entries.size() && !entries[at].live) ++at;
                         if (at >= entries.size()) return false;
                         out = dict_item(rt, entries[at++], part);
                         return true;
                       });
}

Iterator* iterate_dict_reversed(Runtime& runtime, const Dict* dict, View::Part part) {
  const uint64_t version = dict->version();
  return make_iterator(
      runtime, [dict, part, version, at = dict->entries().size()](Runtime& rt, Value& out) mutable {
        if (dict->version() != version) rt.fail("dictionary changed size during iteration");
        const auto& entries = dict->entries();
        while (at > 0 && !entries[at - 1].live) --at;
        if (at == 0) return false;
        out = dict_item(rt, entries[--at], part);
        return true;
      });
}

}  // namespace

bool find_length(const Value& value, int64_t& length) {
  switch (value.kind) {
    case Kind::undefined:
      length = 0;
      return true;
    case Kind::string:
      length = static_cast<int64_t>(value.string().length);
      return true;
    case Kind::list:
    case Kind::tuple:
      length = static_cast<int64_t>(value.list().items.size());
      return true;
    case Kind::dict:
      length = static_cast<int64_t>(value.dict().size());
      return true;
    case Kind::view:
      length = static_cast<int64_t>(value.view().dict->size());
      return true;
    case Kind::range:
      length = value.range().size;
      return true;
    default:
      return false;
  }
}

int64_t length_of(Runtime& runtime, const Value& value) {
  int64_t length = 0;
  if (find_length(value, length)) return length;
  if (value.is(Kind::loop)) return value.loop().get_length(runtime);
  runtime.fail("object of type '{}' has no len()", type_name(value));
}

bool can_iterate(const Value& value) {
  switch (value.kind) {
    case Kind::undefined:
    case Kind::string:
    case Kind::list:
    case Kind::tuple:
    case Kind::dict:
    case Kind::view:
    case Kind::range:
    case Kind::iterator:
      return true;
    default:
      return false;
  }
}

Iterator* iterate(Runtime& runtime, const Value& value) {
  switch (value.kind) {
    case Kind::undefined:
      return make_iterator(runtime, [](Runtime&, Value&) { return false; });
    case Kind::string:
      return iterate_string(runtime, value);
    case Kind::list:
    case Kind::tuple: {
      // By index: what is appended during the walk is walked too, as in Python.
      const List* list = &value.list();
      return make_iterator(runtime, [list, at = size_t{0}](Runtime&, Value& out) mutable {
        if (at >= list->items.size()) return false;
        out = list->items[at++];
        return true;
      });
    }
    case Kind::dict:
      return iterate_dict(runtime, &value.dict(), View::Part::keys);
    case Kind::view:
      return iterate_dict(runtime, value.view().dict, value.view().part);
    case Kind::range: {
      const Range* range = &value.range();
      return make_iterator(runtime, [range, at = int64_t{0}](Runtime&, Value& out) mutable {
        if (at >= range->size) return false;
        out = Value::of(range->at(at++));
        return true;
      });
    }
    case Kind::iterator:
      return &value.iterator();
    default:
      runtime.fail("'{}' object is not iterable", type_name(value));
  }
}

Iterator* iterate_reversed(Runtime& runtime, const Value& value) {
  switch (value.kind) {
    case Kind::undefined:
      return make_iterator(runtime, [](Runtime&, Value&) { return false; });
    case Kind::string:
      return iterate_string_reversed(runtime, value);
    case Kind::list:
    case Kind::tuple: {
      const List* list = &value.list();
      return make_iterator(runtime, [list, at = list->items.size()](Runtime&, Value& out) mutable {
        at = std::min(at, list->items.size());
        if (at == 0) return false;
        out = list->items[--at];
        return true;
      });
    }
    case Kind::dict:
      return iterate_dict_reversed(runtime, &value.dict(), View::Part::keys);
    case Kind::view:
      return iterate_dict_reversed(runtime, value.view().dict, value.view().part);
    case Kind::range: {
      const Range* range = &value.range();
      return make_iterator(runtime, [range, at = range->size](Runtime&, Value& out) mutable {
        if (at <= 0) return false;
        out = Value::of(range->at(--at));
        return true;
      });
    }
    default:
      return nullptr;
  }
}

std::vector<Value> items_of(Runtime& runtime, const Value& value) {
  if (value.is_sequence()) {
    const auto& items = value.list().items;
    runtime.charge(items.size() * sizeof(Value));
    return items;
  }
  std::vector<Value> out;
  Iterator* iterator = iterate(runtime, value);
  Value item;
  while (iterator->next(runtime, item)) {
    runtime.charge(sizeof(Value));
    out.push_back(item);
  }
  return out;
}

Stacked stack_on(Runtime& runtime, const Value& source) {
  Iterator* iterator = iterate(runtime, source);
  if (iterator->depth >= k_max_stacked) {
    runtime.fail("more than {} filters are stacked on one another", k_max_stacked);
  }
  return {iterator, iterator->depth + 1};
}

}  // namespace strata::text::jinja
