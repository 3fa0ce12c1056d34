// Tokens and statements; expressions are in parser_expr.cpp.
#include "text/jinja/parser.h"

#include <algorithm>
#include <unordered_set>

#include "text/jinja/filters.h"
#include "text/jinja/runtime.h"
#include "text/jinja/str.h"

namespace strata::text::jinja {
namespace {

constexpr int k_max_nesting = 200;

std::string one_of(const std::vector<std::string_view>& words) {
  std::string out;
  for (const std::string_view word : words) {
    if (!out.empty()) out += " or ";
    out += quoted(word);
  }
  return out;
}

}  // namespace

std::string describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::data:
      return "template data / text";
    case TokenKind::block_begin:
      return "begin of statement block";
    case TokenKind::block_end:
      return "end of statement block";
    case TokenKind::variable_begin:
      return "begin of print statement";
    case TokenKind::variable_end:
      return "end of print statement";
    case TokenKind::string:
      return "string";
    case TokenKind::integer:
      return "integer";
    case TokenKind::real:
      return "float";
    case TokenKind::eof:
      return "end of template";
    default:
      return token.text;
  }
}

Parser::Nesting::Nesting(Parser& of) : parser(of) {
  if (parser.depth_ >= k_max_nesting) {
    parser.fail(fmt::format("nested more than {} levels deep", k_max_nesting));
  }
  ++parser.depth_;
}

Parser::Parser(std::string_view source, Tree& tree) : tree_(tree), tokens_(tokenize(source)) {
  for (const char* name : {"loop", "caller", "kwargs", "varargs"}) intern(name);
}

void Parser::run() {
  if (current().kind == TokenKind::error) fail(current().text);
  scopes_.enter(scopes_.open(tree_.fresh));
  tree_.body = parse_body({});
  check_unknown(0);
  scopes_.finish();
}

void Parser::fail(std::string reason, uint32_t line) const {
  throw Failure{std::move(reason), line};
}

void Parser::fail_expected(const std::string& expected) const {
  if (current().kind == TokenKind::eof) {
    fail("unexpected end of template, expected " + quoted(expected) + ".");
  }
  fail("expected token " + quoted(expected) + ", got " + quoted(describe(current())));
}

void Parser::fail_tag(const std::string& name, uint32_t line) const {
  std::string message = name.empty() ? "Unexpected end of template."
                                     : "Encountered unknown tag " + quoted(name) + ".";
  if (!end_words_.empty()) {
    bool known = false;
    for (const auto& words : end_words_) {
      known = known || std::find(words.begin(), words.end(), name) != words.end();
    }
    const std::string wanted = one_of(end_words_.back());
    message += !name.empty() && known
                   ? " You probably made a nesting mistake. Jinja is expecting this tag, but "
                     "currently looking for " +
                         wanted + "."
                   : " Jinja was looking for the following tags: " + wanted + ".";
  }
  if (!tags_.empty()) {
    message += " The innermost block that needs to be closed is " + quoted(tags_.back()) + ".";
  }
  fail(message, line);
}

const Token& Parser::peek() {
  const size_t ahead = std::min(at_ + 1, tokens_.size() - 1);
  if (tokens_[ahead].kind == TokenKind::error) fail(tokens_[ahead].text, tokens_[ahead].line);
  return tokens_[ahead];
}

const Token& Parser::next() {
  const Token& out = tokens_[at_];
  if (out.kind != TokenKind::eof) {
    ++at_;
    if (current().kind == TokenKind::error) fail(current().text);
  }
  return out;
}

bool Parser::skip_op(std::string_view symbol) {
  if (!current().is_op(symbol)) return false;
  next();
  return true;
}

bool Parser::skip_name(std::string_view word) {
  if (!current().is_name(word)) return false;
  next();
  return true;
}

const Token& Parser::expect_op(std::string_view symbol) {
  if (!current().is_op(symbol)) fail_expected(std::string(symbol));
  return next();
}

