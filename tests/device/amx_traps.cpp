#include "device/amx_traps.h"

#if defined(__x86_64__)
#include <ucontext.h>

#include <cstdint>
#include <cstring>

namespace strata::test {
namespace {

constexpr int k_tiles = 8, k_rows = 16, k_row_bytes = 64;

struct Tiles {
  uint16_t row_bytes[k_tiles];
  uint8_t rows[k_tiles];
  uint8_t at[k_tiles][k_rows][k_row_bytes];
};
thread_local Tiles t_tiles;

// The form C4 / R X B and map / W vvvv L pp / opcode / ModRM, as all of them are written.
struct Instruction {
  unsigned prefix, opcode, mod, reg, rm, other;  // `other`: the register in vvvv
  uintptr_t address;                             // of a memory operand
  int64_t stride;                                // its scaled index, when it has one
  size_t length;
};

constexpr int k_registers[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                 REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                 REG_R12, REG_R13, REG_R14, REG_R15};

bool decode(const uint8_t* p, const greg_t* registers, Instruction& out) {
  constexpr unsigned k_map_0f38 = 2;
  if (p[0] != 0xC4 || (p[1] & 31) != k_map_0f38) return false;
  const auto extension = [&](unsigned bit) { return (p[1] >> bit & 1) != 0 ? 0u : 8u; };
  const auto value = [&](unsigned i) { return static_cast<int64_t>(registers[k_registers[i]]); };
  out = {.prefix = p[2] & 3u,
         .opcode = p[3],
         .mod = unsigned{p[4]} >> 6,
         .reg = unsigned{p[4]} >> 3 & 7,
         .rm = p[4] & 7u,
         .other = ~unsigned{p[2]} >> 3 & 15,
         .address = 0,
         .stride = 0,
         .length = 5};
  if (out.mod == 3) return true;
  int64_t base = 0;
  bool wide = out.mod == 2, to_next = false;
  if (out.rm == 4) {
    const unsigned sib = p[out.length++];
    const unsigned index = (sib >> 3 & 7) | extension(6);
    if (index != 4) out.stride = value(index) * (int64_t{1} << (sib >> 6));
    if ((sib & 7) == 5 && out.mod == 0) {
      wide = true;
    } else {
      base = value((sib & 7) | extension(5));
    }
  } else if (out.rm == 5 && out.mod == 0) {
    wide = to_next = true;
  } else {
    base = value(out.rm | extension(5));
  }
  if (wide) {
    int32_t displacement;
    std::memcpy(&displacement, p + out.length, sizeof displacement);
    base += displacement;
    out.length += 4;
  } else if (out.mod == 1) {
    base += static_cast<int8_t>(p[out.length++]);
  }
  if (to_next) base += static_cast<int64_t>(reinterpret_cast<uintptr_t>(p) + out.length);
  out.address = static_cast<uintptr_t>(base);
  return true;
}

bool configure(const uint8_t* from) {
  std::memset(&t_tiles, 0, sizeof t_tiles);
  if (from[0] != 1 || from[1] != 0) return false;
  for (int i = 2; i < 16; ++i) {
    if (from[i] != 0) return false;
  }
  for (int i = 0; i < k_tiles; ++i) {
    std::memcpy(&t_tiles.row_bytes[i], from + 16 + 2 * i, 2);
    t_tiles.rows[i] = from[48 + i];
    if (t_tiles.row_bytes[i] > k_row_bytes || t_tiles.rows[i] > k_rows) return false;
    if ((t_tiles.row_bytes[i] == 0) != (t_tiles.rows[i] == 0)) return false;
  }
  return true;
}

// Which operand is signed: by the prefix none, 66, F3, F2.
bool multiply(unsigned to, unsigned a, unsigned b, unsigned prefix) {
  const Tiles& t = t_tiles;
  const bool a_signed = prefix >= 2, b_signed = (prefix & 1) != 0;
  const int depth = t.row_bytes[a] / 4;
  if (to == a || to == b || a == b) return false;
  if (t.rows[to] != t.rows[a] || t.row_bytes[to] != t.row_bytes[b] || depth != t.rows[b]) {
    return false;
  }
  const auto level = [](uint8_t byte, bool is_signed) {
    return is_signed ? static_cast<int32_t>(static_cast<int8_t>(byte)) : int32_t{byte};
  };
  for (int m = 0; m < t.rows[to]; ++m) {
    for (int n = 0; n < t.row_bytes[to] / 4; ++n) {
      int32_t sum;
      std::memcpy(&sum, t.at[to][m] + 4 * n, sizeof sum);
      for (int k = 0; k < depth; ++k) {
        for (int i = 0; i < 4; ++i) {
          sum += level(t.at[a][m][4 * k + i], a_signed) * level(t.at[b][k][4 * n + i], b_signed);
        }
      }
      std::memcpy(t_tiles.at[to][m] + 4 * n, &sum, sizeof sum);
    }
  }
  return true;
}

bool carry_out(const Instruction& x) {
  enum : unsigned { k_none, k_66, k_f3, k_f2 };
  auto* memory = reinterpret_cast<uint8_t*>(x.address);
  const auto row = [&](int i) { return memory + i * x.stride; };
  if (x.opcode == 0x49 && x.prefix == k_none) {
    if (x.mod != 3) return configure(memory);
    std::memset(&t_tiles, 0, sizeof t_tiles);
    return true;
  }
  if (x.opcode == 0x49 && x.prefix == k_f2 && x.mod == 3) {
    std::memset(t_tiles.at[x.reg], 0, sizeof t_tiles.at[x.reg]);
    return t_tiles.rows[x.reg] != 0;
  }
  if (x.opcode == 0x4B && x.mod != 3 && x.rm == 4) {
    const int n_rows = t_tiles.rows[x.reg];
    const size_t bytes = t_tiles.row_bytes[x.reg];
    if (x.prefix == k_f2) {
      std::memset(t_tiles.at[x.reg], 0, sizeof t_tiles.at[x.reg]);
      for (int i = 0; i < n_rows; ++i) std::memcpy(t_tiles.at[x.reg][i], row(i), bytes);
      return n_rows != 0;
    }
    if (x.prefix == k_f3) {
      for (int i = 0; i < n_rows; ++i) std::memcpy(row(i), t_tiles.at[x.reg][i], bytes);
      return n_rows != 0;
    }
  }
  return x.opcode == 0x5E && x.mod == 3 && x.other < k_tiles &&
         multiply(x.reg, x.rm, x.other, x.prefix);
}

void on_refused(int, siginfo_t*, void* context) {
  greg_t* registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  Instruction x;
  const auto* at = reinterpret_cast<const uint8_t*>(registers[REG_RIP]);
  if (decode(at, registers, x) && carry_out(x)) {
    registers[REG_RIP] += static_cast<greg_t>(x.length);
    return;
  }
  // Not ours, or not as the manual wants it: refused again, for good.
  std::signal(SIGILL, SIG_DFL);
}

}  // namespace

AmxTraps::AmxTraps() {
  struct sigaction action = {};
  action.sa_sigaction = on_refused;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGILL, &action, &before_);
}

AmxTraps::~AmxTraps() { sigaction(SIGILL, &before_, nullptr); }

}  // namespace strata::test
#endif
