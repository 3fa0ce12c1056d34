// Statements and scopes; expressions are in eval_expr.cpp.
#include "text/jinja/evaluator.h"

#include <utility>

#include "base/utf8.h"
#include "text/jinja/filters.h"
#include "text/jinja/iterators.h"
#include "text/jinja/operators.h"
#include "text/jinja/str.h"

namespace strata::text::jinja {

const Value* Scope::find(NameId id) const {
  for (const auto& [name, value] : variables) {
    if (name == id) return &value;
  }
  return nullptr;
}

void Scope::set(NameId id, const Value& value) {
  for (auto& [name, old] : variables) {
    if (name == id) {
      old = value;
      return;
    }
  }
  variables.emplace_back(id, value);
}

Value from_json(Runtime& runtime, const Json& json, bool from_template) {
  const Nested nested(runtime, k_value_weight);
  const auto text = [&](const std::string& bytes) {
    return runtime.text(is_valid_utf8(bytes) ? bytes : replace_invalid_utf8(bytes), from_template);
  };
  if (json.is_null()) return Value::none();
  if (json.is_bool()) return Value::of(json.as_bool());
  if (json.is_int()) return Value::of(json.as_int());
  if (json.is_real()) return Value::of(json.as_real());
  if (json.is_string()) return text(json.as_string());
  if (json.is_array()) {
    std::vector<Value> items;
    items.reserve(json.as_array().size());
    for (const Json& item : json.as_array()) {
      items.push_back(from_json(runtime, item, from_template));
    }
    return runtime.list(std::move(items));
  }
  Dict* dict = runtime.dict();
  for (const Json::Member& member : json.as_object()) {
    runtime.set(*dict, text(member.first), from_json(runtime, member.second, from_template));
  }
  return Value::of(Kind::dict, dict);
}

// Sends what is printed into a text of its own for as long as it lives.
class Evaluator::Capture {
 public:
  explicit Capture(Evaluator& evaluator)
      : evaluator_(evaluator), outer_(std::exchange(evaluator.out_, &text_)) {}
  ~Capture() { evaluator_.out_ = outer_; }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  Value take() { return evaluator_.runtime_.text(std::move(text_)); }

 private:
  Evaluator& evaluator_;
  Text text_;
  Text* outer_;
};

// A scope that goes back to the evaluator when it is left.
class Evaluator::OwnScope {
 public:
  OwnScope(Evaluator& evaluator, Scope* parent, const Fresh& fresh)
      : evaluator_(evaluator), fresh_(fresh), scope_(evaluator.acquire(parent, fresh)) {}
  ~OwnScope() { evaluator_.release(scope_); }
  OwnScope(const OwnScope&) = delete;
  OwnScope& operator=(const OwnScope&) = delete;
  Scope* get() const { return scope_; }
  // Empty again, for the next iteration.
  void renew() {
    Scope* parent = scope_->parent;
    if (scope_->captured) {
      scope_ = evaluator_.acquire(parent, fresh_);
    } else {
      scope_->variables.clear();
      evaluator_.begin(*scope_, fresh_);
    }
  }

