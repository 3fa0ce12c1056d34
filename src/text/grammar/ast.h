// What a GBNF text says, as a tree per rule.
//
// Purpose: between the parser (gbnf.h) and the automaton (program.h).
// Ownership: flat pools, so that trees of any shape are freed without recursion.
// Threads: plain values.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "text/grammar/code_points.h"

namespace strata::text::grammar {

constexpr uint32_t k_unbounded = std::numeric_limits<uint32_t>::max();

enum class ExprKind : uint8_t { literal, set, rule, sequence, choice, repeat };

// `begin` and `count` are a piece of Ast::bytes (literal), Ast::ranges (set) or Ast::children
// (sequence, choice and the one child of repeat); of a rule, `begin` is its number.
struct Expr {
  ExprKind kind;
  uint32_t begin = 0;
  uint32_t count = 0;
  uint32_t min = 0;  // repeat
  uint32_t max = 0;  // repeat; k_unbounded
};

struct Rule {
  std::string name;
  uint32_t expr = 0;
  uint32_t line = 0;
  uint32_t column = 0;
};

struct Ast {
  std::vector<Rule> rules;
  uint32_t root = 0;  // number of the rule that is the start
  std::vector<Expr> exprs;
  std::vector<uint32_t> children;
  std::string bytes;
  std::vector<CodePointRange> ranges;  // normalised per set
};

}  // namespace strata::text::grammar
