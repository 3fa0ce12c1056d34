// Packing: from the rows of a file to panels (packed.h).
//
// Not for: element types without blocks (F32, F16, BF16), which stay as they are in the file.
// Threads: pure functions; parts of a weight may be packed by different threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/program.h"

namespace strata::device::cpu {

// Whether the device keeps weights of this type and shape in panels.
bool is_packed(const WeightSpec& spec);

// Bytes of the weight as the device keeps it.
uint64_t stored_bytes(const WeightSpec& spec);

// Work items of storing a weight, each of about the same size: panels, or runs of plain bytes.
uint64_t store_items(const WeightSpec& spec);

// Stores items [begin, end) of the weight; `from` and `to` are its first bytes.
void store_items(const WeightSpec& spec, const std::byte* from, std::byte* to, uint64_t begin,
                 uint64_t end);

}  // namespace strata::device::cpu
