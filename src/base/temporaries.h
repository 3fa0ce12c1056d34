// Names of temporary files that must not outlive the process, however a signal ends it.
//
// Purpose: while a TemporaryName exists, remove_temporaries() removes the file of that name. A
// program calls that from its handlers of the signals that end it.
// Not for: SIGKILL, which nothing can follow; files without a name need none of this.
// Ownership: removes nothing by itself.
// Threads: any; remove_temporaries() may be called in a signal handler, by a process that ends.
#pragma once

#include <atomic>
#include <string>
#include <utility>

namespace strata {

class TemporaryName {
 public:
  TemporaryName() = default;  // no name
  // Where very many are held at the same time, those that are too many are not removed.
  explicit TemporaryName(const std::string& path);
  ~TemporaryName();
  TemporaryName(TemporaryName&& other) noexcept
      : name_(std::exchange(other.name_, nullptr)), place_(std::exchange(other.place_, nullptr)) {}
  TemporaryName& operator=(TemporaryName&& other) noexcept {
    std::swap(name_, other.name_);
    std::swap(place_, other.place_);
    return *this;
  }
  TemporaryName(const TemporaryName&) = delete;
  TemporaryName& operator=(const TemporaryName&) = delete;

  // Null where there is none.
  const char* get() const { return name_; }

 private:
  char* name_ = nullptr;
  std::atomic<char*>* place_ = nullptr;  // where it is found; null: nowhere
};

void remove_temporaries();

}  // namespace strata
