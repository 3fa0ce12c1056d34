// Expressions.
#include "text/jinja/attributes.h"
#include "text/jinja/evaluator.h"
#include "text/jinja/filters.h"
#include "text/jinja/operators.h"
#include "text/jinja/str.h"

namespace strata::text::jinja {

Value Evaluator::eval(const Expr* expr, Scope* scope) {
  runtime_.step();
  if (expr->kind == ExprKind::constant) return static_cast<const ConstantExpr*>(expr)->value;
  if (expr->kind == ExprKind::name) return lookup(static_cast<const NameExpr*>(expr)->id, scope);
  const Nested nested(runtime_);
  return eval_node(expr, scope);
}

Value Evaluator::eval_node(const Expr* expr, Scope* scope) {
  switch (expr->kind) {
    case ExprKind::constant:
    case ExprKind::name:
      break;
    case ExprKind::tuple:
    case ExprKind::list:
      return eval_sequence(*static_cast<const ItemsExpr*>(expr), scope);
    case ExprKind::dict:
      return eval_dict(*static_cast<const DictExpr*>(expr), scope);
    case ExprKind::negate:
    case ExprKind::positive:
    case ExprKind::not_:
      return eval_unary(*static_cast<const UnaryExpr*>(expr), scope);
    case ExprKind::and_:
    case ExprKind::or_:
    case ExprKind::binary:
      return eval_binary(*static_cast<const BinaryExpr*>(expr), scope);
    case ExprKind::concat:
      return eval_concat(*static_cast<const ItemsExpr*>(expr), scope);
    case ExprKind::compare:
      return eval_compare(*static_cast<const CompareExpr*>(expr), scope);
    case ExprKind::conditional:
      return eval_conditional(*static_cast<const ConditionalExpr*>(expr), scope);
    case ExprKind::attribute:
      return eval_attribute(*static_cast<const AttributeExpr*>(expr), scope);
    case ExprKind::item:
      return eval_item(*static_cast<const ItemExpr*>(expr), scope);
    case ExprKind::slice:
      return eval_slice(*static_cast<const SliceExpr*>(expr), scope);
    case ExprKind::call:
      return eval_call(*static_cast<const CallExpr*>(expr), scope, nullptr);
    case ExprKind::filter:
      return eval_filter(*static_cast<const FilterExpr*>(expr), scope, nullptr);
    case ExprKind::test:
      return eval_test(*static_cast<const TestExpr*>(expr), scope);
  }
  return {};
}

Value Evaluator::lookup(NameId id, Scope* scope) {
  for (const Scope* at = scope; at != nullptr; at = at->parent) {
    runtime_.step(at->variables.size() / 16);
    if (const Value* found = at->find(id)) return *found;
  }
  return global(id);
}

Value Evaluator::global(NameId id) {
  std::optional<Value>& known = globals_[id];
  if (known) return *known;
  const std::string& name = tree_.names[id]->text.bytes();
  if (const Json* json = variables_.find(name)) {
    const bool trusted = std::find(trusted_.begin(), trusted_.end(), name) != trusted_.end();
    known = from_json(runtime_, *json, trusted);
  } else if (const FunctionDef* function = find_global(name)) {
    known = Value::of(function);
  } else {
    known = Value::undefined(tree_.names[id], Value::k_undefined_name);
  }
  return *known;
}

Value Evaluator::eval_sequence(const ItemsExpr& expr, Scope* scope) {
  std::vector<Value> items;
  items.reserve(expr.items.size());
  for (const Expr* item : expr.items) items.push_back(eval(item, scope));
  return expr.kind == ExprKind::list ? runtime_.list(std::move(items))
                                     : runtime_.tuple(std::move(items));
}

Value Evaluator::eval_dict(const DictExpr& expr, Scope* scope) {
  Dict* dict = runtime_.dict();
  for (const auto& [key_expr, value_expr] : expr.items) {
    const Value key = eval(key_expr, scope);
    const Value value = eval(value_expr, scope);
    runtime_.line = expr.line;
    runtime_.set(*dict, key, value);
  }
  return Value::of(Kind::dict, dict);
}

Value Evaluator::eval_unary(const UnaryExpr& expr, Scope* scope) {
  const Value value = eval(expr.operand, scope);
  runtime_.line = expr.line;
  switch (expr.kind) {
    case ExprKind::negate:
      return negate(runtime_, value);
    case ExprKind::positive:
      return positive(runtime_, value);
    default:
      return Value::of(!truth(value));
  }
}

Value Evaluator::eval_binary(const BinaryExpr& expr, Scope* scope) {
  const Value left = eval(expr.left, scope);
  if (expr.kind == ExprKind::and_) return truth(left) ? eval(expr.right, scope) : left;
  if (expr.kind == ExprKind::or_) return truth(left) ? left : eval(expr.right, scope);
  const Value right = eval(expr.right, scope);
  runtime_.line = expr.line;
  return binary(runtime_, expr.op, left, right);
}

Value Evaluator::eval_concat(const ItemsExpr& expr, Scope* scope) {
  Text out;
  for (const Expr* item : expr.items) {
    const Value value = eval(item, scope);
    const size_t more = value.is_string() ? value.string().text.cost() : 0;
    runtime_.require_bytes(out.cost() + more);
    append_str(runtime_, out, value);
  }
  return runtime_.text(std::move(out));
}

Value Evaluator::eval_compare(const CompareExpr& expr, Scope* scope) {
  Value left = eval(expr.first, scope);
  for (const auto& [op, right_expr] : expr.rest) {
    const Value right = eval(right_expr, scope);
    runtime_.line = expr.line;
    if (!compare(runtime_, op, left, right)) return Value::of(false);
    left = right;
  }
  return Value::of(true);
}

Value Evaluator::eval_conditional(const ConditionalExpr& expr, Scope* scope) {
  if (truth(eval(expr.test, scope))) return eval(expr.then, scope);
  if (expr.otherwise != nullptr) return eval(expr.otherwise, scope);
  return runtime_.undefined(
      fmt::format("the inline if-expression on line {} evaluated to false and no else section was "
                  "defined.",
                  expr.line));
}

Value Evaluator::eval_attribute(const AttributeExpr& expr, Scope* scope) {
  const Value object = eval(expr.object, scope);
  runtime_.line = expr.line;
  return get_attribute(runtime_, object, expr.name);
}

Value Evaluator::eval_item(const ItemExpr& expr, Scope* scope) {
  const Value object = eval(expr.object, scope);
  const Value key = eval(expr.key, scope);
  runtime_.line = expr.line;
  return get_item(runtime_, object, key);
}

Value Evaluator::eval_slice(const SliceExpr& expr, Scope* scope) {
  if (expr.object == nullptr) runtime_.fail("a slice cannot stand among several keys");
  const Value object = eval(expr.object, scope);
  const auto bound = [&](const Expr* part) {
    return part != nullptr ? eval(part, scope) : Value::none();
  };
  const Value start = bound(expr.start);
  const Value stop = bound(expr.stop);
  const Value step = bound(expr.step);
  runtime_.line = expr.line;
  return get_slice(runtime_, object, start, stop, step);
}

void Evaluator::eval_arguments(const Arguments& arguments, Scope* scope, CallArgs& out) {
  out.positional.reserve(arguments.positional.size());
  for (const Expr* value : arguments.positional) out.positional.push_back(eval(value, scope));
  for (const auto& [name, value] : arguments.named)
    out.named.emplace_back(name, eval(value, scope));
  if (arguments.more_positional != nullptr || arguments.more_named != nullptr) {
    eval_more_arguments(arguments, scope, out);
  }
}

// *args and **kwargs.
void Evaluator::eval_more_arguments(const Arguments& arguments, Scope* scope, CallArgs& out) {
  if (arguments.more_positional != nullptr) {
    const Value more = eval(arguments.more_positional, scope);
    for (const Value& value : items_of(runtime_, more)) out.positional.push_back(value);
  }
  if (arguments.more_named == nullptr) return;
  const Value more = eval(arguments.more_named, scope);
  require_defined(runtime_, more);
  if (!more.is(Kind::dict)) runtime_.fail("argument after ** must be a mapping");
  for (const Dict::Entry& entry : more.dict().entries()) {
    if (!entry.live) continue;
    runtime_.step(1 + arguments.named.size());
    if (!entry.key.is_string()) runtime_.fail("keywords must be strings");
    for (const auto& [name, value] : arguments.named) {
      if (name->text.bytes() == entry.key.bytes()) {
        runtime_.fail("got multiple values for keyword argument {}", quoted(entry.key.bytes()));
      }
    }
    out.named.emplace_back(entry.key.string_pointer(), entry.value);
  }
}

Value Evaluator::eval_call(const CallExpr& expr, Scope* scope, const Value* caller) {
  CallArgs args;
  const auto fill = [&] {
    eval_arguments(expr.arguments, scope, args);
    if (caller != nullptr) args.named.emplace_back(caller_name_, *caller);
    runtime_.line = expr.line;
  };
  if (expr.callee->kind == ExprKind::attribute) {
    const auto& attribute = *static_cast<const AttributeExpr*>(expr.callee);
    const Value object = eval(attribute.object, scope);
    runtime_.line = attribute.line;
    require_defined(runtime_, object);
    // The usual case: no bound method need be made.
    if (const MethodDef* method = find_method(object, attribute.name->text.bytes())) {
      fill();
      return call_method(runtime_, *method, object, args);
    }
    const Value callee = get_attribute(runtime_, object, attribute.name);
    fill();
    return call(runtime_, callee, args);
  }
  const Value callee = eval(expr.callee, scope);
  fill();
  return call(runtime_, callee, args);
}

Value Evaluator::eval_filter(const FilterExpr& expr, Scope* scope, const Value* body) {
  Value subject;
  if (expr.subject == nullptr) {
    subject = *body;
  } else if (expr.subject->kind == ExprKind::filter) {
    // A chain over the body of a block ends in a filter without a subject.
    const Nested nested(runtime_);
    subject = eval_filter(*static_cast<const FilterExpr*>(expr.subject), scope, body);
  } else {
    subject = eval(expr.subject, scope);
  }
  CallArgs args;
  eval_arguments(expr.arguments, scope, args);
  runtime_.line = expr.line;
  runtime_.step();
  if (expr.filter == nullptr) runtime_.fail("No filter named {} found.", quoted(expr.name));
  return expr.filter->apply(runtime_, subject, args);
}

Value Evaluator::eval_test(const TestExpr& expr, Scope* scope) {
  const Value subject = eval(expr.subject, scope);
  CallArgs args;
  eval_arguments(expr.arguments, scope, args);
  runtime_.line = expr.line;
  if (expr.test == nullptr) runtime_.fail("No test named {} found.", quoted(expr.name));
  return Value::of(expr.test->holds(runtime_, subject, args));
}

}  // namespace strata::text::jinja