const Token& Parser::expect_name(std::string_view word) {
  if (!current().is_name(word)) fail_expected(std::string(word));
  return next();
}

const Token& Parser::expect_any_name() {
  if (current().kind != TokenKind::name) fail_expected("name");
  return next();
}

void Parser::expect(TokenKind kind) {
  if (current().kind != kind) {
    Token wanted;
    wanted.kind = kind;
    fail_expected(describe(wanted));
  }
  next();
}

NameId Parser::intern(const std::string& name) {
  const auto [found, added] = ids_.try_emplace(name, static_cast<NameId>(tree_.names.size()));
  if (added) tree_.names.push_back(string(name));
  return found->second;
}

const String* Parser::string(const std::string& text) {
  const String*& out = strings_[text];
  if (out == nullptr) out = tree_.string(text);
  return out;
}

void Parser::note_load(NameId id) {
  scopes_.load(id);
  if (id == k_name_loop) {
    for (ForNode* loop : open_loops_) loop->uses_loop = true;
  }
  if (id >= k_known_names) return;
  for (OpenMacro& macro : open_macros_) {
    if (macro.declared[id]) continue;
    if (id == k_name_caller) macro.node->uses_caller = true;
    if (id == k_name_kwargs) macro.node->uses_kwargs = true;
    if (id == k_name_varargs) macro.node->uses_varargs = true;
  }
}

void Parser::note_store(NameId id) {
  scopes_.store(id);
  if (id >= k_known_names) return;
  for (OpenMacro& macro : open_macros_) macro.declared[id] = true;
}

void Parser::declare(const Target& target, bool as_parameter) {
  switch (target.kind) {
    case Target::Kind::name:
      if (as_parameter) {
        scopes_.parameter(target.name);
      } else {
        note_store(target.name);
      }
      return;
    case Target::Kind::attribute:
      note_load(target.name);
      return;
    case Target::Kind::tuple:
      for (const Target& item : target.items) declare(item, as_parameter);
  }
}

void Parser::check_unknown(size_t since) const {
  if (unknown_.size() > since) fail(unknown_[since].message, unknown_[since].line);
}

Body Parser::parse_body(Words end_words) {
  Body body;
  const bool nested = end_words.size() > 0;
  if (nested) end_words_.emplace_back(end_words);
  while (current().kind != TokenKind::eof) {
    const Token& token = current();
    if (token.kind == TokenKind::data) {
      auto* data = tree_.make<DataStmt>(token.line);
      data->text = token.text;
      body.push_back(data);
      next();
    } else if (token.kind == TokenKind::variable_begin) {
      next();
      const Expr* value = parse_tuple(true, false);
      auto* print = tree_.make<PrintStmt>(value->line);
      print->value = value;
      body.push_back(print);
      expect(TokenKind::variable_end);
    } else if (token.kind == TokenKind::block_begin) {
      next();
      if (nested && current().kind == TokenKind::name &&
          std::find(end_words.begin(), end_words.end(), current().text) != end_words.end()) {
        break;
      }
      parse_statement(body);
      expect(TokenKind::block_end);
    } else {
      fail("unexpected " + quoted(describe(token)));
    }
  }
  if (nested) end_words_.pop_back();
  return body;
}

Body Parser::parse_block(Words end_words) {
  skip_op(":");  // allowed, as in Python
  expect(TokenKind::block_end);
  Body body = parse_body(end_words);
  if (current().kind == TokenKind::eof) {
    end_words_.emplace_back(end_words);
    fail_tag("", current().line);
  }
  return body;
}

Body Parser::parse_block_and_drop(std::string_view end_word) {
  Body body = parse_block({end_word});
  next();
  return body;
}

