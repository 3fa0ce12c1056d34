// Layers whose keys and values the cache holds as integers (attention_tiles.h).
//
// Purpose: the one place that says which layers those are. Nobody but the steps that store a layer
// and attend to it looks into its cache; blocks are copied as bytes.
// Threads: pure functions.
#pragma once

#include "device/cpu/kernels.h"
#include "device/host_context.h"

namespace strata::device::cpu {

struct KvStep;  // steps.h

// Whether the cache holds a layer's keys and values as integers on instruction sets that have them:
// they are F16 or BF16 and fill whole vectors, the program itself stores them, and all that reads
// them is attention in integers. What only comes from outside is in the element types.
bool may_hold_integers(const Program& program, uint32_t layer);

void run_kv_step(const KvStep& step, const HostContext& context);

// With kernels that have integers.
void store_integers(const StoreKv& op, const HostContext& context);

}  // namespace strata::device::cpu
