// Expressions.
#include <unordered_set>

#include "text/jinja/filters.h"
#include "text/jinja/parser.h"
#include "text/jinja/str.h"

namespace strata::text::jinja {

const Expr* Parser::constant(const Value& value, uint32_t line) {
  auto* node = tree_.make<ConstantExpr>(line);
  node->value = value;
  return node;
}

const Expr* Parser::binary(ExprKind kind, BinaryOp op, const Expr* left, const Expr* right,
                           uint32_t line) {
  auto* node = tree_.make<BinaryExpr>(line, kind);
  node->op = op;
  node->left = left;
  node->right = right;
  return node;
}

std::string Parser::dotted_name() {
  std::string name = expect_any_name().text;
  while (skip_op(".")) name += "." + expect_any_name().text;
  return name;
}

const Expr* Parser::parse_expression(bool with_conditional) {
  return with_conditional ? parse_conditional() : parse_or();
}

const Expr* Parser::parse_conditional() {
  const Nesting nesting(*this);
  const size_t unknown = unknown_.size();
  uint32_t line = current().line;
  const Expr* value = parse_or();
  while (skip_name("if")) {
    auto* node = tree_.make<ConditionalExpr>(line);
    node->then = value;
    node->test = parse_or();
    if (skip_name("else")) node->otherwise = parse_conditional();
    value = node;
    forgive_unknown(unknown);
    line = current().line;
  }
  return value;
}

const Expr* Parser::parse_or() {
  uint32_t line = current().line;
  const Expr* left = parse_and();
  while (skip_name("or")) {
    left = binary(ExprKind::or_, BinaryOp::add, left, parse_and(), line);
    line = current().line;
  }
  return left;
}

const Expr* Parser::parse_and() {
  uint32_t line = current().line;
  const Expr* left = parse_not();
  while (skip_name("and")) {
    left = binary(ExprKind::and_, BinaryOp::add, left, parse_not(), line);
    line = current().line;
  }
  return left;
}

const Expr* Parser::parse_not() {
  if (!current().is_name("not")) return parse_compare();
  const Nesting nesting(*this);
  auto* node = tree_.make<UnaryExpr>(next().line, ExprKind::not_);
  node->operand = parse_not();
  return node;
}

const Expr* Parser::parse_compare() {
  struct Symbol {
    std::string_view text;
    CompareOp op;
  };
  static constexpr Symbol k_symbols[] = {{"==", CompareOp::eq}, {"!=", CompareOp::ne},
                                         {"<", CompareOp::lt},  {"<=", CompareOp::le},
                                         {">", CompareOp::gt},  {">=", CompareOp::ge}};
  const uint32_t line = current().line;
  const Expr* first = parse_sum();
  CompareExpr* node = nullptr;
  const auto add = [&](CompareOp op) {
    if (node == nullptr) {
      node = tree_.make<CompareExpr>(line);
      node->first = first;
    }
    node->rest.emplace_back(op, parse_sum());
  };
  while (true) {
    const Symbol* found = nullptr;
    for (const Symbol& symbol : k_symbols) {
      if (current().is_op(symbol.text)) found = &symbol;
    }
    if (found != nullptr) {
      next();
      add(found->op);
    } else if (skip_name("in")) {
      add(CompareOp::in);
    } else if (current().is_name("not") && peek().is_name("in")) {
      next();
      next();
      add(CompareOp::not_in);
    } else {
      break;
    }
  }
  return node == nullptr ? first : node;
}

const Expr* Parser::parse_sum() {
  uint32_t line = current().line;
  const Expr* left = parse_concat();
  while (current().is_op("+") || current().is_op("-")) {
    const BinaryOp op = next().text == "+" ? BinaryOp::add : BinaryOp::sub;
    left = binary(ExprKind::binary, op, left, parse_concat(), line);
    line = current().line;
  }
  return left;
}

const Expr* Parser::parse_concat() {
  const uint32_t line = current().line;
  const Expr* first = parse_product();
  if (!current().is_op("~")) return first;
  auto* node = tree_.make<ItemsExpr>(line, ExprKind::concat);
  node->items.push_back(first);
  while (skip_op("~")) node->items.push_back(parse_product());
  return node;
}

const Expr* Parser::parse_product() {
  uint32_t line = current().line;
  const Expr* left = parse_power();
  while (current().is_op("*") || current().is_op("/") || current().is_op("//") ||
         current().is_op("%")) {
    const std::string& symbol = next().text;
    const BinaryOp op = symbol == "*"    ? BinaryOp::mul
                        : symbol == "/"  ? BinaryOp::div
                        : symbol == "//" ? BinaryOp::floor_div
                                         : BinaryOp::mod;
    left = binary(ExprKind::binary, op, left, parse_power(), line);
    line = current().line;
  }
  return left;
}

const Expr* Parser::parse_power() {
  uint32_t line = current().line;
  const Expr* left = parse_unary();
  while (skip_op("**")) {
    left = binary(ExprKind::binary, BinaryOp::pow, left, parse_unary(), line);
    line = current().line;
  }
  return left;
}

const Expr* Parser::parse_unary(bool with_filter) {
  const Expr* expr = nullptr;
  if (current().is_op("-") || current().is_op("+")) {
    const Nesting nesting(*this);
    const Token& sign = next();
    auto* node =
        tree_.make<UnaryExpr>(sign.line, sign.text == "-" ? ExprKind::negate : ExprKind::positive);
    node->operand = parse_unary(false);
    expr = node;
  } else {
    expr = parse_primary();
  }
  expr = parse_postfix(expr);
  return with_filter ? parse_filters_and_tests(expr) : expr;
}

const Expr* Parser::parse_primary() {
  const Token& token = current();
  switch (token.kind) {
    case TokenKind::name: {
      next();
      if (token.text == "true" || token.text == "True") {
        return constant(Value::of(true), token.line);
      }
      if (token.text == "false" || token.text == "False") {
        return constant(Value::of(false), token.line);
      }
      if (token.text == "none" || token.text == "None") return constant(Value::none(), token.line);
      auto* node = tree_.make<NameExpr>(token.line);
      node->id = intern(token.text);
      note_load(node->id);
      return node;
    }
    case TokenKind::string: {
      next();
      std::string text = token.text;
      while (current().kind == TokenKind::string) text += next().text;
      return constant(Value::of(tree_.string(text)), token.line);
    }
    case TokenKind::integer:
      next();
      return constant(Value::of(token.integer), token.line);
    case TokenKind::real:
      next();
      return constant(Value::of(token.real), token.line);
    case TokenKind::op:
      if (token.text == "(") {
        next();
        const Expr* inner = parse_tuple(true, true);
        expect_op(")");
        return inner;
      }
      if (token.text == "[") return parse_list();
      if (token.text == "{") return parse_dict();
      [[fallthrough]];
    default:
      break;
  }
  fail("unexpected " + quoted(describe(token)));
}

bool Parser::at_tuple_end() const {
  return current().kind == TokenKind::variable_end || current().kind == TokenKind::block_end ||
         current().is_op(")");
}

const Expr* Parser::parse_tuple(bool with_conditional, bool explicit_parentheses) {
  uint32_t line = current().line;
  std::vector<const Expr*> items;
  bool is_tuple = false;
  while (true) {
    if (!items.empty()) expect_op(",");
    if (at_tuple_end()) break;
    items.push_back(parse_expression(with_conditional));
    if (!current().is_op(",")) break;
    is_tuple = true;
    line = current().line;
  }
  if (!is_tuple) {
    if (!items.empty()) return items[0];
    if (!explicit_parentheses) {
      fail("Expected an expression, got " + quoted(describe(current())));
    }
  }
  auto* node = tree_.make<ItemsExpr>(line, ExprKind::tuple);
  node->items = std::move(items);
  return node;
}

const Expr* Parser::parse_list() {
  auto* node = tree_.make<ItemsExpr>(expect_op("[").line, ExprKind::list);
  while (!current().is_op("]")) {
    if (!node->items.empty()) expect_op(",");
    if (current().is_op("]")) break;
    node->items.push_back(parse_expression());
  }
  expect_op("]");
  return node;
}

const Expr* Parser::parse_dict() {
  auto* node = tree_.make<DictExpr>(expect_op("{").line);
  while (!current().is_op("}")) {
    if (!node->items.empty()) expect_op(",");
    if (current().is_op("}")) break;
    const Expr* key = parse_expression();
    expect_op(":");
    node->items.emplace_back(key, parse_expression());
  }
  expect_op("}");
  return node;
}

const Expr* Parser::parse_postfix(const Expr* expr) {
  while (true) {
    if (current().is_op(".") || current().is_op("[")) {
      expr = parse_subscript(expr);
    } else if (current().is_op("(")) {
      expr = parse_call(expr);
    } else {
      return expr;
    }
  }
}

const Expr* Parser::parse_filters_and_tests(const Expr* expr) {
  while (true) {
    if (current().is_op("|")) {
      expr = parse_filter(expr, false);
    } else if (current().is_name("is")) {
      expr = parse_test(expr);
    } else if (current().is_op("(")) {
      expr = parse_call(expr);
    } else {
      return expr;
    }
  }
}

const Expr* Parser::parse_subscript(const Expr* object) {
  const Token& token = next();
  if (token.text == ".") {
    const Token& attribute = next();
    if (attribute.kind == TokenKind::name) {
      auto* node = tree_.make<AttributeExpr>(token.line);
      node->object = object;
      node->name = string(attribute.text);
      return node;
    }
    if (attribute.kind != TokenKind::integer) fail("expected name or number", attribute.line);
    auto* node = tree_.make<ItemExpr>(token.line);
    node->object = object;
    node->key = constant(Value::of(attribute.integer), attribute.line);
    return node;
  }
  std::vector<const Expr*> keys;
  while (!current().is_op("]")) {
    if (!keys.empty()) expect_op(",");
    keys.push_back(parse_subscribed());
  }
  expect_op("]");
  if (keys.size() == 1 && keys[0]->kind == ExprKind::slice) {
    // The node was just made by parse_subscribed and is only known here.
    auto* slice = const_cast<SliceExpr*>(static_cast<const SliceExpr*>(keys[0]));
    slice->object = object;
    slice->line = token.line;
    return slice;
  }
  auto* node = tree_.make<ItemExpr>(token.line);
  node->object = object;
  if (keys.size() == 1) {
    node->key = keys[0];
  } else {
    auto* tuple = tree_.make<ItemsExpr>(token.line, ExprKind::tuple);
    tuple->items = std::move(keys);
    node->key = tuple;
  }
  return node;
}

const Expr* Parser::parse_subscribed() {
  const uint32_t line = current().line;
  const Expr* start = nullptr;
  if (!current().is_op(":")) {
    start = parse_expression();
    if (!current().is_op(":")) return start;
  }
  expect_op(":");
  auto* node = tree_.make<SliceExpr>(line);
  node->start = start;
  const auto ends = [&] { return current().is_op("]") || current().is_op(","); };
  if (!current().is_op(":") && !ends()) node->stop = parse_expression();
  if (skip_op(":") && !ends()) node->step = parse_expression();
  return node;
}

void Parser::parse_arguments(Arguments& out) {
  const uint32_t line = expect_op("(").line;
  const auto ensure = [&](bool valid) {
    if (!valid) fail("invalid syntax for function call expression", line);
  };
  std::unordered_set<const String*> names;
  bool comma = false;
  while (!current().is_op(")")) {
    if (comma) {
      expect_op(",");
      if (current().is_op(")")) break;
    }
    if (current().is_op("*")) {
      ensure(out.more_positional == nullptr && out.more_named == nullptr);
      next();
      out.more_positional = parse_expression();
    } else if (current().is_op("**")) {
      ensure(out.more_named == nullptr);
      next();
      out.more_named = parse_expression();
    } else if (current().kind == TokenKind::name && peek().is_op("=")) {
      ensure(out.more_named == nullptr);
      const String* name = string(next().text);
      next();
      // Equal names are one interned string.
      if (!names.insert(name).second) fail("keyword argument repeated: " + name->text.bytes());
      out.named.emplace_back(name, parse_expression());
    } else {
      ensure(out.more_positional == nullptr && out.more_named == nullptr && out.named.empty());
      out.positional.push_back(parse_expression());
    }
    comma = true;
  }
  expect_op(")");
}

const CallExpr* Parser::parse_call(const Expr* callee) {
  auto* node = tree_.make<CallExpr>(current().line);
  node->callee = callee;
  parse_arguments(node->arguments);
  return node;
}

const FilterExpr* Parser::parse_filter(const Expr* subject, bool inline_start) {
  const FilterExpr* out = nullptr;
  while (inline_start || current().is_op("|")) {
    if (!inline_start) next();
    inline_start = false;
    auto* node = tree_.make<FilterExpr>(current().line);
    node->name = dotted_name();
    node->filter = find_filter(node->name);
    if (node->filter == nullptr) {
      unknown_.push_back({"No filter named " + quoted(node->name) + ".", node->line});
    }
    if (current().is_op("(")) parse_arguments(node->arguments);
    node->subject = out != nullptr ? out : subject;
    out = node;
  }
  return out;
}

const Expr* Parser::parse_test(const Expr* subject) {
  auto* node = tree_.make<TestExpr>(next().line);
  const bool negated = skip_name("not");
  node->subject = subject;
  node->name = dotted_name();
  node->test = find_test(node->name);
  if (node->test == nullptr) {
    unknown_.push_back({"No test named " + quoted(node->name) + ".", node->line});
  }
  if (current().is_op("(")) {
    parse_arguments(node->arguments);
  } else {
    const TokenKind kind = current().kind;
    const bool operand = kind == TokenKind::string || kind == TokenKind::integer ||
                         kind == TokenKind::real || current().is_op("[") || current().is_op("{") ||
                         kind == TokenKind::name;
    if (operand && !current().is_name("else") && !current().is_name("or") &&
        !current().is_name("and")) {
      if (current().is_name("is")) fail("You cannot chain multiple tests with is");
      node->arguments.positional.push_back(parse_postfix(parse_primary()));
    }
  }
  if (!negated) return node;
  auto* inverse = tree_.make<UnaryExpr>(node->line, ExprKind::not_);
  inverse->operand = node;
  return inverse;
}

}  // namespace strata::text::jinja
