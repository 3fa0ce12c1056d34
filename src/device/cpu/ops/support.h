// What the CPU ops share: the kernel table, shares of work, pieces of a thread's scratch.
//
// Threads: pure functions of their context.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/checked.h"
#include "device/cpu/isa.h"
#include "device/cpu/kernels.h"
#include "device/host_context.h"

namespace strata::device::cpu {

inline const KernelTable& kernels_of(const HostContext& context) {
  return context.kernels != nullptr ? *static_cast<const KernelTable*>(context.kernels)
                                    : kernels(chosen_isa());
}

// Place of a type in KernelTable::formats: by ascending id.
size_t format_index(ElementType type);

inline const FormatKernels& format_of(const KernelTable& table, ElementType type) {
  return table.formats[format_index(type)];
}

const CacheKernels& cache_kernels(const KernelTable& table, ElementType type);

// This rank's share of `count` items, cut at multiples of `unit`.
inline Share share_in_units(const HostContext& context, uint64_t count, uint64_t unit) {
  const Share units = share_of((count + unit - 1) / unit, context.rank, context.n_ranks);
  return {std::min(units.begin * unit, count), std::min(units.end * unit, count)};
}

// Hands out aligned pieces of a scratch buffer; with no buffer it only counts.
class ScratchCutter {
 public:
  explicit ScratchCutter(std::byte* base = nullptr) : base_(base) {}

  template <class T>
  T* take(uint64_t count) {
    const uint64_t at = used_;
    used_ += align_up(count * sizeof(T), 64);
    return base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + at);
  }
  uint64_t used() const { return used_; }

 private:
  std::byte* base_;
  uint64_t used_ = 0;
};

}  // namespace strata::device::cpu
