#include "text/grammar/program.h"

#include <bitset>
#include <span>

#include "base/error.h"

namespace strata::text::grammar {
namespace {

class Compiler {
 public:
  explicit Compiler(const Ast& ast) : ast_(ast) {}

  Program run() {
    add({});  // Program::k_end
    // A rule's first node is known before the rule is compiled, since others may call it.
    for (size_t i = 0; i < ast_.rules.size(); ++i) {
      add({NodeKind::split, 1, static_cast<uint32_t>(out_.targets.size())});
      out_.targets.push_back(Program::k_end);
    }
    for (uint32_t i = 0; i < ast_.rules.size(); ++i) {
      const uint32_t first = compile(ast_.rules[i].expr, Program::k_end);
      out_.targets[out_.nodes[first_node(i)].b] = first;
    }
    out_.start = first_node(ast_.root);
    make_classes();
    return std::move(out_);
  }

 private:
  static uint32_t first_node(uint32_t rule) { return rule + 1; }

  uint32_t add(Node node) {
    if (out_.nodes.size() + out_.edges.size() + out_.targets.size() >= k_max_nodes) {
      fail(ErrorCode::bad_request, "the grammar needs more than {} states; write a smaller one",
           k_max_nodes);
    }
    out_.nodes.push_back(node);
    return static_cast<uint32_t>(out_.nodes.size()) - 1;
  }

  uint32_t add_read(uint8_t first, uint8_t last, uint32_t next) {
    const uint32_t node = add({NodeKind::read, 1, static_cast<uint32_t>(out_.edges.size())});
    out_.edges.push_back({first, last, next});
    return node;
  }

  uint32_t add_split(std::span<const uint32_t> targets) {
    const uint32_t node = add({NodeKind::split, static_cast<uint32_t>(targets.size()),
                               static_cast<uint32_t>(out_.targets.size())});
    out_.targets.insert(out_.targets.end(), targets.begin(), targets.end());
    return node;
  }

  // The first node of what matches the expression and then goes on at `next`.
  uint32_t compile(uint32_t index, uint32_t next) {
    const Expr& e = ast_.exprs[index];
    switch (e.kind) {
      case ExprKind::literal:
        for (uint32_t i = e.count; i-- > 0;) {
          const auto byte = static_cast<uint8_t>(ast_.bytes[e.begin + i]);
          next = add_read(byte, byte, next);
        }
        return next;
      case ExprKind::set: {
        const auto begin = ast_.ranges.begin() + e.begin;
        const std::vector<Utf8Sequence> sequences = utf8_sequences({begin, begin + e.count});
        shared_.clear();
        return compile_set(sequences, 0, next);
      }
      case ExprKind::rule:
        // A call at the end of a rule leaves nothing to come back to.
        if (next == Program::k_end) return first_node(e.begin);
        return add({NodeKind::call, first_node(e.begin), next});
      case ExprKind::sequence:
        for (uint32_t i = e.count; i-- > 0;) next = compile(ast_.children[e.begin + i], next);
        return next;
      case ExprKind::choice: {
        std::vector<uint32_t> targets;
        for (uint32_t i = 0; i < e.count; ++i) {
          targets.push_back(compile(ast_.children[e.begin + i], next));
        }
        return add_split(targets);
      }
      case ExprKind::repeat:
        break;
    }
    return compile_repeat(e, next);
  }

  uint32_t compile_repeat(const Expr& e, uint32_t next) {
    const uint32_t child = ast_.children[e.begin];
    if (e.max == 0) return next;
    if (e.max == 1) {
      const uint32_t once = compile(child, next);
      if (e.min == 1) return once;
      const uint32_t targets[] = {once, next};
      return add_split(targets);
    }
    if (e.max == k_unbounded && e.min <= 1) {
      const uint32_t placeholders[] = {Program::k_end, next};
      const uint32_t loop = add_split(placeholders);
      const uint32_t body = compile(child, loop);
      out_.targets[out_.nodes[loop].b] = body;
      return e.min == 1 ? body : loop;
    }
    const uint32_t body = compile(child, Program::k_end);
    return add({NodeKind::repeat, body, next, e.min, e.max});
  }

  // Sequences that agree in the bytes before `depth`, as a tree.
  uint32_t compile_set(std::span<const Utf8Sequence> sequences, uint32_t depth, uint32_t next) {
    std::vector<Edge> edges;
    for (size_t i = 0; i < sequences.size();) {
      const Utf8Sequence::ByteRange range = sequences[i].bytes[depth];
      size_t end = i + 1;
      while (end < sequences.size() && sequences[end].bytes[depth] == range) ++end;
      const bool last = depth + 1 == sequences[i].length;
      const uint32_t target =
          last ? next : compile_set(sequences.subspan(i, end - i), depth + 1, next);
      if (!edges.empty() && edges.back().next == target && edges.back().last + 1 == range.first) {
        edges.back().last = range.last;
      } else {
        edges.push_back({range.first, range.last, target});
      }
      i = end;
    }
    // Most continuation bytes go the same way.
    const bool single = depth > 0 && edges.size() == 1;
    if (single) {
      for (const uint32_t node : shared_) {
        const Edge& edge = out_.edges[out_.nodes[node].b];
        if (edge.first == edges[0].first && edge.last == edges[0].last &&
            edge.next == edges[0].next) {
          return node;
        }
      }
    }
    const uint32_t node = add({NodeKind::read, static_cast<uint32_t>(edges.size()),
                               static_cast<uint32_t>(out_.edges.size())});
    out_.edges.insert(out_.edges.end(), edges.begin(), edges.end());
    if (single && shared_.size() < 16) shared_.push_back(node);
    return node;
  }

  void make_classes() {
    std::bitset<257> begins;
    for (const Edge& edge : out_.edges) {
      begins.set(edge.first);
      begins.set(edge.last + 1u);
    }
    uint32_t current = 0;
    for (uint32_t byte = 0; byte < 256; ++byte) {
      if (byte > 0 && begins.test(byte)) ++current;
      out_.class_of[byte] = static_cast<uint8_t>(current);
    }
    out_.n_classes = current + 1;
    for (Edge& edge : out_.edges) {
      edge.first = out_.class_of[edge.first];
      edge.last = out_.class_of[edge.last];
    }
  }

  const Ast& ast_;
  Program out_;
  std::vector<uint32_t> shared_;  // nodes of the set at work, with one edge each
};

}  // namespace

Program compile(const Ast& ast) { return Compiler(ast).run(); }

}  // namespace strata::text::grammar
