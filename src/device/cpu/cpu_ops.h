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

struct LinearStep;  // steps.h
void run_linear_step(const LinearStep& step, const HostContext& context);

// Working memory (see Scratch in steps.h) of the ops that need some.
uint64_t linear_shared_bytes(const Linear& op, const Program& program, uint64_t rows);
uint64_t linear_scratch_bytes(const Linear& op, const Program& program);
uint64_t linear_step_shared_bytes(uint64_t n_in, uint64_t rows);
uint64_t linear_step_scratch_bytes(uint64_t n_in);
uint64_t experts_shared_bytes(const Experts& op, const Program& program, uint64_t rows);
uint64_t experts_scratch_bytes(const Experts& op, const Program& program);
uint64_t attention_scratch_bytes(const Attention& op, const Program& program);
uint64_t route_scratch_bytes(const Route& op);

// Element types that keys and values may have in the cache.
bool is_cache_type(ElementType type);

}  // namespace strata::device::cpu
