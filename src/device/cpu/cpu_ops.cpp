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

}  // namespace strata::device::cpu