void Parser::parse_statement(Body& out) {
  const Nesting nesting(*this);
  const Token& token = current();
  if (token.kind != TokenKind::name) fail("tag name expected", token.line);
  const std::string& word = token.text;
  tags_.push_back(word);
  if (word == "for") {
    out.push_back(parse_for());
  } else if (word == "if") {
    out.push_back(parse_if());
  } else if (word == "set") {
    out.push_back(parse_set());
  } else if (word == "macro") {
    out.push_back(parse_macro());
  } else if (word == "call") {
    out.push_back(parse_call_block());
  } else if (word == "filter") {
    out.push_back(parse_filter_block());
  } else if (word == "with") {
    out.push_back(parse_with());
  } else if (word == "print") {
    parse_print(out);
  } else if (word == "generation") {
    out.push_back(parse_generation());
  } else if (word == "break" || word == "continue") {
    if (loops_ == 0) fail("'" + word + "' outside loop", token.line);
    out.push_back(tree_.make<SimpleStmt>(token.line,
                                         word == "break" ? StmtKind::break_ : StmtKind::continue_));
    next();
  } else if (word == "block" || word == "extends" || word == "include" || word == "import" ||
             word == "from" || word == "autoescape") {
    fail("the tag " + quoted(word) + " is not supported in a chat template", token.line);
  } else {
    tags_.pop_back();
    fail_tag(word, token.line);
  }
  tags_.pop_back();
}

Body Parser::parse_scoped_body(ScopeTracker::Frame* frame, std::string_view end_word) {
  const size_t unknown = unknown_.size();
  ScopeTracker::Frame* outer = scopes_.enter(frame);
  Body body = parse_block_and_drop(end_word);
  scopes_.enter(outer);
  check_unknown(unknown);
  return body;
}

const Stmt* Parser::parse_for() {
  auto* node = tree_.make<ForNode>(next().line);
  ++for_nesting_;
  node->target = parse_target(false);
  expect_name("in");
  node->source = parse_tuple(false, false);
  const size_t unknown = unknown_.size();
  if (skip_name("if")) {
    ScopeTracker::Frame* outer = scopes_.enter(scopes_.open(node->test_fresh));
    declare(node->target, true);
    node->test = parse_expression();
    scopes_.enter(outer);
  }
  node->recursive = skip_name("recursive");
  node->uses_loop = node->recursive;
  open_loops_.push_back(node);
  ++loops_;
  ScopeTracker::Frame* outer = scopes_.enter(scopes_.open(node->body_fresh));
  declare(node->target, true);
  node->body = parse_block({"endfor", "else"});
  if (node->uses_loop) scopes_.parameter(k_name_loop);
  scopes_.enter(outer);
  --loops_;
  open_loops_.pop_back();
  if (next().text == "else") {
    node->otherwise = parse_scoped_body(scopes_.open(node->otherwise_fresh), "endfor");
  }
  --for_nesting_;
  check_unknown(unknown);
  return node;
}

const Stmt* Parser::parse_if() {
  const size_t unknown = unknown_.size();
  auto* node = tree_.make<IfStmt>(next().line);
  uint32_t line = node->line;
  // To the scopes there are three branches: the body, all elif branches, the else branch. Each elif
  // is an if of its own within the second.
  bool in_elif = false;
  while (true) {
    IfStmt::Branch branch;
    branch.line = line;
    branch.test = parse_tuple(false, false);
    scopes_.begin_if();
    branch.body = parse_block({"elif", "else", "endif"});
    if (in_elif) {
      scopes_.next_branch();
      scopes_.next_branch();
      scopes_.end_if();
    }
    node->branches.push_back(std::move(branch));
    const Token& word = next();
    if (word.text == "elif") {
      if (!in_elif) scopes_.next_branch();
      in_elif = true;
      line = current().line;
      continue;
    }
    if (!in_elif) scopes_.next_branch();
    scopes_.next_branch();
    if (word.text == "else") node->otherwise = parse_block_and_drop("endif");
    scopes_.end_if();
    break;
  }
  forgive_unknown(unknown);
  return node;
}

