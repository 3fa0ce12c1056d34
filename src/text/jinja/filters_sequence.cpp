// Filters on sequences and mappings.
#include <algorithm>

#include "text/jinja/args.h"
#include "text/jinja/attributes.h"
#include "text/jinja/filters.h"
#include "text/jinja/iterators.h"
#include "text/jinja/operators.h"
#include "text/jinja/sorting.h"
#include "text/jinja/str.h"
#include "text/jinja/unicode.h"

namespace strata::text::jinja {
namespace {

Value filter_default(Runtime& runtime, const Value& subject, const CallArgs& args) {
  const Params params(runtime, "default", args, {"default_value", "boolean"});
  if (!subject.is_undefined() && !(params.truth_or(1, false) && !truth(subject))) return subject;
  return params.given(0) ? params[0] : runtime.text("", true);
}

Value filter_attr(Runtime& runtime, const Value& subject, const CallArgs& args) {
  const Params params(runtime, "attr", args, {"name"}, 1);
  const String& name = params.string(0);
  return get_attribute_only(runtime, subject, &name);
}

Value filter_length(Runtime& runtime, const Value& subject, const CallArgs& args) {
  const Params params(runtime, "length", args, {});
  return Value::of(length_of(runtime, subject));
}

Value filter_list(Runtime& runtime, const Value& subject, const CallArgs& args) {
  const Params params(runtime, "list", args, {});
  return runtime.list(items_of(runtime, subject));
}

Value filter_first(Runtime& runtime, const Value& subject, const CallArgs& args) {
  const Params params(runtime, "first", args, {});
  Value out;
  if (iterate(runtime, subject)->next(runtime, out)) return out;
  return runtime.undefined("No first item, sequence was empty.");
}

Value filter_last(Runtime& runtime, const Value& subject, const CallArgs& args) {
  const Params params(runtime, "last", args, {});
  Iterator* iterator = iterate_reversed(runtime, subject);
  if (iterator == nullptr) runtime.fail("'{}' object is not reversible", type_name(subject));
  Value out;
  if (iterator->next(runtime, out)) return out;
  return runtime.undefined("No last item, sequence was empty.");
}

Value filter_reverse(Runtime& runtime, const Value& subject, const CallArgs& args) {
  const Params params(runtime, "reverse", args, {});
  if (subject.is_string()) {
    return get_slice(runtime, subject, Value::none(), Value::none(), Value::of(int64_t{-1}));
  }
  if (Iterator* iterator = iterate_reversed(runtime, subject)) {
    iterator->type_name = "list_reverseiterator";
    return Value::of(Kind::iterator, iterator);
  }
  if (!can_iterate(subject)) runtime.fail("argument must be iterable");
  std::vector<Value> items = items_of(runtime, subject);
  std::reverse(items.begin(), items.end());
  return runtime.list(std::move(items));
}

Value filter_join(Runtime& runtime, const Value& subject, const CallArgs& args) {
  const Params params(runtime, "join", args, {"d", "attribute"});
  const Text separator = params.given(0) ? to_text(runtime, params[0]) : Text();
  const AttributePath path(runtime, params[1]);
  Iterator* iterator = iterate(runtime, subject);
  Text out;
  Value item;
  for (bool first = true; iterator->next(runtime, item); first = false) {
    runtime.require_bytes(out.cost() + separator.cost());
    if (!first) out.append(separator);
    append_str(runtime, out, path.get(item));
  }
  return runtime.text(std::move(out));
}

// An iterator that is made when the first item is asked for, as a generator is.
template <class Make>
Iterator* make_late(Runtime& runtime, Make make) {
  return make_iterator(runtime, [make = std::move(make), inner = static_cast<Iterator*>(nullptr)](
                                    Runtime& rt, Value& out) mutable {
    if (inner == nullptr) inner = make(rt);
    return inner->next(rt, out);
  });
}

Value filter_items(Runtime& runtime, const Value& subject, const CallArgs& args) {
  const Params params(runtime, "items", args, {});
  return Value::of(Kind::iterator, make_late(runtime, [subject](Runtime& rt) {
                     if (!subject.is_undefined() && !subject.is(Kind::dict)) {
                       rt.fail("Can only get item pairs from a mapping.");
                     }
                     if (subject.is_undefined()) return iterate(rt, subject);
                     View* view = rt.make<View>(0, &subject.dict(), View::Part::items);
                     return iterate(rt, Value::of(Kind::view, view));
                   }));
}

Value filter_batch(Runtime& runtime, const Value& subject, const CallArgs& args) {
  const Params params(runtime, "batch", args, {"linecount", "fill_with"}, 1);
  const int64_t count = params.integer(0);
  const Value fill = params[1];
  const Stacked base = stack_on(runtime, subject);
  Iterator* out =
      make_iterator(runtime, [from = base.iterator, count, fill, held = std::optional<Value>(),
                              done = false](Runtime& rt, Value& batch) mutable {
        if (done) return false;
        std::vector<Value> items;
        if (held) items.push_back(*held);
        held.reset();
        Value item;
        while (from->next(rt, item)) {
          if (static_cast<int64_t>(items.size()) == count) {
            held = item;
            batch = rt.list(std::move(items));
            return true;
          }
          rt.charge(sizeof(Value));
          items.push_back(item);
        }
        done = true;
        if (items.empty()) return false;
        const auto size = static_cast<int64_t>(items.size());
        if (!fill.is_none() && size < count) {
          rt.charge(static_cast<uint64_t>(count - size) * sizeof(Value));
          items.resize(static_cast<size_t>(count), fill);
        }
        batch = rt.list(std::move(items));
        return true;
      });
  out->depth = base.depth;
  return Value::of(Kind::iterator, out);
}

Value filter_slice(Runtime& runtime, const Value& subject, const CallArgs& args) {
  const Params params(runtime, "slice", args, {"slices", "fill_with"}, 1);
  const int64_t slices = params.integer(0);
  const Value fill = params[1];
  const Stacked base = stack_on(runtime, subject);
  const Value from = Value::of(Kind::iterator, base.iterator);
  Iterator* out =
      make_iterator(runtime, [from, slices, fill, items = std::optional<std::vector<Value>>(),
                              number = int64_t{0}](Runtime& rt, Value& slice) mutable {
        if (!items) {
          items = items_of(rt, from);
          if (slices == 0) rt.fail("integer division or modulo by zero");
        }
        if (number >= slices) return false;
        const auto length = static_cast<int64_t>(items->size());
        const int64_t each = length / slices;
        const int64_t longer = length % slices;
        const int64_t begin = number * each + std::min(number, longer);
        const int64_t end = begin + each + (number < longer ? 1 : 0);
        std::vector<Value> part(items->begin() + begin, items->begin() + end);
        if (!fill.is_none() && number >= longer) part.push_back(fill);
        ++number;
        slice = rt.list(std::move(part));
        return true;
      });
  out->depth = base.depth;
  return Value::of(Kind::iterator, out);
}

Value filter_dictsort(Runtime& runtime, const Value& subject, const CallArgs& args) {
  const Params params(runtime, "dictsort", args, {"case_sensitive", "by", "reverse"});
  const bool case_sensitive = params.truth_or(0, false);
  std::string_view by = "key";
  if (params.given(1)) by = params.string(1).text.bytes();
  if (by != "key" && by != "value") {
    runtime.fail("You can only sort by either \"key\" or \"value\"");
  }
  require_defined(runtime, subject);
  if (!subject.is(Kind::dict)) {
    runtime.fail("dictsort: expected a dict, found '{}'", type_name(subject));
  }
  std::vector<Keyed> pairs;
  for (const Dict::Entry& entry : subject.dict().entries()) {
    if (!entry.live) continue;
    const Value& key = by == "key" ? entry.key : entry.value;
    pairs.push_back({{case_sensitive ? key : ignore_case(runtime, key)},
                     runtime.tuple({entry.key, entry.value})});
  }
  sort_keyed(runtime, pairs, params.truth_or(2, false));
  std::vector<Value> out;
  for (const Keyed& pair : pairs) out.push_back(pair.item);
  return runtime.list(std::move(out));
}

// "a,b.c" as several paths; anything else as one.
std::vector<AttributePath> split_paths(Runtime& runtime, const Value& attribute) {
  std::vector<AttributePath> out;
  if (!attribute.is_string()) {
    out.emplace_back(runtime, attribute);
    return out;
  }
  const Text& text = attribute.string().text;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.bytes().find(',', begin), text.size());
    out.emplace_back(runtime, runtime.text(text.slice(begin, end)));
    begin = end + 1;
  }
  return out;
}

