#include "text/jinja/runtime.h"

#include "text/jinja/html.h"
#include "text/jinja/loop.h"
#include "text/jinja/operators.h"

namespace strata::text::jinja {
namespace {

// What a method of safe HTML gives is safe HTML, also inside a list or tuple.
void mark_safe(Value& value) {
  if (value.is_string()) {
    value.detail = 1;
  } else if (value.is_sequence()) {
    for (Value& item : value.list().items) {
      if (item.is_string()) item.detail = 1;
    }
  }
}

CallArgs escaped_args(Runtime& runtime, const CallArgs& args) {
  CallArgs out = args;
  for (Value& value : out.positional) {
    if (value.is_string()) value = escape_html(runtime, value);
  }
  for (auto& [name, value] : out.named) {
    if (value.is_string()) value = escape_html(runtime, value);
  }
  return out;
}

}  // namespace

Value Runtime::text(Text value, bool markup) {
  const size_t cost = value.cost();
  work(cost);
  return Value::of(make<String>(cost, std::move(value)), markup);
}

Value Runtime::text(std::string value, bool from_template) {
  return text(Text(std::move(value), from_template));
}

Value Runtime::list(std::vector<Value> items) {
  return Value::of(Kind::list, make<List>(items.size() * sizeof(Value), std::move(items)));
}

Value Runtime::tuple(std::vector<Value> items) {
  return Value::of(Kind::tuple, make<List>(items.size() * sizeof(Value), std::move(items)));
}

Value Runtime::undefined(std::string message) {
  return Value::undefined(text(std::move(message), true).string_pointer(),
                          Value::k_undefined_message);
}

void Runtime::push(List& list, const Value& value) {
  charge(sizeof(Value));
  list.items.push_back(value);
}

void Runtime::set(Dict& dict, const Value& key, const Value& value) {
  require_hashable(*this, key);
  const size_t before = dict.size();
  dict.set(key, value);
  if (dict.size() != before) charge(Dict::k_entry_cost);
}

std::tm Runtime::now() const {
  if (now_) return now_();
  const std::time_t seconds = std::time(nullptr);
  std::tm out{};
  if (localtime_r(&seconds, &out) == nullptr) fail("the local time cannot be read");
  return out;
}

void Runtime::fail_steps() const {
  fail("the template does more than {} steps; it is refused", limits_.steps);
}

void Runtime::fail_bytes() const {
  fail("the template makes more than {} bytes of values; it is refused", limits_.bytes);
}

void Runtime::fail_depth() const {
  fail("calls or expressions are nested too deeply (limit {} calls)", limits_.calls);
}

Value call_method(Runtime& runtime, const MethodDef& method, const Value& self,
                  const CallArgs& args) {
  runtime.step();
  if (!self.is_markup() || method.markup == MarkupRule::plain) {
    return method.call(runtime, self, args);
  }
  Value out = method.markup == MarkupRule::escape
                  ? method.call(runtime, self, escaped_args(runtime, args))
                  : method.call(runtime, self, args);
  mark_safe(out);
  return out;
}

bool is_callable(const Value& value) {
  switch (value.kind) {
    case Kind::undefined:  // calling it fails, but Python finds it callable
    case Kind::macro:
    case Kind::function:
    case Kind::method:
    case Kind::joiner:
    case Kind::loop:
      return true;
    default:
      return false;
  }
}

Value call(Runtime& runtime, const Value& callee, const CallArgs& args) {
  switch (callee.kind) {
    case Kind::macro:
      return runtime.invoker->invoke(callee.macro(), args);
    case Kind::function:
      runtime.step();
      return callee.function->call(runtime, args);
    case Kind::method:
      return call_method(runtime, *callee.method().method, callee.method().self, args);
    case Kind::joiner: {
      if (!args.positional.empty() || !args.named.empty()) {
        runtime.fail("a joiner takes no arguments");
      }
      Joiner& joiner = callee.joiner();
      if (joiner.used) return joiner.separator;
      joiner.used = true;
      return runtime.text("", true);
    }
    case Kind::loop:
      if (args.positional.size() != 1 || !args.named.empty()) {
        runtime.fail("loop() takes one argument");
      }
      return runtime.invoker->recurse(callee.loop(), args.positional[0]);
    case Kind::undefined:
      fail_undefined(runtime, callee);
    default:
      runtime.fail("'{}' object is not callable", type_name(callee));
  }
}

}  // namespace strata::text::jinja