 private:
  Evaluator& evaluator_;
  const Fresh& fresh_;
  Scope* scope_;
};

Evaluator::Evaluator(const Tree& tree, const Json& variables,
                     const std::vector<std::string>& trusted, Runtime& runtime)
    : tree_(tree),
      variables_(variables),
      trusted_(trusted),
      runtime_(runtime),
      globals_(tree.names.size()),
      caller_name_(tree.names[k_name_caller]) {
  runtime_.invoker = this;
}

Text Evaluator::run() {
  Text out;
  out_ = &out;
  exec_body(tree_.body, acquire(nullptr, tree_.fresh));
  out_ = nullptr;
  return out;
}

Scope* Evaluator::acquire(Scope* parent, const Fresh& fresh) {
  Scope* scope = nullptr;
  if (free_scopes_.empty()) {
    scope = runtime_.make<Scope>(0);
    // Room for every scope there is: giving one back, which also happens while an error is thrown,
    // takes no memory.
    if (free_scopes_.capacity() < ++scopes_made_) free_scopes_.reserve(2 * scopes_made_);
  } else {
    scope = free_scopes_.back();
    free_scopes_.pop_back();
  }
  scope->parent = parent;
  begin(*scope, fresh);
  return scope;
}

void Evaluator::begin(Scope& scope, const Fresh& fresh) {
  runtime_.step(fresh.size() / 4);
  const size_t before = scope.variables.capacity();
  for (const NameId id : fresh) {
    scope.variables.emplace_back(id, Value::undefined(tree_.names[id], Value::k_undefined_name));
  }
  charge_growth(scope, before);
}

void Evaluator::charge_growth(const Scope& scope, size_t before) {
  const size_t after = scope.variables.capacity();
  if (after > before) runtime_.charge((after - before) * sizeof(scope.variables[0]));
}

void Evaluator::set(Scope& scope, NameId id, const Value& value) {
  runtime_.step(scope.variables.size() / 16);
  const size_t before = scope.variables.capacity();
  scope.set(id, value);
  charge_growth(scope, before);
}

void Evaluator::release(Scope* scope) {
  if (scope->captured) return;
  scope->variables.clear();
  free_scopes_.push_back(scope);
}

void Evaluator::emit(const Value& value) {
  const size_t before = out_->cost();
  append_str(runtime_, *out_, value);
  runtime_.charge(out_->cost() - before);
}

// A block prints what its filter or macro gives as it is: it must be a string.
void Evaluator::emit_text(const Value& value) {
  if (!value.is_string()) {
    runtime_.fail("a block must give a string, not '{}'", type_name(value));
  }
  emit(value);
}

Evaluator::Flow Evaluator::exec_body(const Body& body, Scope* scope) {
  for (const Stmt* stmt : body) {
    if (const Flow flow = exec(stmt, scope); flow != Flow::normal) return flow;
  }
  return Flow::normal;
}

Evaluator::Flow Evaluator::exec(const Stmt* stmt, Scope* scope) {
  runtime_.step();
  const Nested nested(runtime_);
  runtime_.line = stmt->line;
  switch (stmt->kind) {
    case StmtKind::data: {
      const std::string& text = static_cast<const DataStmt*>(stmt)->text;
      runtime_.charge(text.size());
      out_->append(text, true);
      return Flow::normal;
    }
    case StmtKind::print:
      emit(eval(static_cast<const PrintStmt*>(stmt)->value, scope));
      return Flow::normal;
    case StmtKind::if_:
      return exec_if(*static_cast<const IfStmt*>(stmt), scope);
    case StmtKind::for_:
      return exec_for(*static_cast<const ForNode*>(stmt), scope);
    case StmtKind::set: {
      const auto& set = *static_cast<const SetStmt*>(stmt);
      assign(set.target, eval(set.value, scope), scope);
      return Flow::normal;
    }
    case StmtKind::set_block:
      exec_set_block(*static_cast<const SetBlockStmt*>(stmt), scope);
      return Flow::normal;
    case StmtKind::macro: {
      const auto& node = *static_cast<const MacroNode*>(stmt);
      set(*scope, node.id, make_macro(node, scope));
      return Flow::normal;
    }
    case StmtKind::call_block:
      exec_call_block(*static_cast<const CallBlockStmt*>(stmt), scope);
      return Flow::normal;
    case StmtKind::filter_block:
      exec_filter_block(*static_cast<const FilterBlockStmt*>(stmt), scope);
      return Flow::normal;
    case StmtKind::with:
      return exec_with(*static_cast<const WithStmt*>(stmt), scope);
    case StmtKind::scope:
      return exec_scope(*static_cast<const ScopeStmt*>(stmt), scope);
    case StmtKind::break_:
      return Flow::break_loop;
    case StmtKind::continue_:
      return Flow::continue_loop;
  }
  return Flow::normal;
}

Evaluator::Flow Evaluator::exec_if(const IfStmt& stmt, Scope* scope) {
  for (const IfStmt::Branch& branch : stmt.branches) {
    runtime_.line = branch.line;
    if (truth(eval(branch.test, scope))) return exec_body(branch.body, scope);
  }
  return exec_body(stmt.otherwise, scope);
}

Evaluator::Flow Evaluator::exec_for(const ForNode& node, Scope* scope) {
  const Value source = eval(node.source, scope);
  runtime_.line = node.line;
  run_loop(node, scope, source, 0);
  return Flow::normal;
}

// The items for which the condition of the for statement holds.
Iterator* Evaluator::filtered(const ForNode& node, Scope* scope, const Value& source) {
  const Stacked base = stack_on(runtime_, source);
  Iterator* out = make_iterator(
      runtime_, [this, &node, scope, from = base.iterator](Runtime& runtime, Value& item) {
        while (from->next(runtime, item)) {
          const OwnScope own(*this, scope, node.test_fresh);
          assign(node.target, item, own.get());
          if (truth(eval(node.test, own.get()))) return true;
        }
        return false;
      });
  out->depth = base.depth;
  return out;
}

void Evaluator::run_loop(const ForNode& node, Scope* scope, const Value& source, int64_t depth0) {
  Iterator* iterator =
      node.test != nullptr ? filtered(node, scope, source) : iterate(runtime_, source);
  Loop* loop = nullptr;
  if (node.uses_loop) {
    loop = runtime_.make<Loop>(0);
    loop->node = &node;
    loop->scope = scope;
    loop->source = source;
    loop->source_has_length = node.test == nullptr;
    loop->iterator = iterator;
    loop->depth0 = depth0;
    // The loop variable can outlive the statement, and these two come back to its scope.
    if (node.recursive || node.test != nullptr) keep(scope);
  }
  // As in jinja2, a break or continue leaves the else branch open.
  bool completed = false;
  OwnScope own(*this, scope, node.body_fresh);
  Value item;
  while (loop != nullptr ? loop->advance(runtime_) : iterator->next(runtime_, item)) {
    runtime_.step();
    if (loop != nullptr) {
      item = loop->current;
      set(*own.get(), k_name_loop, Value::of(Kind::loop, loop));
    }
    runtime_.line = node.line;
    assign(node.target, item, own.get());
    const Flow flow = exec_body(node.body, own.get());
    own.renew();
    if (flow == Flow::break_loop) break;
    if (flow == Flow::normal) completed = true;
    runtime_.line = node.line;
  }
  if (completed) return;
  const OwnScope other(*this, scope, node.otherwise_fresh);
  exec_body(node.otherwise, other.get());
}

Value Evaluator::recurse(Loop& loop, const Value& items) {
  if (!loop.node->recursive) {
    runtime_.fail("The loop must have the 'recursive' marker to be called recursively.");
  }
  const NestedCall nested(runtime_);
  const uint32_t line = runtime_.line;
  Capture capture(*this);
  run_loop(*loop.node, loop.scope, items, loop.depth0 + 1);
  runtime_.line = line;
  return capture.take();
}

void Evaluator::exec_set_block(const SetBlockStmt& stmt, Scope* scope) {
  const OwnScope own(*this, scope, stmt.fresh);
  Value value;
  {
    Capture capture(*this);
    exec_body(stmt.body, own.get());
    value = capture.take();
  }
  runtime_.line = stmt.line;
  if (stmt.filter != nullptr) value = eval_filter(*stmt.filter, own.get(), &value);
  assign(stmt.target, value, scope);
}

void Evaluator::exec_filter_block(const FilterBlockStmt& stmt, Scope* scope) {
  const OwnScope own(*this, scope, stmt.fresh);
  Value value;
  {
    Capture capture(*this);
    exec_body(stmt.body, own.get());
    value = capture.take();
  }
  emit_text(eval_filter(*stmt.filter, own.get(), &value));
}

void Evaluator::exec_call_block(const CallBlockStmt& stmt, Scope* scope) {
  const Value caller = make_macro(*stmt.caller, scope);
  emit_text(eval_call(*stmt.call, scope, &caller));
}

Evaluator::Flow Evaluator::exec_with(const WithStmt& stmt, Scope* scope) {
  const OwnScope own(*this, scope, stmt.fresh);
  for (const auto& [target, value] : stmt.values) assign(target, eval(value, scope), own.get());
  return exec_body(stmt.body, own.get());
}

Evaluator::Flow Evaluator::exec_scope(const ScopeStmt& stmt, Scope* scope) {
  const OwnScope own(*this, scope, stmt.fresh);
  return exec_body(stmt.body, own.get());
}

void Evaluator::keep(Scope* scope) {
  for (; scope != nullptr && !scope->captured; scope = scope->parent) scope->captured = true;
}

Value Evaluator::make_macro(const MacroNode& node, Scope* scope) {
  keep(scope);
  Macro* macro = runtime_.make<Macro>(0);
  macro->node = &node;
  macro->scope = scope;
  return Value::of(Kind::macro, macro);
}

Value Evaluator::invoke(Macro& macro, const CallArgs& args) {
  const NestedCall nested(runtime_);
  const Nested level(runtime_);
  const uint32_t line = runtime_.line;
  const OwnScope own(*this, macro.scope, macro.node->fresh);
  Capture capture(*this);
  bind(*macro.node, args, own.get());
  exec_body(macro.node->body, own.get());
  runtime_.line = line;
  return capture.take();
}

// Gives the parameters of a macro their values: by position, by name, by default.
void Evaluator::bind(const MacroNode& node, const CallArgs& args, Scope* scope) {
  const auto show = [&] {
    return node.name != nullptr ? quoted(node.name->text.bytes()) : std::string("None");
  };
  const auto& parameters = node.parameters;
  const size_t by_position = std::min(args.positional.size(), parameters.size());
  std::vector<bool> used(args.named.size(), false);
  const auto take_named = [&](const String* name) -> const Value* {
    runtime_.step(args.named.size());
    runtime_.work(name->text.size());
    for (size_t i = 0; i < args.named.size(); ++i) {
      if (used[i] || args.named[i].first->text.bytes() != name->text.bytes()) continue;
      used[i] = true;
      return &args.named[i].second;
    }
    return nullptr;
  };

  bool found_caller = false;
  std::vector<const Value*> given(parameters.size(), nullptr);
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (i < by_position) {
      given[i] = &args.positional[i];
    } else {
      given[i] = take_named(parameters[i].name);
    }
    // A caller given by position only counts when all are.
    if (parameters[i].id == k_name_caller &&
        (i >= by_position || by_position == parameters.size())) {
      found_caller = true;
    }
  }
  if (node.uses_caller && !found_caller) {
    const Value* caller = take_named(caller_name_);
    const bool none = caller == nullptr || caller->is_none();
    set(*scope, k_name_caller, none ? runtime_.undefined("No caller defined") : *caller);
  }
  if (node.uses_kwargs) {
    Dict* rest = runtime_.dict();
    for (size_t i = 0; i < args.named.size(); ++i) {
      if (used[i]) continue;
      runtime_.set(*rest, Value::of(const_cast<String*>(args.named[i].first)),
                   args.named[i].second);
    }
    set(*scope, k_name_kwargs, Value::of(Kind::dict, rest));
  } else {
    for (size_t i = 0; i < args.named.size(); ++i) {
      if (used[i]) continue;
      if (args.named[i].first->text.bytes() == caller_name_->text.bytes()) {
        runtime_.fail(
            "macro {} was invoked with two values for the special caller argument. This is most "
            "likely a bug.",
            show());
      }
      runtime_.fail("macro {} takes no keyword argument {}", show(),
                    quoted(args.named[i].first->text.bytes()));
    }
  }
  if (node.uses_varargs) {
    set(*scope, k_name_varargs,
        runtime_.tuple({args.positional.begin() + static_cast<std::ptrdiff_t>(by_position),
                        args.positional.end()}));
  } else if (args.positional.size() > parameters.size()) {
    runtime_.fail("macro {} takes not more than {} argument(s)", show(), parameters.size());
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (given[i] != nullptr) set(*scope, parameters[i].id, *given[i]);
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (given[i] != nullptr) continue;
    const Expr* fallback = parameters[i].fallback;
    set(*scope, parameters[i].id,
        fallback != nullptr
            ? eval(fallback, scope)
            : runtime_.undefined("parameter " + quoted(parameters[i].name->text.bytes()) +
                                 " was not provided"));
  }
}