Value filter_sort(Runtime& runtime, const Value& subject, const CallArgs& args) {
  const Params params(runtime, "sort", args, {"reverse", "case_sensitive", "attribute"});
  const bool case_sensitive = params.truth_or(1, false);
  const std::vector<AttributePath> paths = split_paths(runtime, params[2]);
  std::vector<Keyed> keyed;
  for (const Value& item : items_of(runtime, subject)) {
    Keyed entry;
    entry.item = item;
    for (const AttributePath& path : paths) {
      const Value key = path.get(item);
      entry.key.push_back(case_sensitive ? key : ignore_case(runtime, key));
    }
    runtime.charge(sizeof(Keyed) + entry.key.size() * sizeof(Value));
    keyed.push_back(std::move(entry));
  }
  sort_keyed(runtime, keyed, params.truth_or(0, false), true);
  std::vector<Value> out;
  out.reserve(keyed.size());
  for (const Keyed& entry : keyed) out.push_back(entry.item);
  return runtime.list(std::move(out));
}

Value filter_unique(Runtime& runtime, const Value& subject, const CallArgs& args) {
  const Params params(runtime, "unique", args, {"case_sensitive", "attribute"});
  const bool case_sensitive = params.truth_or(0, false);
  const Stacked base = stack_on(runtime, subject);
  Iterator* out = make_iterator(
      runtime, [from = base.iterator, case_sensitive, path = AttributePath(runtime, params[1]),
                seen = runtime.dict()](Runtime& rt, Value& item) {
        while (from->next(rt, item)) {
          const Value found = path.get(item);
          const Value key = case_sensitive ? found : ignore_case(rt, found);
          require_hashable(rt, key);
          if (seen->find(key) != nullptr) continue;
          rt.set(*seen, key, Value::none());
          return true;
        }
        return false;
      });
  out->depth = base.depth;
  return Value::of(Kind::iterator, out);
}

