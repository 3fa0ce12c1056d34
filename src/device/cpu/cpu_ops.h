// The CPU device's ops: one function per op of the table, one file per op in cpu/ops/.
//
// Every thread of the team calls run() with its own context; an op computes the share of its rank.
// Results do not depend on the number of threads nor on what else is in the micro-batch.
// Threads: see host_context.h.
#pragma once

#include "device/host_context.h"

namespace strata::device::cpu {

#define STRATA_OP(name, Type, text) void run_##name(const Type& op, const HostContext& context);
#include "device/ops.def"
#undef STRATA_OP

void run(const Op& op, const HostContext& context);

// Scratch bytes that one thread needs for the program's ops, at most (does not depend on the
// number of tokens).
uint64_t scratch_bytes(const Program& program);

}  // namespace strata::device::cpu
