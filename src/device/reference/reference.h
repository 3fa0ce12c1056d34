// Reference ops: the plain formulas, in double where it matters, one thread, no tricks.
//
// Purpose: what every device's ops are tested against. Not for speed.
// Threads: pure functions of their context.
#pragma once

#include "device/host_context.h"

namespace strata::device::reference {

// One function per op of the table: run_<name>(op, context).
#define STRATA_OP(name, Type, text) void run_##name(const Type& op, const HostContext& context);
#include "device/ops.def"
#undef STRATA_OP

// Any op, by its type.
void run(const Op& op, const HostContext& context);

}  // namespace strata::device::reference
