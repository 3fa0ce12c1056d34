// Packing: from the rows of a file to panels (packed.h).
//
// Not for: element types without blocks (F32, F16, BF16), which stay as they are in the file.
// Threads: pure functions; parts of a weight may be packed by different threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/device.h"

namespace strata::device::cpu {

// Whether the device keeps weights of this type and shape in panels.
bool is_packed(const WeightSpec& spec);

// Bytes of the weight as the device keeps it.
uint64_t stored_bytes(const WeightSpec& spec);

// Work items of storing rows of a weight, each of about the same size: panels, or runs of plain
// bytes. A range begins and ends where Queue::store_weight says, else ErrorCode::internal.
uint64_t store_items(const WeightSpec& spec, RowRange rows);

// Stores items [begin, end) of the rows; `from` is the first row's bytes, `to` the weight's.
// Returns false when some of what it read is not a finite number.
bool store_items(const WeightSpec& spec, RowRange rows, const std::byte* from, std::byte* to,
                 uint64_t begin, uint64_t end);

// All rows at once.
bool store_all(const WeightSpec& spec, const std::byte* from, std::byte* to);

}  // namespace strata::device::cpu
