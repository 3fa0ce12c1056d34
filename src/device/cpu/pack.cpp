#include "device/cpu/pack.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "device/cpu/packed.h"

namespace strata::device::cpu {
namespace {

constexpr uint64_t k_run_bytes = uint64_t{1} << 20;

// The 32 levels of a group of one row, a byte each; word i holds columns 8i to 8i + 7.
struct Levels {
  uint64_t word[4];
  uint32_t columns(size_t line) const {
    return static_cast<uint32_t>(word[line / 2] >> (32 * (line % 2)));
  }
};

constexpr uint64_t every(uint8_t byte) { return 0x0101010101010101u * byte; }

uint64_t u64_at(const uint8_t* p) {
  uint64_t x;
  std::memcpy(&x, p, sizeof x);
  return x;
}
uint32_t u32_at(const uint8_t* p) {
  uint32_t x;
  std::memcpy(&x, p, sizeof x);
  return x;
}

void put(uint8_t* lines, size_t line, size_t row, uint32_t four) {
  std::memcpy(lines + 64 * line + 4 * row, &four, sizeof four);
}

// Planes of a group's levels.
void put_bytes(const Levels& levels, uint8_t* lines, size_t row) {
  for (size_t i = 0; i < 8; ++i) put(lines, i, row, levels.columns(i));
}
void put_nibbles(const Levels& levels, uint8_t* lines, size_t row) {
  for (size_t i = 0; i < 4; ++i) {
    const uint64_t w = levels.word[i] & every(15);
    put(lines, i, row, static_cast<uint32_t>(w | w >> 28));
  }
}
// Two bits from `shift` on: field f of line l belongs to columns 16 l + 4 f and the three after.
void put_pairs(const Levels& levels, unsigned shift, uint8_t* lines, size_t row) {
  for (size_t l = 0; l < 2; ++l) {
    uint32_t out = 0;
    for (size_t f = 0; f < 4; ++f) {
      out |= ((levels.columns(4 * l + f) >> shift) & 0x03030303u) << (2 * f);
    }
    put(lines, l, row, out);
  }
}
// One bit: bit i belongs to columns 4 i and the three after.
void put_bit(const Levels& levels, unsigned shift, uint8_t* line, size_t row) {
  uint32_t out = 0;
  for (size_t i = 0; i < 8; ++i) out |= ((levels.columns(i) >> shift) & 0x01010101u) << i;
  put(line, 0, row, out);
}

// Sixteen values below 64: nibbles of 0-3 and 4-7, nibbles of 8-11 and 12-15, upper pairs of bits.
void put_six_bits(const uint8_t* v, uint8_t* to, size_t row) {
  for (size_t i = 0; i < 4; ++i) {
    const size_t at = 16 * i + row;
    to[at] = static_cast<uint8_t>((v[i] & 15) | (v[4 + i] & 15) << 4);
    to[64 + at] = static_cast<uint8_t>((v[8 + i] & 15) | (v[12 + i] & 15) << 4);
    to[128 + at] = static_cast<uint8_t>(v[i] >> 4 | v[4 + i] >> 4 << 2 | v[8 + i] >> 4 << 4 |
                                        v[12 + i] >> 4 << 6);
  }
}

void put_half(const uint8_t* half, uint8_t* halves, size_t row) {
  std::memcpy(halves + 2 * row, half, 2);
}

// Levels of the 32-wide formats: the low nibbles of 16 bytes, then the high ones.
Levels nibbles_16(const uint8_t* p) {
  const uint64_t a = u64_at(p), b = u64_at(p + 8);
  return {{a & every(15), b & every(15), (a >> 4) & every(15), (b >> 4) & every(15)}};
}
// The low or the high nibbles of 32 bytes.
Levels nibbles_32(const uint8_t* p, bool high) {
  Levels out;
  for (size_t i = 0; i < 4; ++i) out.word[i] = (u64_at(p + 8 * i) >> (high ? 4 : 0)) & every(15);
  return out;
}
// Adds bit `bit` of each of 32 bytes as bit `to` of its level.
void add_bits(Levels& levels, const uint8_t* p, size_t bit, unsigned to) {
  for (size_t i = 0; i < 4; ++i) levels.word[i] |= ((u64_at(p + 8 * i) >> bit) & every(1)) << to;
}
// Eight bits to bit 4 of eight bytes.
uint64_t spread_bits(uint64_t bits) {
  const uint64_t copies = every(1) * (bits & 255);
  const uint64_t own = copies & 0x8040201008040201u;
  return (own + every(127)) >> 3 & every(16);
}
void add_fifth_bits(Levels& levels, uint32_t bits) {
  for (size_t i = 0; i < 4; ++i) levels.word[i] |= spread_bits(bits >> (8 * i));
}

// A format packs one block of one row into the panel's block.
template <size_t N>
struct Nibbles {  // Q4_0, IQ4_NL (N = 1), Q4_1 (N = 2 halves in front)
  static constexpr size_t k_columns = 32, k_bytes = 16 + 2 * N;
  static void pack(const uint8_t* block, uint8_t* to, size_t row) {
    for (size_t i = 0; i < N; ++i) put_half(block + 2 * i, to + 32 * i, row);
    put_nibbles(nibbles_16(block + 2 * N), to + 32 * N, row);
  }
};

template <size_t N>
struct FiveBits {  // Q5_0, Q5_1
  static constexpr size_t k_columns = 32, k_bytes = 20 + 2 * N;
  static void pack(const uint8_t* block, uint8_t* to, size_t row) {
    for (size_t i = 0; i < N; ++i) put_half(block + 2 * i, to + 32 * i, row);
    Levels levels = nibbles_16(block + 2 * N + 4);
    add_fifth_bits(levels, u32_at(block + 2 * N));
    put_nibbles(levels, to + 32 * N, row);
    put_bit(levels, 4, to + 32 * N + 256, row);
  }
};

struct Eight {  // Q8_0
  static constexpr size_t k_columns = 32, k_bytes = 34;
  static void pack(const uint8_t* block, uint8_t* to, size_t row) {
    put_half(block, to, row);
    Levels levels;
    for (size_t i = 0; i < 4; ++i) levels.word[i] = u64_at(block + 2 + 8 * i);
    put_bytes(levels, to + 32, row);
  }
};

struct Mx4 {  // MXFP4: one byte of exponent
  static constexpr size_t k_columns = 32, k_bytes = 17;
  static void pack(const uint8_t* block, uint8_t* to, size_t row) {
    to[row] = block[0];
    put_nibbles(nibbles_16(block + 1), to + 16, row);
  }
};

struct K2 {  // Q2_K: d, m; 16 x 16 bytes of scale and minimum; 2 lines a group
  static constexpr size_t k_columns = 256, k_bytes = 84;
  static void pack(const uint8_t* block, uint8_t* to, size_t row) {
    put_half(block + 80, to, row);
    put_half(block + 82, to + 32, row);
    for (size_t i = 0; i < 16; ++i) to[64 + 16 * i + row] = block[i];
    for (size_t g = 0; g < 8; ++g) {
      Levels levels;
      for (size_t i = 0; i < 4; ++i) {
        levels.word[i] = (u64_at(block + 16 + g / 4 * 32 + 8 * i) >> (g % 4 * 2)) & every(3);
      }
      put_pairs(levels, 0, to + 320 + 128 * g, row);
    }
  }
};

struct K3 {  // Q3_K: d; 6-bit scales; 2 lines and 1 of upper bits a group
  static constexpr size_t k_columns = 256, k_bytes = 110;
  static void pack(const uint8_t* block, uint8_t* to, size_t row) {
    put_half(block + 108, to, row);
    uint8_t scales[16];
    for (size_t i = 0; i < 16; ++i) {
      const uint8_t low = block[96 + i % 8] >> (i < 8 ? 0 : 4) & 15;
      const uint8_t high = block[104 + i % 4] >> (i / 4 * 2) & 3;
      scales[i] = static_cast<uint8_t>(low | high << 4);
    }
    put_six_bits(scales, to + 32, row);
    for (size_t g = 0; g < 8; ++g) {
      Levels levels;
      for (size_t i = 0; i < 4; ++i) {
        levels.word[i] = (u64_at(block + 32 + g / 4 * 32 + 8 * i) >> (g % 4 * 2)) & every(3);
      }
      add_bits(levels, block, g, 2);
      put_pairs(levels, 0, to + 224 + 192 * g, row);
      put_bit(levels, 2, to + 224 + 192 * g + 128, row);
    }
  }
};

// The 8 scales and 8 minima of Q4_K and Q5_K.
void put_k_scales(const uint8_t* block, uint8_t* to, size_t row) {
  put_half(block, to, row);
  put_half(block + 2, to + 32, row);
  const uint8_t* s = block + 4;
  uint8_t v[16];
  for (size_t i = 0; i < 4; ++i) {
    v[i] = s[i] & 63;
    v[8 + i] = s[4 + i] & 63;
    v[4 + i] = static_cast<uint8_t>((s[8 + i] & 15) | s[i] >> 6 << 4);
    v[12 + i] = static_cast<uint8_t>(s[8 + i] >> 4 | s[4 + i] >> 6 << 4);
  }
  put_six_bits(v, to + 64, row);
}

struct K4 {  // Q4_K: d, m; 6-bit scales and minima; 4 lines a group
  static constexpr size_t k_columns = 256, k_bytes = 144;
  static void pack(const uint8_t* block, uint8_t* to, size_t row) {
    put_k_scales(block, to, row);
    for (size_t g = 0; g < 8; ++g) {
      put_nibbles(nibbles_32(block + 16 + g / 2 * 32, g % 2 != 0), to + 256 + 256 * g, row);
    }
  }
};

struct K5 {  // Q5_K: as Q4_K and 1 line of fifth bits a group
  static constexpr size_t k_columns = 256, k_bytes = 176;
  static void pack(const uint8_t* block, uint8_t* to, size_t row) {
    put_k_scales(block, to, row);
    for (size_t g = 0; g < 8; ++g) {
      Levels levels = nibbles_32(block + 48 + g / 2 * 32, g % 2 != 0);
      add_bits(levels, block + 16, g, 4);
      put_nibbles(levels, to + 256 + 320 * g, row);
      put_bit(levels, 4, to + 256 + 320 * g + 256, row);
    }
  }
};

struct K6 {  // Q6_K: d; 16 x 16 bytes of scale; 4 lines and 2 of upper pairs a group
  static constexpr size_t k_columns = 256, k_bytes = 210;
  static void pack(const uint8_t* block, uint8_t* to, size_t row) {
    put_half(block + 208, to, row);
    for (size_t i = 0; i < 16; ++i) to[32 + 16 * i + row] = block[192 + i];
    for (size_t g = 0; g < 8; ++g) {
      const size_t n = g / 4, j = g % 4;
      Levels levels = nibbles_32(block + 64 * n + 32 * (j & 1), j >= 2);
      for (size_t i = 0; i < 4; ++i) {
        const uint64_t top = u64_at(block + 128 + 32 * n + 8 * i) >> (2 * j);
        levels.word[i] |= (top & every(3)) << 4;
      }
      put_nibbles(levels, to + 288 + 384 * g, row);
      put_pairs(levels, 4, to + 288 + 384 * g + 256, row);
    }
  }
};

struct I4Xs {  // IQ4_XS: d; nibbles and upper pairs of 8 scales; 4 lines a group
  static constexpr size_t k_columns = 256, k_bytes = 136;
  static void pack(const uint8_t* block, uint8_t* to, size_t row) {
    put_half(block, to, row);
    const uint32_t high = u32_at(block) >> 16;
    uint8_t v[8];
    for (size_t g = 0; g < 8; ++g) {
      const uint32_t low = block[4 + g / 2] >> (g % 2 * 4) & 15u;
      v[g] = static_cast<uint8_t>(low | (high >> (2 * g) & 3) << 4);
    }
    for (size_t i = 0; i < 4; ++i) {
      to[32 + 16 * i + row] = static_cast<uint8_t>((v[i] & 15) | (v[4 + i] & 15) << 4);
    }
    for (size_t i = 0; i < 2; ++i) {
      to[96 + 16 * i + row] = static_cast<uint8_t>(v[i] >> 4 | v[2 + i] >> 4 << 2 |
                                                   v[4 + i] >> 4 << 4 | v[6 + i] >> 4 << 6);
    }
    for (size_t g = 0; g < 8; ++g) {
      put_nibbles(nibbles_16(block + 8 + 16 * g), to + 128 + 256 * g, row);
    }
  }
};

template <class F>
void pack_panel(const uint8_t* from, uint64_t n_columns, size_t n_rows, uint8_t* to) {
  const uint64_t n_blocks = n_columns / F::k_columns;
  const uint64_t stride = n_blocks * F::k_bytes;
  constexpr size_t k_panel_block = F::k_bytes * k_panel_rows;
  if (n_rows < k_panel_rows) std::memset(to, 0, n_blocks * k_panel_block);
  for (uint64_t b = 0; b < n_blocks; ++b) {
    for (size_t r = 0; r < n_rows; ++r) {
      F::pack(from + r * stride + b * F::k_bytes, to + b * k_panel_block, r);
    }
  }
}

using PackPanel = void (*)(const uint8_t*, uint64_t, size_t, uint8_t*);

PackPanel pack_panel_of(ElementType type) {
  switch (type) {
    case ElementType::q4_0:
    case ElementType::iq4_nl:
      return pack_panel<Nibbles<1>>;
    case ElementType::q4_1:
      return pack_panel<Nibbles<2>>;
    case ElementType::q5_0:
      return pack_panel<FiveBits<1>>;
    case ElementType::q5_1:
      return pack_panel<FiveBits<2>>;
    case ElementType::q8_0:
      return pack_panel<Eight>;
    case ElementType::q2_k:
      return pack_panel<K2>;
    case ElementType::q3_k:
      return pack_panel<K3>;
    case ElementType::q4_k:
      return pack_panel<K4>;
    case ElementType::q5_k:
      return pack_panel<K5>;
    case ElementType::q6_k:
      return pack_panel<K6>;
    case ElementType::iq4_xs:
      return pack_panel<I4Xs>;
    case ElementType::mxfp4:
      return pack_panel<Mx4>;
    case ElementType::f32:
    case ElementType::f16:
    case ElementType::bf16:
      break;
  }
  fail(ErrorCode::internal, "weights in {} are not packed", info(type).name);
}

struct Panels {
  explicit Panels(const WeightSpec& spec)
      : rows(spec.dims[1]),
        per_matrix((rows + k_panel_rows - 1) / k_panel_rows),
        matrices(spec.rows() / rows),
        row(row_bytes(spec.type, spec.dims[0])) {}
  // Of all matrices' panels, the one that begins at this row.
  uint64_t panel_at(uint64_t at) const { return at / rows * per_matrix + at % rows / k_panel_rows; }

