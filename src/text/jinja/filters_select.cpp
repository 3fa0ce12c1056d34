// map, select, reject, selectattr, rejectattr: filters that apply another filter or a test.
#include "text/jinja/attributes.h"
#include "text/jinja/filters.h"
#include "text/jinja/iterators.h"
#include "text/jinja/operators.h"
#include "text/jinja/str.h"

namespace strata::text::jinja {
namespace {

const std::string& name_argument(Runtime& runtime, const Value& value, const char* what) {
  require_defined(runtime, value);
  if (!value.is_string()) {
    runtime.fail("{}: expected a name, found '{}'", what, type_name(value));
  }
  return value.bytes();
}

CallArgs without_first(const CallArgs& args, size_t count) {
  CallArgs out = args;
  out.positional.erase(out.positional.begin(),
                       out.positional.begin() + static_cast<std::ptrdiff_t>(count));
  return out;
}

// What map does to one item.
class Mapping {
 public:
  Mapping(Runtime& runtime, const CallArgs& args) {
    if (!args.positional.empty()) {
      const std::string& name = name_argument(runtime, args.positional[0], "map");
      filter_ = find_filter(name);
      if (filter_ == nullptr) runtime.fail("No filter named {}.", quoted(name));
      args_ = without_first(args, 1);
      return;
    }
    Value attribute;
    std::optional<Value> fallback;
    bool found = false;
    for (const auto& [key, value] : args.named) {
      const std::string& name = key->text.bytes();
      if (name == "attribute") {
        attribute = value;
        found = true;
      } else if (name == "default") {
        fallback = value;
      } else {
        runtime.fail("Unexpected keyword argument {}", quoted(name));
      }
    }
    if (!found) runtime.fail("map requires a filter argument");
    path_.emplace(runtime, attribute, fallback);
  }

  Value apply(Runtime& runtime, const Value& item) const {
    if (path_) return path_->get(item);
    const Nested nested(runtime);
    runtime.step();
    return filter_->apply(runtime, item, args_);
  }

 private:
  const FilterDef* filter_ = nullptr;
  CallArgs args_;
  std::optional<AttributePath> path_;
};

Value filter_map(Runtime& runtime, const Value& subject, const CallArgs& args) {
  const auto generator = [subject, args, from = static_cast<Iterator*>(nullptr),
                          mapping = std::optional<Mapping>()](Runtime& rt, Value& out) mutable {
    if (!truth(subject)) return false;
    if (!mapping) {
      mapping.emplace(rt, args);
      from = iterate(rt, subject);
    }
    Value item;
    if (!from->next(rt, item)) return false;
    out = mapping->apply(rt, item);
    return true;
  };
  Iterator* out = make_iterator(runtime, generator);
  if (subject.is(Kind::iterator)) out->depth = stack_on(runtime, subject).depth;
  return Value::of(Kind::iterator, out);
}

// What select and its kin ask of one item.
class Condition {
 public:
  Condition(Runtime& runtime, const CallArgs& args, bool attribute, bool wanted) : wanted_(wanted) {
    const size_t skip = attribute ? 1 : 0;
    if (attribute) {
      if (args.positional.empty()) runtime.fail("Missing parameter for attribute name");
      path_.emplace(runtime, args.positional[0]);
    }
    if (args.positional.size() <= skip) return;
    const std::string& name = name_argument(runtime, args.positional[skip], "select");
    test_ = find_test(name);
    if (test_ == nullptr) runtime.fail("No test named {}.", quoted(name));
    args_ = without_first(args, skip + 1);
  }

  bool holds(Runtime& runtime, const Value& item) const {
    const Value subject = path_ ? path_->get(item) : item;
    runtime.step();
    const bool result = test_ != nullptr ? test_->holds(runtime, subject, args_) : truth(subject);
    return result == wanted_;
  }

 private:
  std::optional<AttributePath> path_;
  const TestDef* test_ = nullptr;
  CallArgs args_;
  bool wanted_;
};

Value select_items(Runtime& runtime, const Value& subject, const CallArgs& args, bool attribute,
                   bool wanted) {
  const auto generator = [subject, args, attribute, wanted, from = static_cast<Iterator*>(nullptr),
                          condition = std::optional<Condition>()](Runtime& rt, Value& out) mutable {
    if (!truth(subject)) return false;
    if (!condition) {
      condition.emplace(rt, args, attribute, wanted);
      from = iterate(rt, subject);
    }
    while (from->next(rt, out)) {
      if (condition->holds(rt, out)) return true;
    }
    return false;
  };
  Iterator* out = make_iterator(runtime, generator);
  if (subject.is(Kind::iterator)) out->depth = stack_on(runtime, subject).depth;
  return Value::of(Kind::iterator, out);
}

Value filter_select(Runtime& runtime, const Value& subject, const CallArgs& args) {
  return select_items(runtime, subject, args, false, true);
}

Value filter_reject(Runtime& runtime, const Value& subject, const CallArgs& args) {
  return select_items(runtime, subject, args, false, false);
}

Value filter_selectattr(Runtime& runtime, const Value& subject, const CallArgs& args) {
  return select_items(runtime, subject, args, true, true);
}

Value filter_rejectattr(Runtime& runtime, const Value& subject, const CallArgs& args) {
  return select_items(runtime, subject, args, true, false);
}

}  // namespace

const FilterDef k_select_filters[] = {
    {"map", filter_map},       {"reject", filter_reject},         {"rejectattr", filter_rejectattr},
    {"select", filter_select}, {"selectattr", filter_selectattr}, {nullptr, nullptr},
};

}  // namespace strata::text::jinja
