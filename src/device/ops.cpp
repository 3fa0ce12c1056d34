#include "device/ops.h"

#include <initializer_list>

namespace strata::device {
namespace {

struct NameVisitor {
#define STRATA_OP(name, Type, text) \
  std::string_view operator()(const Type&) const { return #name; }
#include "device/ops.def"
#undef STRATA_OP
  std::string_view operator()(const std::monostate&) const { return "nothing"; }
};

OpOperands make(std::initializer_list<ValueId> reads, std::initializer_list<ValueId> writes,
                std::initializer_list<WeightId> weights) {
  OpOperands out;
  const auto keep = [](std::initializer_list<uint32_t> from, std::vector<uint32_t>& to) {
    for (const uint32_t id : from) {
      if (id != k_none) to.push_back(id);
    }
  };
  keep(reads, out.reads);
  keep(writes, out.writes);
  keep(weights, out.weights);
  return out;
}

struct OperandVisitor {
  OpOperands operator()(const Embed& o) const { return make({}, {o.out}, {o.weight}); }
  OpOperands operator()(const RmsNorm& o) const { return make({o.in}, {o.out}, {o.weight}); }
  OpOperands operator()(const Linear& o) const { return make({o.in}, {o.out}, {o.weight, o.bias}); }
  OpOperands operator()(const RopeTable& o) const { return make({}, {o.out}, {o.factors}); }
  OpOperands operator()(const Rope& o) const { return make({o.x, o.table}, {o.x}, {}); }
  OpOperands operator()(const StoreKv& o) const { return make({o.k, o.v}, {}, {}); }
  OpOperands operator()(const Attention& o) const { return make({o.q}, {o.out}, {o.sinks}); }
  OpOperands operator()(const Gate& o) const { return make({o.gate, o.up}, {o.out}, {}); }
  OpOperands operator()(const Route& o) const {
    return make({o.logits}, {o.ids, o.weights}, {o.selection_bias});
  }
  OpOperands operator()(const Experts& o) const {
    return make({o.in, o.ids, o.weights}, {o.hidden, o.out}, {o.gate, o.up, o.down});
  }
  OpOperands operator()(const Add& o) const { return make({o.a, o.b}, {o.out}, {}); }
  OpOperands operator()(const AllReduce& o) const {
    return make({o.partial, o.residual}, {o.out}, {});
  }
  OpOperands operator()(const Gather& o) const { return make({o.in}, {o.out}, {}); }
  OpOperands operator()(const std::monostate&) const { return {}; }
};

}  // namespace

std::string_view name_of(const Op& op) { return std::visit(NameVisitor{}, op); }
OpOperands operands_of(const Op& op) { return std::visit(OperandVisitor{}, op); }

}  // namespace strata::device
