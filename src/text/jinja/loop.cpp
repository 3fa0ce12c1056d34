#include "text/jinja/loop.h"

#include "text/jinja/operators.h"

namespace strata::text::jinja {
namespace {

// The items that were left when the length was asked for.
struct RestIterator final : Iterator {
  explicit RestIterator(std::vector<Value> rest) : items(std::move(rest)) {}
  bool next(Runtime&, Value& out) override {
    if (at >= items.size()) return false;
    out = items[at++];
    return true;
  }
  std::vector<Value> items;
  size_t at = 0;
};

Value loop_cycle(Runtime& runtime, const Value& self, const CallArgs& args) {
  if (args.positional.empty()) runtime.fail("loop.cycle: no items for cycling given");
  const auto count = static_cast<int64_t>(args.positional.size());
  // Before the first item the index is -1; Python's remainder is not negative.
  const int64_t at = (self.loop().index0 % count + count) % count;
  return args.positional[static_cast<size_t>(at)];
}

Value loop_changed(Runtime& runtime, const Value& self, const CallArgs& args) {
  Loop& loop = self.loop();
  const auto& values = args.positional;
  bool same = loop.last_changed && loop.last_changed->size() == values.size();
  for (size_t i = 0; same && i < values.size(); ++i) {
    same = equal(runtime, (*loop.last_changed)[i], values[i]);
  }
  if (!same) loop.last_changed = values;
  return Value::of(!same);
}

constexpr MethodDef k_loop_methods[] = {
    {"cycle", loop_cycle},
    {"changed", loop_changed},
};

}  // namespace

bool Loop::advance(Runtime& runtime) {
  Value next;
  if (after_known) {
    if (!after) return false;
    next = *after;
    after.reset();
    after_known = false;
  } else if (!iterator->next(runtime, next)) {
    return false;
  }
  ++index0;
  before = current;
  current = next;
  return true;
}

const std::optional<Value>& Loop::peek(Runtime& runtime) {
  if (!after_known) {
    Value next;
    if (iterator->next(runtime, next)) {
      after = next;
    } else {
      after.reset();
    }
    after_known = true;
  }
  return after;
}

int64_t Loop::get_length(Runtime& runtime) {
  if (length) return *length;
  int64_t known = 0;
  if (source_has_length && find_length(source, known)) {
    length = known;
  } else {
    std::vector<Value> rest;
    Value item;
    while (iterator->next(runtime, item)) {
      runtime.charge(sizeof(Value));
      rest.push_back(item);
    }
    length = static_cast<int64_t>(rest.size()) + index0 + 1 + (after_known && after ? 1 : 0);
    iterator = runtime.make<RestIterator>(0, std::move(rest));
  }
  return *length;
}

std::optional<Value> loop_attribute(Runtime& runtime, Loop& loop, std::string_view name) {
  if (name == "index") return Value::of(loop.index0 + 1);
  if (name == "index0") return Value::of(loop.index0);
  if (name == "first") return Value::of(loop.index0 == 0);
  if (name == "last") return Value::of(!loop.peek(runtime).has_value());
  if (name == "length") return Value::of(loop.get_length(runtime));
  if (name == "revindex") return Value::of(loop.get_length(runtime) - loop.index0);
  if (name == "revindex0") return Value::of(loop.get_length(runtime) - loop.index0 - 1);
  if (name == "depth") return Value::of(loop.depth0 + 1);
  if (name == "depth0") return Value::of(loop.depth0);
  if (name == "previtem") {
    return loop.index0 == 0 ? runtime.undefined("there is no previous item") : loop.before;
  }
  if (name == "nextitem") {
    const auto& next = loop.peek(runtime);
    return next ? *next : runtime.undefined("there is no next item");
  }
  return std::nullopt;
}

const MethodDef* find_loop_method(std::string_view name) {
  for (const MethodDef& method : k_loop_methods) {
    if (name == method.name) return &method;
  }
  return nullptr;
}

}  // namespace strata::text::jinja