const Stmt* Parser::parse_set() {
  const uint32_t line = next().line;
  Target target = parse_target(true);
  if (skip_op("=")) {
    auto* node = tree_.make<SetStmt>(line);
    node->value = parse_tuple(true, false);
    // After the value: what it reads is read before.
    declare(target, false);
    node->target = std::move(target);
    return node;
  }
  auto* node = tree_.make<SetBlockStmt>(line);
  declare(target, false);
  node->target = std::move(target);
  ScopeTracker::Frame* frame = scopes_.open(node->fresh);
  ScopeTracker::Frame* outer = scopes_.enter(frame);
  const size_t unknown = unknown_.size();
  node->filter = parse_filter(nullptr, false);
  scopes_.enter(outer);
  node->body = parse_scoped_body(frame, "endset");
  check_unknown(unknown);
  return node;
}

const Stmt* Parser::parse_with() {
  auto* node = tree_.make<WithStmt>(next().line);
  while (current().kind != TokenKind::block_end) {
    if (!node->values.empty()) expect_op(",");
    Target target = parse_target(false);
    expect_op("=");
    node->values.emplace_back(std::move(target), parse_expression());
  }
  ScopeTracker::Frame* frame = scopes_.open(node->fresh);
  ScopeTracker::Frame* outer = scopes_.enter(frame);
  for (const auto& [target, value] : node->values) declare(target, true);
  scopes_.enter(outer);
  node->body = parse_scoped_body(frame, "endwith");
  return node;
}

void Parser::parse_signature(MacroNode& macro) {
  expect_op("(");
  std::unordered_set<NameId> names;
  bool defaults = false;
  while (!current().is_op(")")) {
    if (!macro.parameters.empty()) expect_op(",");
    const Token& name = expect_any_name();
    MacroNode::Parameter parameter;
    parameter.id = intern(name.text);
    parameter.name = string(name.text);
    scopes_.parameter(parameter.id);
    if (!names.insert(parameter.id).second) {
      fail("duplicate argument " + quoted(name.text) + " in macro definition", name.line);
    }
    if (skip_op("=")) {
      parameter.fallback = parse_expression();
      defaults = true;
    } else if (defaults) {
      fail("non-default argument follows default argument");
    }
    macro.parameters.push_back(parameter);
  }
  expect_op(")");
}

void Parser::parse_macro_body(MacroNode& macro, ScopeTracker::Frame* frame,
                              std::string_view end_word) {
  const int loops = std::exchange(loops_, 0);
  open_macros_.push_back({&macro});
  macro.body = parse_scoped_body(frame, end_word);
  open_macros_.pop_back();
  loops_ = loops;
  for (const MacroNode::Parameter& parameter : macro.parameters) {
    if (parameter.id == k_name_kwargs) macro.uses_kwargs = false;
    if (parameter.id == k_name_varargs) macro.uses_varargs = false;
    if (parameter.id == k_name_caller && macro.uses_caller && parameter.fallback == nullptr) {
      fail(
          "When defining macros or call blocks the special \"caller\" argument must be omitted or "
          "be given a default.",
          macro.line);
    }
  }
  ScopeTracker::Frame* outer = scopes_.enter(frame);
  if (macro.uses_caller) scopes_.parameter(k_name_caller);
  if (macro.uses_kwargs) scopes_.parameter(k_name_kwargs);
  if (macro.uses_varargs) scopes_.parameter(k_name_varargs);
  scopes_.enter(outer);
}

const Stmt* Parser::parse_macro() {
  auto* node = tree_.make<MacroNode>(next().line);
  const Token& name = expect_any_name();
  node->id = intern(name.text);
  node->name = string(name.text);
  if (node->id == k_name_loop && for_nesting_ > 0) fail_loop_target(name.line);
  note_store(node->id);
  ScopeTracker::Frame* frame = scopes_.open(node->fresh);
  ScopeTracker::Frame* outer = scopes_.enter(frame);
  parse_signature(*node);
  scopes_.enter(outer);
  parse_macro_body(*node, frame, "endmacro");
  return node;
}

