// Long lists of alternatives that begin with text, written so that what they have in common is read
// once.
#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "text/grammar/gbnf.h"

namespace strata::text::grammar {
namespace {

constexpr size_t k_listed = 16;        // alternatives that stay one by one
constexpr uint32_t k_max_shared = 64;  // beginnings within beginnings
constexpr int k_max_hops = 8;          // from rule to rule, to a text

class Sharer {
 public:
  explicit Sharer(Ast& ast) : ast_(ast) {}

  void run() {
    const auto n = static_cast<uint32_t>(ast_.exprs.size());
    for (uint32_t i = 0; i < n; ++i) {
      if (ast_.exprs[i].kind == ExprKind::choice && ast_.exprs[i].count > k_listed) share(i);
    }
  }

 private:
  // A text and what follows it: so many of Ast::children.
  struct Alternative {
    uint32_t begin, count;  // of Ast::bytes
    uint32_t tail = 0, tail_count = 0;
  };

  std::string_view text(const Alternative& a) const {
    return std::string_view(ast_.bytes).substr(a.begin, a.count);
  }

  const Expr* literal_of(uint32_t index) const {
    const Expr* e = &ast_.exprs[index];
    for (int hops = 0; e->kind == ExprKind::rule && hops < k_max_hops; ++hops) {
      e = &ast_.exprs[ast_.rules[e->begin].expr];
    }
    return e->kind == ExprKind::literal ? e : nullptr;
  }

  std::optional<Alternative> alternative_of(uint32_t index) const {
    if (const Expr* literal = literal_of(index)) return Alternative{literal->begin, literal->count};
    const Expr& e = ast_.exprs[index];
    if (e.kind != ExprKind::sequence || e.count == 0) return std::nullopt;
    const Expr* literal = literal_of(ast_.children[e.begin]);
    if (literal == nullptr) return std::nullopt;
    return Alternative{literal->begin, literal->count, e.begin + 1, e.count - 1};
  }

  void share(uint32_t index) {
    const Expr choice = ast_.exprs[index];
    std::vector<uint32_t> parts;  // first those that begin with no text
    std::vector<Alternative> all;
    for (uint32_t i = 0; i < choice.count; ++i) {
      const uint32_t child = ast_.children[choice.begin + i];
      if (const auto one = alternative_of(child)) {
        all.push_back(*one);
      } else {
        parts.push_back(child);
      }
    }
    if (all.size() <= k_listed) return;
    std::stable_sort(all.begin(), all.end(),
                     [&](const Alternative& a, const Alternative& b) { return text(a) < text(b); });
    const auto same = [&](const Alternative& a, const Alternative& b) {
      return a.tail_count == 0 && b.tail_count == 0 && text(a) == text(b);
    };
    all.erase(std::unique(all.begin(), all.end(), same), all.end());
    add_parts(all, 0, 0, parts);
    ast_.exprs[index] = list(ExprKind::choice, parts);
  }

  // Any of the alternatives, which are sorted and whose texts begin with the same `at` bytes,
  // without those.
  void add_parts(std::span<const Alternative> all, uint32_t at, uint32_t depth,
                 std::vector<uint32_t>& parts) {
    if (all.size() <= k_listed || depth == k_max_shared) {
      for (const Alternative& one : all) parts.push_back(rest_of(one, at));
      return;
    }
    while (!all.empty()) {
      const std::string_view first = text(all.front());
      size_t n = 1;
      if (at < first.size()) {
        while (n < all.size() && text(all[n])[at] == first[at]) ++n;
      }
      if (n == 1) {
        parts.push_back(rest_of(all.front(), at));
      } else {
        // In sorted texts the first and the last share what all do.
        const std::string_view last = text(all[n - 1]);
        const auto [end, _] = std::mismatch(first.begin(), first.end(), last.begin(), last.end());
        const auto length = static_cast<uint32_t>(end - first.begin());
        std::vector<uint32_t> inner;
        add_parts(all.first(n), length, depth + 1, inner);
        parts.push_back(add(list(ExprKind::sequence, {literal(all.front().begin + at, length - at),
                                                      add(list(ExprKind::choice, inner))})));
      }
      all = all.subspan(n);
    }
  }

  uint32_t rest_of(const Alternative& one, uint32_t at) {
    const uint32_t rest = literal(one.begin + at, one.count - at);
    if (one.tail_count == 0) return rest;
    std::vector<uint32_t> items = {rest};
    for (uint32_t i = 0; i < one.tail_count; ++i) items.push_back(ast_.children[one.tail + i]);
    return add(list(ExprKind::sequence, items));
  }

  uint32_t add(Expr expr) {
    ast_.exprs.push_back(expr);
    return static_cast<uint32_t>(ast_.exprs.size()) - 1;
  }
  uint32_t literal(uint32_t begin, uint32_t count) {
    return add({ExprKind::literal, begin, count});
  }
  Expr list(ExprKind kind, const std::vector<uint32_t>& items) {
    const Expr out{kind, static_cast<uint32_t>(ast_.children.size()),
                   static_cast<uint32_t>(items.size())};
    ast_.children.insert(ast_.children.end(), items.begin(), items.end());
    return out;
  }

  Ast& ast_;
};

}  // namespace

void share_beginnings(Ast& ast) { Sharer(ast).run(); }

}  // namespace strata::text::grammar
