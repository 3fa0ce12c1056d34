// Parses a template into a Tree, with jinja2's grammar.
//
// Errors: Failure with the line and jinja2's reason. Nesting is limited.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"
#include "text/jinja/scopes.h"

namespace strata::text::jinja {

// A token as messages name it.
std::string describe(const Token& token);

// `source` is valid UTF-8.
void parse_template(std::string_view source, Tree& tree);

class Parser {
 public:
  Parser(std::string_view source, Tree& tree);
  void run();

 private:
  using Words = std::initializer_list<std::string_view>;

  // Tokens.
  const Token& current() const { return tokens_[at_]; }
  const Token& peek();
  const Token& next();  // gives the current token and moves on
  bool skip_op(std::string_view symbol);
  bool skip_name(std::string_view word);
  const Token& expect_op(std::string_view symbol);
  const Token& expect_name(std::string_view word);
  const Token& expect_any_name();
  void expect(TokenKind kind);
  [[noreturn]] void fail(std::string reason) const { fail(std::move(reason), current().line); }
  [[noreturn]] void fail(std::string reason, uint32_t line) const;
  [[noreturn]] void fail_expected(const std::string& expected) const;
  [[noreturn]] void fail_tag(const std::string& name, uint32_t line) const;

  // Statements.
  Body parse_body(Words end_words);
  // Between "%}" and one of the end tags, whose name is then the current token.
  Body parse_block(Words end_words);
  Body parse_block_and_drop(std::string_view end_word);
  void parse_statement(Body& out);
  const Stmt* parse_for();
  const Stmt* parse_if();
  const Stmt* parse_set();
  const Stmt* parse_with();
  const Stmt* parse_macro();
  const Stmt* parse_call_block();
  const Stmt* parse_filter_block();
  const Stmt* parse_generation();
  void parse_print(Body& out);
  void parse_signature(MacroNode& macro);
  void parse_macro_body(MacroNode& macro, ScopeTracker::Frame* frame, std::string_view end_word);
  // The body of a statement that opens a scope.
  Body parse_scoped_body(ScopeTracker::Frame* frame, std::string_view end_word);
  Target parse_target(bool with_namespace);
  Target parse_target_item();
  Target name_target(const Token& token);
  [[noreturn]] void fail_loop_target(uint32_t line) const;

  // Expressions.
  const Expr* parse_expression(bool with_conditional = true);
  const Expr* parse_conditional();
  const Expr* parse_or();
  const Expr* parse_and();
  const Expr* parse_not();
  const Expr* parse_compare();
  const Expr* parse_sum();
  const Expr* parse_concat();
  const Expr* parse_product();
  const Expr* parse_power();
  const Expr* parse_unary(bool with_filter = true);
  const Expr* parse_primary();
  const Expr* parse_tuple(bool with_conditional, bool explicit_parentheses);
  const Expr* parse_list();
  const Expr* parse_dict();
  const Expr* parse_postfix(const Expr* expr);
  const Expr* parse_filters_and_tests(const Expr* expr);
  const Expr* parse_subscript(const Expr* object);
  const Expr* parse_subscribed();
  const CallExpr* parse_call(const Expr* callee);
  const FilterExpr* parse_filter(const Expr* subject, bool inline_start);
  const Expr* parse_test(const Expr* subject);
  void parse_arguments(Arguments& out);
  bool at_tuple_end() const;
  const Expr* constant(const Value& value, uint32_t line);
  const Expr* binary(ExprKind kind, BinaryOp op, const Expr* left, const Expr* right,
                     uint32_t line);
  std::string dotted_name();

  // Names.
  NameId intern(const std::string& name);
  const String* string(const std::string& text);
  void note_load(NameId id);
  void note_store(NameId id);
  // Tells the scopes of the names of a target: as assigned, or as parameters of the scope.
  void declare(const Target& target, bool as_parameter);

  // Names of filters and tests that do not exist are an error when the template is parsed, unless
  // they stand in an if statement or a conditional expression.
  struct Unknown {
    std::string message;
    uint32_t line;
  };
  void forgive_unknown(size_t since) { unknown_.resize(since, Unknown{}); }
  void check_unknown(size_t since) const;

  struct OpenMacro {
    MacroNode* node;
    bool declared[k_known_names] = {};  // names the body stores before it loads them
  };
  struct Nesting;

  Tree& tree_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
  int loops_ = 0;        // that a break would leave
  int for_nesting_ = 0;  // for statements around this place, macros or not
  std::vector<ForNode*> open_loops_;
  std::vector<OpenMacro> open_macros_;
  std::vector<std::vector<std::string_view>> end_words_;
  std::vector<std::string> tags_;
  std::vector<Unknown> unknown_;
  ScopeTracker scopes_;
  std::unordered_map<std::string, NameId> ids_;
  std::unordered_map<std::string, const String*> strings_;
};

// Holds one level of nested parsing.
struct Parser::Nesting {
  explicit Nesting(Parser& of);
  ~Nesting() { --parser.depth_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;
  Parser& parser;
};

}  // namespace strata::text::jinja