const Stmt* Parser::parse_call_block() {
  auto* node = tree_.make<CallBlockStmt>(next().line);
  auto* caller = tree_.make<MacroNode>(node->line);
  node->caller = caller;
  ScopeTracker::Frame* frame = scopes_.open(caller->fresh);
  if (current().is_op("(")) {
    ScopeTracker::Frame* outer = scopes_.enter(frame);
    parse_signature(*caller);
    scopes_.enter(outer);
  }
  const Expr* call = parse_expression();
  if (call->kind != ExprKind::call) fail("expected call", node->line);
  node->call = static_cast<const CallExpr*>(call);
  parse_macro_body(*caller, frame, "endcall");
  return node;
}

const Stmt* Parser::parse_filter_block() {
  auto* node = tree_.make<FilterBlockStmt>(next().line);
  const size_t unknown = unknown_.size();
  node->filter = parse_filter(nullptr, true);
  node->body = parse_scoped_body(scopes_.open(node->fresh), "endfilter");
  check_unknown(unknown);
  return node;
}

const Stmt* Parser::parse_generation() {
  auto* node = tree_.make<ScopeStmt>(next().line);
  // jinja2 sees the body of a call block, which no break can leave.
  const int loops = std::exchange(loops_, 0);
  node->body = parse_scoped_body(scopes_.open(node->fresh), "endgeneration");
  loops_ = loops;
  return node;
}

void Parser::parse_print(Body& out) {
  const uint32_t line = next().line;
  bool first = true;
  while (current().kind != TokenKind::block_end) {
    if (!first) expect_op(",");
    first = false;
    auto* print = tree_.make<PrintStmt>(line);
    print->value = parse_expression();
    out.push_back(print);
  }
}

void Parser::fail_loop_target(uint32_t line) const {
  fail("Can't assign to special loop variable in for-loop target", line);
}

Target Parser::name_target(const Token& token) {
  static constexpr std::string_view k_constants[] = {"true",  "false", "True",
                                                     "False", "none",  "None"};
  if (std::find(std::begin(k_constants), std::end(k_constants), token.text) !=
      std::end(k_constants)) {
    fail("can't assign to 'const'", token.line);
  }
  Target out;
  out.name = intern(token.text);
  if (out.name == k_name_loop && for_nesting_ > 0) fail_loop_target(token.line);
  return out;
}

Target Parser::parse_target_item() {
  const Nesting nesting(*this);
  if (current().kind == TokenKind::name) return name_target(next());
  if (!current().is_op("(")) {
    fail("can't assign to " + quoted(describe(current())));
  }
  next();
  Target out;
  out.kind = Target::Kind::tuple;
  bool comma = false;
  while (!current().is_op(")")) {
    if (!out.items.empty()) {
      expect_op(",");
      comma = true;
      if (current().is_op(")")) break;
    }
    out.items.push_back(parse_target_item());
  }
  expect_op(")");
  if (out.items.size() == 1 && !comma) return out.items[0];
  return out;
}

Target Parser::parse_target(bool with_namespace) {
  if (with_namespace && peek().is_op(".")) {
    const Token& name = expect_any_name();
    next();
    Target out;
    out.kind = Target::Kind::attribute;
    out.name = intern(name.text);
    out.attribute = string(expect_any_name().text);
    return out;
  }
  Target tuple;
  tuple.kind = Target::Kind::tuple;
  bool is_tuple = false;
  while (true) {
    if (!tuple.items.empty()) {
      expect_op(",");
      is_tuple = true;
    }
    if (at_tuple_end()) break;
    tuple.items.push_back(parse_target_item());
    if (!current().is_op(",")) break;
  }
  if (tuple.items.empty()) fail("Expected an expression, got " + quoted(describe(current())));
  if (!is_tuple) return tuple.items[0];
  return tuple;
}

void parse_template(std::string_view source, Tree& tree) { Parser(source, tree).run(); }

}  // namespace strata::text::jinja
