// A grammar compiled to a pushdown automaton over bytes.
//
// Purpose: nodes that read a byte, branch, call a rule or count repetitions; repetitions are
// counted while matching, never written out, so that {1,1000000000} is as small as {1,2}.
// Errors: compile() gives ErrorCode::bad_request when the grammar needs more than k_max_nodes.
// Threads: constant after construction.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "text/grammar/ast.h"

namespace strata::text::grammar {

constexpr size_t k_max_nodes = size_t{1} << 21;

enum class NodeKind : uint8_t {
  end,    // of a rule: back to the caller
  read,   // a byte: `a` edges from `b` on
  split,  // goes on at each of `a` targets from `b` on, reading nothing
  call,   // the rule whose first node is `a`, then on at `b`
  repeat  // `a` from `min` to `max` times, then on at `b`
};

struct Node {
  NodeKind kind = NodeKind::end;
  uint32_t a = 0;
  uint32_t b = 0;
  uint32_t min = 0;
  uint32_t max = 0;
};

struct Edge {
  uint8_t first;  // byte class
  uint8_t last;
  uint32_t next;
};

struct Program {
  static constexpr uint32_t k_end = 0;  // the node that ends every rule

  std::vector<Node> nodes;
  std::vector<Edge> edges;
  std::vector<uint32_t> targets;
  uint32_t start = 0;
  // Bytes that no edge tells apart share a class.
  std::array<uint8_t, 256> class_of{};
  uint32_t n_classes = 0;
};

// `ast` has no left recursion.
Program compile(const Ast& ast);

}  // namespace strata::text::grammar