Value extreme(Runtime& runtime, const char* name, CompareOp better, const Value& subject,
              const CallArgs& args) {
  const Params params(runtime, name, args, {"case_sensitive", "attribute"});
  const bool case_sensitive = params.truth_or(0, false);
  const AttributePath path(runtime, params[1]);
  Iterator* iterator = iterate(runtime, subject);
  std::optional<Value> best;
  Value best_key;
  Value item;
  while (iterator->next(runtime, item)) {
    const Value found = path.get(item);
    const Value key = case_sensitive ? found : ignore_case(runtime, found);
    if (best && !ordered(runtime, better, key, best_key)) continue;
    best = item;
    best_key = key;
  }
  if (best) return *best;
  return runtime.undefined("No aggregated item, sequence was empty.");
}

Value filter_min(Runtime& runtime, const Value& subject, const CallArgs& args) {
  return extreme(runtime, "min", CompareOp::lt, subject, args);
}

Value filter_max(Runtime& runtime, const Value& subject, const CallArgs& args) {
  return extreme(runtime, "max", CompareOp::gt, subject, args);
}

Value filter_groupby(Runtime& runtime, const Value& subject, const CallArgs& args) {
  const Params params(runtime, "groupby", args, {"attribute", "default", "case_sensitive"}, 1);
  const bool case_sensitive = params.truth_or(2, false);
  std::optional<Value> fallback;
  if (params.given(1)) fallback = params[1];
  const AttributePath path(runtime, params[0], fallback);
  std::vector<Keyed> keyed;
  for (const Value& item : items_of(runtime, subject)) {
    const Value key = path.get(item);
    runtime.charge(sizeof(Keyed) + sizeof(Value));
    keyed.push_back({{case_sensitive ? key : ignore_case(runtime, key)}, item});
  }
  sort_keyed(runtime, keyed, false);
  std::vector<Value> out;
  for (size_t i = 0; i < keyed.size();) {
    std::vector<Value> group;
    const size_t first = i;
    for (; i < keyed.size() && equal(runtime, keyed[i].key[0], keyed[first].key[0]); ++i) {
      group.push_back(keyed[i].item);
    }
    // A key that does not even equal itself makes a group of one.
    if (group.empty()) group.push_back(keyed[i++].item);
    std::vector<Value> pair{path.get(group[0]), runtime.list(std::move(group))};
    List* tuple = runtime.make<List>(2 * sizeof(Value), std::move(pair), true);
    out.push_back(Value::of(Kind::tuple, tuple));
  }
  return runtime.list(std::move(out));
}

Value filter_random(Runtime& runtime, const Value&, const CallArgs&) {
  runtime.fail("the filter 'random' is refused: a prompt must not depend on chance");
}

}  // namespace

Value ignore_case(Runtime& runtime, const Value& value) {
  if (!value.is_string()) return value;
  runtime.work(value.bytes().size() * 4);
  return runtime.text(to_lower(value.bytes()), value.string().text.all_from_template());
}

void sort_keyed(Runtime& runtime, std::vector<Keyed>& items, bool reverse, bool as_lists) {
  const auto before = [&](const Keyed& a, const Keyed& b) {
    if (!as_lists) return less(runtime, a.key[0], b.key[0]);
    for (size_t i = 0; i < a.key.size(); ++i) {
      if (!equal(runtime, a.key[i], b.key[i])) return less(runtime, a.key[i], b.key[i]);
    }
    return false;
  };
  std::stable_sort(items.begin(), items.end(), [&](const Keyed& a, const Keyed& b) {
    return reverse ? before(b, a) : before(a, b);
  });
}

const FilterDef k_sequence_filters[] = {
    {"attr", filter_attr},     {"batch", filter_batch},     {"count", filter_length},
    {"d", filter_default},     {"default", filter_default}, {"dictsort", filter_dictsort},
    {"first", filter_first},   {"groupby", filter_groupby}, {"items", filter_items},
    {"join", filter_join},     {"last", filter_last},       {"length", filter_length},
    {"list", filter_list},     {"max", filter_max},         {"min", filter_min},
    {"random", filter_random}, {"reverse", filter_reverse}, {"slice", filter_slice},
    {"sort", filter_sort},     {"unique", filter_unique},   {nullptr, nullptr},
};

}  // namespace strata::text::jinja
