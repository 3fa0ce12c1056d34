#include "device/cpu/isa.h"

#include <cstdlib>
#include <fstream>

#include "base/error.h"
#include "device/cpu/kernels.h"
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace strata::device::cpu {
namespace {

constexpr Isa k_all[] = {Isa::generic, Isa::avx2, Isa::avx512vnni};

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
#else
bool has_avx2() { return false; }
bool has_avx512vnni() { return false; }
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
    case Isa::generic:
      break;
  }
  return true;
}

Isa best_isa() {
  if (available(Isa::avx512vnni)) return Isa::avx512vnni;
  return available(Isa::avx2) ? Isa::avx2 : Isa::generic;
}

Isa isa_named(std::string_view name) {
  for (const Isa isa : k_all) {
    if (name_of(isa) != name) continue;
    if (!available(isa)) {
      fail(ErrorCode::usage,
           "STRATA_CPU_ISA={}: this processor ({}) lacks it; the best it has is {}", name,
           processor_name(), name_of(best_isa()));
    }
    return isa;
  }
  fail(ErrorCode::usage, "STRATA_CPU_ISA={}: unknown; use generic, avx2 or avx512vnni",
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
  if (isa == Isa::avx512vnni) return k_avx512vnni_kernels;
  if (isa == Isa::avx2) return k_avx2_kernels;
#endif
  (void)isa;
  return k_generic_kernels;
}

}  // namespace strata::device::cpu
