#include "base/temporaries.h"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <new>

namespace strata {
namespace {

std::array<std::atomic<char*>, 64> g_names{};
static_assert(std::atomic<char*>::is_always_lock_free);  // used in signal handlers

}  // namespace

TemporaryName::TemporaryName(const std::string& path) : name_(::strdup(path.c_str())) {
  if (name_ == nullptr) throw std::bad_alloc();
  for (std::atomic<char*>& place : g_names) {
    char* none = nullptr;
    if (place.compare_exchange_strong(none, name_)) {
      place_ = &place;
      return;
    }
  }
}

TemporaryName::~TemporaryName() {
  if (name_ == nullptr) return;
  char* own = name_;
  // A handler that has taken the name still reads it; the process is about to end.
  if (place_ != nullptr && !place_->compare_exchange_strong(own, nullptr)) return;
  std::free(name_);
}

void remove_temporaries() {
  for (std::atomic<char*>& place : g_names) {
    if (const char* name = place.exchange(nullptr)) ::unlink(name);
  }
}

}  // namespace strata
