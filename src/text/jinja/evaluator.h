// Renders a Tree.
//
// Scopes: as jinja2's. for, macro, call, filter, with and block set open a scope, if does not; a
// name that is not found in the scopes around it is a variable of the request, then a global.
// Threads: one evaluator per rendering; the tree is shared.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "text/jinja/ast.h"
#include "text/jinja/loop.h"
#include "text/jinja/runtime.h"

namespace strata::text::jinja {

struct Scope final : Object {
  Scope* parent = nullptr;
  bool captured = false;  // a macro may still look into it
  std::vector<std::pair<NameId, Value>> variables;

  const Value* find(NameId id) const;
  void set(NameId id, const Value& value);
};

// A JSON value as a template value. `from_template` is the origin of every string in it.
Value from_json(Runtime& runtime, const Json& json, bool from_template);

class Evaluator final : public Invoker {
 public:
  // `trusted` names the variables whose text counts as the template's own.
  Evaluator(const Tree& tree, const Json& variables, const std::vector<std::string>& trusted,
            Runtime& runtime);

  Text run();

  Value invoke(Macro& macro, const CallArgs& args) override;
  Value recurse(Loop& loop, const Value& items) override;

 private:
  enum class Flow : uint8_t { normal, break_loop, continue_loop };
  class Capture;
  class OwnScope;

  // Statements.
  Flow exec_body(const Body& body, Scope* scope);
  Flow exec(const Stmt* stmt, Scope* scope);
  Flow exec_if(const IfStmt& stmt, Scope* scope);
  Flow exec_for(const ForNode& node, Scope* scope);
  void run_loop(const ForNode& node, Scope* scope, const Value& source, int64_t depth0);
  Iterator* filtered(const ForNode& node, Scope* scope, const Value& source);
  void exec_set_block(const SetBlockStmt& stmt, Scope* scope);
  void exec_call_block(const CallBlockStmt& stmt, Scope* scope);
  void exec_filter_block(const FilterBlockStmt& stmt, Scope* scope);
  Flow exec_with(const WithStmt& stmt, Scope* scope);
  Flow exec_scope(const ScopeStmt& stmt, Scope* scope);
  Value make_macro(const MacroNode& node, Scope* scope);
  void bind(const MacroNode& node, const CallArgs& args, Scope* scope);
  void assign(const Target& target, const Value& value, Scope* scope);
  void unpack(const Target& target, const Value& value, Scope* scope);
  void emit(const Value& value);
  void emit_text(const Value& value);

  // Expressions.
  Value eval(const Expr* expr, Scope* scope);
  Value eval_node(const Expr* expr, Scope* scope);
  Value eval_sequence(const ItemsExpr& expr, Scope* scope);
  Value eval_dict(const DictExpr& expr, Scope* scope);
  Value eval_unary(const UnaryExpr& expr, Scope* scope);
  Value eval_binary(const BinaryExpr& expr, Scope* scope);
  Value eval_concat(const ItemsExpr& expr, Scope* scope);
  Value eval_compare(const CompareExpr& expr, Scope* scope);
  Value eval_conditional(const ConditionalExpr& expr, Scope* scope);
  Value eval_attribute(const AttributeExpr& expr, Scope* scope);
  Value eval_item(const ItemExpr& expr, Scope* scope);
  Value eval_slice(const SliceExpr& expr, Scope* scope);
  Value eval_call(const CallExpr& expr, Scope* scope, const Value* caller);
  Value eval_filter(const FilterExpr& expr, Scope* scope, const Value* body);
  Value eval_test(const TestExpr& expr, Scope* scope);
  void eval_arguments(const Arguments& arguments, Scope* scope, CallArgs& out);
  void eval_more_arguments(const Arguments& arguments, Scope* scope, CallArgs& out);
  Value lookup(NameId id, Scope* scope);
  Value global(NameId id);

  Scope* acquire(Scope* parent, const Fresh& fresh);
  void begin(Scope& scope, const Fresh& fresh);
  void set(Scope& scope, NameId id, const Value& value);
  void charge_growth(const Scope& scope, size_t before);
  void release(Scope* scope);
  // Keeps a scope and those around it out of reuse: something may look into it later.
  static void keep(Scope* scope);

  const Tree& tree_;
  const Json& variables_;
  const std::vector<std::string>& trusted_;
  Runtime& runtime_;
  std::vector<std::optional<Value>> globals_;  // by NameId, once looked up
  std::vector<Scope*> free_scopes_;
  size_t scopes_made_ = 0;
  const String* caller_name_;
  Text* out_ = nullptr;
};

}  // namespace strata::text::jinja
