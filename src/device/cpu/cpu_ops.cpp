#include "device/cpu/cpu_ops.h"

#include <type_traits>
#include <variant>

#include "base/error.h"
#include "device/cpu/ops/support.h"

namespace strata::device::cpu {
namespace {

struct Dispatch {
  const HostContext& context;

#define STRATA_OP(name, Type, text) \
  void operator()(const Type& op) const { run_##name(op, context); }
#include "device/ops.def"
#undef STRATA_OP
  void operator()(std::monostate) const { fail(ErrorCode::internal, "an empty op in a program"); }
};

}  // namespace

void run(const Op& op, const HostContext& context) { std::visit(Dispatch{context}, op); }

uint64_t scratch_bytes(const Program& program) {
  uint64_t most = 0;
  for (const Op& op : program.ops) {
    uint64_t bytes = 0;
    if (std::holds_alternative<Linear>(op)) bytes = linear_scratch_bytes();
    if (std::holds_alternative<Experts>(op)) bytes = experts_scratch_bytes();
    if (const auto* route = std::get_if<Route>(&op)) bytes = route_scratch_bytes(*route);
    if (const auto* attention = std::get_if<Attention>(&op)) {
      bytes = attention_scratch_bytes(*attention, program);
    }
    most = std::max(most, bytes);
  }
  return align_up(most, 64);
}

}  // namespace strata::device::cpu
