// The tree a template is parsed into.
//
// Ownership: nodes and string constants belong to a Tree and point to each other freely; freeing is
// not recursive.
// Threads: constant after parsing.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/operators.h"
#include "text/jinja/value.h"

namespace strata::text::jinja {

struct FilterDef;
struct TestDef;

// Index of a variable's name in Tree::names.
using NameId = uint32_t;

enum class ExprKind : uint8_t {
  constant,
  name,
  tuple,
  list,
  dict,
  negate,
  positive,
  not_,
  and_,
  or_,
  binary,
  concat,
  compare,
  conditional,
  attribute,
  item,
  slice,
  call,
  filter,
  test,
};

struct Node {
  virtual ~Node() = default;
  uint32_t line = 0;
};

struct Expr : Node {
  explicit Expr(ExprKind what) : kind(what) {}
  ExprKind kind;
};

struct ConstantExpr final : Expr {
  ConstantExpr() : Expr(ExprKind::constant) {}
  Value value;
};

struct NameExpr final : Expr {
  NameExpr() : Expr(ExprKind::name) {}
  NameId id = 0;
};

// tuple, list; concat too.
struct ItemsExpr final : Expr {
  using Expr::Expr;
  std::vector<const Expr*> items;
};

struct DictExpr final : Expr {
  DictExpr() : Expr(ExprKind::dict) {}
  std::vector<std::pair<const Expr*, const Expr*>> items;
};

// negate, positive, not_.
struct UnaryExpr final : Expr {
  using Expr::Expr;
  const Expr* operand = nullptr;
};

// binary, and_, or_.
struct BinaryExpr final : Expr {
  using Expr::Expr;
  BinaryOp op = BinaryOp::add;
  const Expr* left = nullptr;
  const Expr* right = nullptr;
};

struct CompareExpr final : Expr {
  CompareExpr() : Expr(ExprKind::compare) {}
  const Expr* first = nullptr;
  std::vector<std::pair<CompareOp, const Expr*>> rest;
};

struct ConditionalExpr final : Expr {
  ConditionalExpr() : Expr(ExprKind::conditional) {}
  const Expr* test = nullptr;
  const Expr* then = nullptr;
  const Expr* otherwise = nullptr;  // may be absent
};

struct AttributeExpr final : Expr {
  AttributeExpr() : Expr(ExprKind::attribute) {}
  const Expr* object = nullptr;
  const String* name = nullptr;
};

struct ItemExpr final : Expr {
  ItemExpr() : Expr(ExprKind::item) {}
  const Expr* object = nullptr;
  const Expr* key = nullptr;
};

// Without an object: a slice inside a[b:c, d], which no type accepts.
struct SliceExpr final : Expr {
  SliceExpr() : Expr(ExprKind::slice) {}
  const Expr* object = nullptr;
  const Expr* start = nullptr;
  const Expr* stop = nullptr;
  const Expr* step = nullptr;
};

struct Arguments {
  std::vector<const Expr*> positional;
  std::vector<std::pair<const String*, const Expr*>> named;
  const Expr* more_positional = nullptr;  // *args
  const Expr* more_named = nullptr;       // **kwargs
};

struct CallExpr final : Expr {
  CallExpr() : Expr(ExprKind::call) {}
  const Expr* callee = nullptr;
  Arguments arguments;
};

struct FilterExpr final : Expr {
  FilterExpr() : Expr(ExprKind::filter) {}
  const Expr* subject = nullptr;  // absent: the body of a block
  const FilterDef* filter = nullptr;
  std::string name;  // for the message when there is no such filter
  Arguments arguments;
};

struct TestExpr final : Expr {
  TestExpr() : Expr(ExprKind::test) {}
  const Expr* subject = nullptr;
  const TestDef* test = nullptr;
  std::string name;
  Arguments arguments;
};

enum class StmtKind : uint8_t {
  data,
  print,
  if_,
  for_,
  set,
  set_block,
  macro,
  call_block,
  filter_block,
  with,
  scope,  // a generation block
  break_,
  continue_,
};

struct Stmt : Node {
  explicit Stmt(StmtKind what) : kind(what) {}
  StmtKind kind;
};

using Body = std::vector<const Stmt*>;

// Names that begin undefined in a scope, whatever the request calls so (see scopes.h).
using Fresh = std::vector<NameId>;

struct DataStmt final : Stmt {
  DataStmt() : Stmt(StmtKind::data) {}
  std::string text;
};

struct PrintStmt final : Stmt {
  PrintStmt() : Stmt(StmtKind::print) {}
  const Expr* value = nullptr;
};

struct IfStmt final : Stmt {
  IfStmt() : Stmt(StmtKind::if_) {}
  struct Branch {
    uint32_t line = 0;
    const Expr* test = nullptr;
    Body body;
  };
  std::vector<Branch> branches;
  Body otherwise;
};

// A name, an attribute of a namespace, or a tuple of targets.
struct Target {
  enum class Kind : uint8_t { name, attribute, tuple };
  Kind kind = Kind::name;
  NameId name = 0;
  const String* attribute = nullptr;
  std::vector<Target> items;
};

struct ForNode final : Stmt {
  ForNode() : Stmt(StmtKind::for_) {}
  Target target;
  const Expr* source = nullptr;
  const Expr* test = nullptr;
  bool recursive = false;
  bool uses_loop = false;
  Body body;
  Body otherwise;
  Fresh body_fresh;
  Fresh otherwise_fresh;
  Fresh test_fresh;  // always empty: a condition assigns nothing
};

struct SetStmt final : Stmt {
  SetStmt() : Stmt(StmtKind::set) {}
  Target target;
  const Expr* value = nullptr;
};

struct SetBlockStmt final : Stmt {
  SetBlockStmt() : Stmt(StmtKind::set_block) {}
  Target target;
  const FilterExpr* filter = nullptr;
  Body body;
  Fresh fresh;
};

// A macro; also the body of a call block, which has no name.
struct MacroNode final : Stmt {
  MacroNode() : Stmt(StmtKind::macro) {}
  struct Parameter {
    NameId id = 0;
    const String* name = nullptr;
    const Expr* fallback = nullptr;
  };
  NameId id = 0;
  const String* name = nullptr;
  std::vector<Parameter> parameters;
  // Whether the body speaks of these without declaring them.
  bool uses_caller = false;
  bool uses_kwargs = false;
  bool uses_varargs = false;
  Body body;
  Fresh fresh;
};

struct CallBlockStmt final : Stmt {
  CallBlockStmt() : Stmt(StmtKind::call_block) {}
  const MacroNode* caller = nullptr;
  const CallExpr* call = nullptr;
};

struct FilterBlockStmt final : Stmt {
  FilterBlockStmt() : Stmt(StmtKind::filter_block) {}
  const FilterExpr* filter = nullptr;
  Body body;
  Fresh fresh;
};

struct WithStmt final : Stmt {
  WithStmt() : Stmt(StmtKind::with) {}
  std::vector<std::pair<Target, const Expr*>> values;
  Body body;
  Fresh fresh;
};

struct ScopeStmt final : Stmt {
  ScopeStmt() : Stmt(StmtKind::scope) {}
  Body body;
  Fresh fresh;
};

struct SimpleStmt final : Stmt {
  using Stmt::Stmt;
};

struct Tree {
  template <class T, class... Args>
  T* make(uint32_t line, Args&&... args) {
    auto owned = std::make_unique<T>(std::forward<Args>(args)...);
    owned->line = line;
    T* out = owned.get();
    nodes.push_back(std::move(owned));
    return out;
  }
  // A string constant of the template.
  String* string(std::string_view text) {
    return constants.make<String>(Text(std::string(text), true));
  }

  Body body;
  Fresh fresh;
  std::vector<const String*> names;  // of variables, by NameId
  Heap constants;
  std::vector<std::unique_ptr<Node>> nodes;
};

// Well-known names, interned by every parser in this order.
enum KnownName : NameId {
  k_name_loop,
  k_name_caller,
  k_name_kwargs,
  k_name_varargs,
  k_known_names
};

}  // namespace strata::text::jinja