void Evaluator::assign(const Target& target, const Value& value, Scope* scope) {
  switch (target.kind) {
    case Target::Kind::name:
      set(*scope, target.name, value);
      return;
    case Target::Kind::attribute: {
      const Value space = lookup(target.name, scope);
      if (!space.is(Kind::space)) {
        runtime_.fail("cannot assign attribute on non-namespace object");
      }
      runtime_.set(*space.space().attributes, Value::of(const_cast<String*>(target.attribute)),
                   value);
      return;
    }
    case Target::Kind::tuple:
      unpack(target, value, scope);
  }
}

void Evaluator::unpack(const Target& target, const Value& value, Scope* scope) {
  const size_t wanted = target.items.size();
  std::vector<Value> items;
  items.reserve(wanted);
  if (!can_iterate(value)) {
    runtime_.fail("cannot unpack non-iterable {} object", type_name(value));
  }
  Iterator* iterator = iterate(runtime_, value);
  Value item;
  while (iterator->next(runtime_, item)) {
    if (items.size() == wanted) runtime_.fail("too many values to unpack (expected {})", wanted);
    items.push_back(item);
  }
  if (items.size() < wanted) {
    runtime_.fail("not enough values to unpack (expected {}, got {})", wanted, items.size());
  }
  for (size_t i = 0; i < wanted; ++i) assign(target.items[i], items[i], scope);
}

}  // namespace strata::text::jinja
