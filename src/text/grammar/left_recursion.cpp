// Which expressions can match nothing, and whether a rule can reach itself before a byte is read.
#include <vector>

#include "base/error.h"
#include "text/grammar/gbnf.h"

namespace strata::text::grammar {
namespace {

// For each expression: who asks for it (its parent, or the references to its rule), as lists in
// one array.
struct Users {
  explicit Users(const Ast& ast) : begin(ast.exprs.size() + 1, 0) {
    const auto each = [&](auto&& visit) {
      for (uint32_t i = 0; i < ast.exprs.size(); ++i) {
        const Expr& e = ast.exprs[i];
        if (e.kind == ExprKind::rule) {
          visit(ast.rules[e.begin].expr, i);
        } else if (e.kind != ExprKind::literal && e.kind != ExprKind::set) {
          for (uint32_t k = 0; k < e.count; ++k) visit(ast.children[e.begin + k], i);
        }
      }
    };
    each([&](uint32_t used, uint32_t) { ++begin[used + 1]; });
    for (size_t i = 1; i < begin.size(); ++i) begin[i] += begin[i - 1];
    users.resize(begin.back());
    std::vector<uint32_t> next(begin.begin(), begin.end() - 1);
    each([&](uint32_t used, uint32_t user) { users[next[used]++] = user; });
  }
  std::vector<uint32_t> begin;
  std::vector<uint32_t> users;
};

std::vector<bool> find_nullable(const Ast& ast) {
  const Users users(ast);
  std::vector<bool> nullable(ast.exprs.size(), false);
  std::vector<uint32_t> missing(ast.exprs.size(), 1);  // parts that must still turn out nullable
  std::vector<uint32_t> work;
  const auto mark = [&](uint32_t i) {
    if (nullable[i]) return;
    nullable[i] = true;
    work.push_back(i);
  };
  for (uint32_t i = 0; i < ast.exprs.size(); ++i) {
    const Expr& e = ast.exprs[i];
    if (e.kind == ExprKind::sequence) missing[i] = e.count;
    const bool at_once = (e.kind == ExprKind::literal && e.count == 0) ||
                         (e.kind == ExprKind::sequence && e.count == 0) ||
                         (e.kind == ExprKind::repeat && e.min == 0);
    if (at_once) mark(i);
  }
  while (!work.empty()) {
    const uint32_t i = work.back();
    work.pop_back();
    for (uint32_t u = users.begin[i]; u < users.begin[i + 1]; ++u) {
      const uint32_t user = users.users[u];
      if (--missing[user] == 0 || ast.exprs[user].kind != ExprKind::sequence) mark(user);
    }
  }
  return nullable;
}

}  // namespace

void refuse_left_recursion(const Ast& ast) {
  const std::vector<bool> nullable = find_nullable(ast);
  enum Colour : uint8_t { white, grey, black };
  std::vector<Colour> colours(ast.exprs.size(), white);
  struct Open {
    uint32_t expr;
    uint32_t next;  // part to look at
  };
  std::vector<Open> path;
  for (const Rule& rule : ast.rules) {
    if (colours[rule.expr] != white) continue;
    path.push_back({rule.expr, 0});
    colours[rule.expr] = grey;
    while (!path.empty()) {
      Open& open = path.back();
      const Expr& e = ast.exprs[open.expr];
      uint32_t part = 0;
      bool more = false;
      if (e.kind == ExprKind::rule) {
        more = open.next == 0;
        if (more) part = ast.rules[e.begin].expr;
      } else if (e.kind != ExprKind::literal && e.kind != ExprKind::set) {
        // Of a sequence, a part is reached without reading when all before it can be empty.
        more = open.next < e.count && (e.kind != ExprKind::sequence || open.next == 0 ||
                                       nullable[ast.children[e.begin + open.next - 1]]);
        if (more) part = ast.children[e.begin + open.next];
      }
      if (!more) {
        colours[open.expr] = black;
        path.pop_back();
        continue;
      }
      ++open.next;
      if (colours[part] == black) continue;
      if (colours[part] == white) {
        colours[part] = grey;
        path.push_back({part, 0});
        continue;
      }
      // A cycle leads through a reference; the one at the end of the path closes it.
      const Rule& culprit = ast.rules[e.begin];
      fail(ErrorCode::bad_request,
           "grammar line {}, column {}: rule '{}' can call itself before anything is read (left "
           "recursion); write the repetition with * or +, or put the recursion at the end",
           culprit.line, culprit.column, printable(culprit.name, 60));
    }
  }
}

}  // namespace strata::text::grammar