  uint64_t rows, per_matrix, matrices;
  uint64_t row;  // bytes
};

}  // namespace

bool is_packed(const WeightSpec& spec) {
  return info(spec.type).block_elems > 1 && spec.dims[1] > 0;
}

uint64_t stored_bytes(const WeightSpec& spec) {
  if (!is_packed(spec)) return spec.bytes();
  const Panels p(spec);
  return p.matrices * p.per_matrix * k_panel_rows * p.row;
}

uint64_t store_items(const WeightSpec& spec, RowRange rows) {
  if (!is_packed(spec)) {
    return (row_bytes(spec.type, spec.dims[0]) * rows.count + k_run_bytes - 1) / k_run_bytes;
  }
  const Panels p(spec);
  const auto at_border = [&](uint64_t row) { return row % p.rows % k_panel_rows == 0; };
  if (!at_border(rows.first) || !at_border(rows.first + rows.count)) {
    fail(ErrorCode::internal, "weight '{}': rows {} to {} do not begin and end with a panel",
         spec.name, rows.first, rows.first + rows.count);
  }
  return p.panel_at(rows.first + rows.count) - p.panel_at(rows.first);
}

bool store_items(const WeightSpec& spec, RowRange rows, const std::byte* from, std::byte* to,
                 uint64_t begin, uint64_t end) {
  if (!is_packed(spec)) {
    const uint64_t row = row_bytes(spec.type, spec.dims[0]);
    const uint64_t first = begin * k_run_bytes;
    const uint64_t bytes = std::min(end * k_run_bytes, row * rows.count) - first;
    std::byte* out = to + row * rows.first + first;
    std::memcpy(out, from + first, bytes);
    return all_finite(spec.type, out, bytes / info(spec.type).block_bytes);
  }
  bool finite = true;
  const Panels p(spec);
  const PackPanel pack = pack_panel_of(spec.type);
  const uint64_t first_panel = p.panel_at(rows.first);
  for (uint64_t i = first_panel + begin; i < first_panel + end; ++i) {
    const uint64_t within = i % p.per_matrix * k_panel_rows;
    const size_t n_rows = std::min<uint64_t>(k_panel_rows, p.rows - within);
    const std::byte* source = from + (i / p.per_matrix * p.rows + within - rows.first) * p.row;
    // Packed while what the check has read is still in the cache.
    finite = finite && all_finite(spec.type, source, n_rows * spec.dims[0]);
    pack(reinterpret_cast<const uint8_t*>(source), spec.dims[0], n_rows,
         reinterpret_cast<uint8_t*>(to) + i * k_panel_rows * p.row);
  }
  return finite;
}

bool store_all(const WeightSpec& spec, const std::byte* from, std::byte* to) {
  const RowRange rows{0, spec.rows()};
  return store_items(spec, rows, from, to, 0, store_items(spec, rows));
}

}  // namespace strata::device::cpu
