#include "base/mapping_guard.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <mutex>

#include "base/error.h"

namespace strata {

// One of a list that only grows, so that the handler can walk it at any time; those that guard
// nothing any more are used again.
struct MappingGuard::Range {
  std::atomic<uint32_t> version{0};  // odd while the range is being exchanged
  std::atomic<uintptr_t> begin{0}, end{0};
  std::atomic<bool> damaged{false};
  Range* next = nullptr;       // constant once it can be found
  Range* next_free = nullptr;  // under the mutex
};

// What all guards share.
struct GuardedRanges {
  using Range = MappingGuard::Range;

  static Range* add(uintptr_t begin, uintptr_t end);
  static void remove(Range* range);
  static bool cover(uintptr_t address);
  static void on_fault(int signal, siginfo_t* info, void* context);
  static void pass_on(int signal, siginfo_t* info, void* context);
  static void install();

  // Made before the handler is installed, never again.
  static inline struct sigaction former {};
  static inline std::atomic<bool> former_spent{false};  // SA_RESETHAND
  static inline std::atomic<Range*> first{nullptr};
  static inline std::mutex mutex;
  static inline Range* free = nullptr;  // under the mutex
  static inline bool installed = false;
  static inline uintptr_t page = 4096;
};

// These are used in a signal handler.
static_assert(std::atomic<uintptr_t>::is_always_lock_free);
static_assert(std::atomic<bool>::is_always_lock_free);
static_assert(std::atomic<void*>::is_always_lock_free);

GuardedRanges::Range* GuardedRanges::add(uintptr_t begin, uintptr_t end) {
  const std::lock_guard lock(mutex);
  if (!installed) install();
  end = (end + page - 1) / page * page;
  Range* range = free;
  if (range != nullptr) {
    free = range->next_free;
    ++range->version;
    range->damaged = false;
    range->begin = begin;
    range->end = end;
    ++range->version;
    return range;
  }
  range = new Range;  // stays in the list, which everybody can reach
  range->begin = begin;
  range->end = end;
  range->next = first.load();
  first.store(range);
  return range;
}

void GuardedRanges::remove(Range* range) {
  const std::lock_guard lock(mutex);
  ++range->version;
  range->begin = 0;
  range->end = 0;
  ++range->version;
  range->next_free = free;
  free = range;
}

// Puts zeros in the place of what cannot be read. Only calls what a handler may call; the system
// call goes directly to the kernel, past what sanitizers put before mmap().
bool GuardedRanges::cover(uintptr_t address) {
  for (Range* range = first.load(); range != nullptr; range = range->next) {
    const uint32_t version = range->version.load();
    const uintptr_t begin = range->begin.load(), end = range->end.load();
    // Being exchanged: not the one that is being read here.
    if (version % 2 != 0 || range->version.load() != version) continue;
    if (address < begin || address >= end) continue;
    // First the mark: whoever has read a zero finds it.
    range->damaged.store(true);
    const uintptr_t at = address / page * page;
    // To the end, as all of it is refused anyway: a fault for every page would take minutes in a
    // large file, and a mapping for each more than the system allows.
    constexpr long k_flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    const long made = ::syscall(SYS_mmap, at, end - at, long{PROT_READ}, k_flags, -1L, 0L);
    return made != -1;
  }
  return false;
}

void GuardedRanges::pass_on(int signal, siginfo_t* info, void* context) {
  const bool is_handler = (former.sa_flags & SA_SIGINFO) != 0 ||
                          (former.sa_handler != SIG_DFL && former.sa_handler != SIG_IGN);
  const bool fault = info->si_code > 0;  // else somebody sent it
  if (!is_handler || former_spent.load()) {
    if (!fault && !is_handler && former.sa_handler == SIG_IGN) return;
    // The instruction faults again when this returns, or the signal comes again, and the system
    // does what it does.
    struct sigaction standard {};
    standard.sa_handler = SIG_DFL;
    ::sigaction(signal, &standard, nullptr);
    if (!fault) ::raise(signal);
    return;
  }
  if ((former.sa_flags & static_cast<int>(SA_RESETHAND)) != 0) former_spent.store(true);
  // As the system would have called it.
  sigset_t before, own;
  ::pthread_sigmask(SIG_BLOCK, &former.sa_mask, &before);
  if ((former.sa_flags & SA_NODEFER) != 0) {
    sigemptyset(&own);
    sigaddset(&own, signal);
    ::pthread_sigmask(SIG_UNBLOCK, &own, nullptr);
  }
  if ((former.sa_flags & SA_SIGINFO) != 0) {
    former.sa_sigaction(signal, info, context);
  } else {
    former.sa_handler(signal);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void GuardedRanges::on_fault(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  const bool covered =
      info->si_code == BUS_ADRERR && cover(reinterpret_cast<uintptr_t>(info->si_addr));
  errno = error;
  if (!covered) pass_on(signal, info, context);
}

void GuardedRanges::install() {
  page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  sigemptyset(&action.sa_mask);
  if (::sigaction(SIGBUS, nullptr, &former) != 0 || ::sigaction(SIGBUS, &action, nullptr) != 0) {
    fail(ErrorCode::internal, "the handler of SIGBUS could not be installed");
  }
  installed = true;
}

MappingGuard::MappingGuard(const void* begin, size_t size)
    : range_(GuardedRanges::add(reinterpret_cast<uintptr_t>(begin),
                                reinterpret_cast<uintptr_t>(begin) + size)) {}

MappingGuard::~MappingGuard() {
  if (range_ != nullptr) GuardedRanges::remove(range_);
}

bool MappingGuard::damaged() const { return range_ != nullptr && range_->damaged.load(); }

}  // namespace strata
