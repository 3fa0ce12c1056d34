// The CPU device's ops: one function per op of the table, one file per op in cpu/ops/.
//
// Every thread of the team calls run() with its own context; an op computes the share of its rank.
// Results do not depend on the number of threads nor on what else is in the micro-batch.
// Threads: see host_context.h.
#pragma once

#include "device/host_context.h"

namespace strata::device::cpu {

// An op by itself. Linear ops and experts with packed weights are steps instead (steps.h), since
// they need tiles: ErrorCode::internal.
#define STRATA_OP(name, Type, text) void run_##name(const Type& op, const HostContext& context);
#include "device/ops.def"
#undef STRATA_OP

void run(const Op& op, const HostContext& context);

struct LinearStep;  // steps.h
struct GatedStep;
struct ExpertsStep;
void run_linear_step(const LinearStep& step, const HostContext& context);
void run_gated_step(const GatedStep& step, const HostContext& context);
void run_experts_step(const ExpertsStep& step, const HostContext& context);

// Working memory of a thread, of the ops and steps that need some.
uint64_t linear_scratch_bytes();
uint64_t linear_step_scratch_bytes(const LinearStep& step, const Program& program);
uint64_t gated_step_scratch_bytes(const GatedStep& step, const Program& program, uint64_t max_rows);
uint64_t experts_scratch_bytes(const Experts& op, const Program& program, uint64_t max_rows);
uint64_t attention_scratch_bytes(const Attention& op, const Program& program);
uint64_t route_scratch_bytes(const Route& op);

// Element types that keys and values may have in the cache.
bool is_cache_type(ElementType type);

}  // namespace strata::device::cpu
