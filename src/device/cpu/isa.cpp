#include "device/cpu/isa.h"

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "device/cpu/kernels.h"
#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace strata::device::cpu {
namespace {

constexpr Isa k_all[] = {Isa::generic, Isa::avx2, Isa::avx512vnni, Isa::amx};

#if defined(__x86_64__)
// The compiler's own test also asks whether the system saves the wide registers. It does not know
// this feature by name everywhere.
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & (1u << 29)) != 0;
}

bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi2") && has_f16c();
}

bool has_avx512vnni() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512vnni");
}

// The processor has 8-bit tiles, and the system saves them for this process. The answer is asked
// for once: the question itself is what makes the system allow them.
bool has_amx() {
  static const bool allowed = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    constexpr unsigned k_tile = 1u << 24, k_int8 = 1u << 25;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
    if ((d & k_tile) == 0 || (d & k_int8) == 0) return false;
    constexpr long k_ask = 0x1023, k_tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    return ::syscall(SYS_arch_prctl, k_ask, k_tile_data) == 0;
  }();
  return allowed && has_avx512vnni();
}

// The vector kernels with the matrix unit's in their place.
const KernelTable& amx_kernels() {
  static const KernelTable table = [] {
    KernelTable t = k_avx512vnni_kernels;
    t.name = "amx";
    for (size_t i = 0; i < std::size(t.packed); ++i) {
      const MatrixKernels& tiles = k_amx_tiles.formats[i];
      if (tiles.unpack == nullptr) continue;
      t.packed[i].unpack = tiles.unpack;
      t.packed[i].multiply_unpacked = tiles.multiply_unpacked;
      t.packed[i].multiply_rows = tiles.multiply_rows;
    }
    return t;
  }();
  return table;
}
#else
bool has_avx2() { return false; }
bool has_avx512vnni() { return false; }
bool has_amx() { return false; }
#endif

Isa choose() {
  const char* wish = std::getenv("STRATA_CPU_ISA");
  return wish == nullptr || *wish == 0 ? best_isa() : isa_named(wish);
}

}  // namespace

std::string_view name_of(Isa isa) {
  switch (isa) {
    case Isa::avx2:
      return "avx2";
    case Isa::avx512vnni:
      return "avx512vnni";
    case Isa::amx:
      return "amx";
    case Isa::generic:
      break;
  }
  return "generic";
}

bool available(Isa isa) {
  switch (isa) {
    case Isa::avx2:
      return has_avx2();
    case Isa::avx512vnni:
      return has_avx512vnni();
    case Isa::amx:
      return has_amx();
    case Isa::generic:
      break;
  }
  return true;
}

Isa best_isa() {
  if (available(Isa::amx)) return Isa::amx;
  if (available(Isa::avx512vnni)) return Isa::avx512vnni;
  return available(Isa::avx2) ? Isa::avx2 : Isa::generic;
}

Isa isa_named(std::string_view name, std::string_view source) {
  for (const Isa isa : k_all) {
    if (name_of(isa) != name) continue;
    if (!available(isa)) {
      fail(ErrorCode::usage, "{}={}: this processor ({}) lacks it; the best it has is {}", source,
           name, processor_name(), name_of(best_isa()));
    }
    return isa;
  }
  fail(ErrorCode::usage, "{}={}: unknown; use generic, avx2, avx512vnni or amx", source,
       printable(name));
}

Isa chosen_isa() {
  static const Isa isa = choose();
  return isa;
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with("model name") && !line.starts_with("Model")) continue;
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    if (begin != std::string::npos) return printable(line.substr(begin));
  }
  return "unknown processor";
}

const KernelTable& kernels(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::amx) return amx_kernels();
  if (isa == Isa::avx512vnni) return k_avx512vnni_kernels;
  if (isa == Isa::avx2) return k_avx2_kernels;
#endif
  (void)isa;
  return k_generic_kernels;
}

}  // namespace strata::device::cpu
