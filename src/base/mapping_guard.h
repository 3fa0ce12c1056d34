// Mapped files that become shorter: zeros and a mark instead of the end of the process.
//
// Purpose: reading a page of a mapped file that is gone (somebody truncated the file, or its disk
// fails) raises SIGBUS, which ends the process. While a MappingGuard exists for a range, such a
// read gives zeros, from there to the range's end, and the range is marked as damaged. Whoever
// reads a mapping asks for the mark when he has read, and raises the error then.
// Not for: system calls that are given such memory (they fail with EFAULT by themselves); threads
// that block SIGBUS (the system ends the process then).
// Signals: the first guard installs a handler of SIGBUS for the process, for good. What does not
// concern a guarded range goes to the action that was there before.
// Ownership: does not own the memory. The guard must go before the memory is unmapped, and nobody
// may be reading then.
// Threads: any number may fault at the same time, in the same and in different ranges; guards may
// come and go beside them.
#pragma once

#include <cstddef>
#include <utility>

namespace strata {

class MappingGuard {
 public:
  MappingGuard() = default;  // guards nothing
  // The range [begin, begin + size) of a private read-only mapping; `begin` is where it begins.
  MappingGuard(const void* begin, size_t size);
  ~MappingGuard();
  MappingGuard(MappingGuard&& other) noexcept : range_(std::exchange(other.range_, nullptr)) {}
  MappingGuard& operator=(MappingGuard&& other) noexcept {
    std::swap(range_, other.range_);
    return *this;
  }
  MappingGuard(const MappingGuard&) = delete;
  MappingGuard& operator=(const MappingGuard&) = delete;

  bool damaged() const;

 private:
  struct Range;
  friend struct GuardedRanges;

  Range* range_ = nullptr;
};

}  // namespace strata
