// Instruction sets of the CPU device, chosen at run time.
//
// STRATA_CPU_ISA (generic, avx2, avx512vnni, amx) sets what a device uses whose name does not say;
// one that this machine lacks is ErrorCode::usage. Threads: safe; the choice is made once.
#pragma once

#include <string>
#include <string_view>

namespace strata::device::cpu {

enum class Isa { generic, avx2, avx512vnni, amx };

std::string_view name_of(Isa isa);
bool available(Isa isa);
Isa best_isa();
// By its name; an unknown one, or one that this machine lacks, is ErrorCode::usage. `source` says
// in the message where the name comes from.
Isa isa_named(std::string_view name, std::string_view source = "STRATA_CPU_ISA");
// From STRATA_CPU_ISA when it is set, else the best.
Isa chosen_isa();
// Processor name as the system gives it.
std::string processor_name();

struct KernelTable;
// The kernels of an instruction set (cpu/kernels.h).
const KernelTable& kernels(Isa isa);

}  // namespace strata::device::cpu
