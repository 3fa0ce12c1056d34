// The packed formats: how a panel's bytes become lines of levels, scales and minima.
//
// A format is a struct with
//   k_columns, k_bytes       of a block of a panel
//   k_scales                 scales of a group of 32 columns: 1, or 2 (one for each 16)
//   k_minima                 whether x = scale * level + min, else x = scale * (level - offset)
//   k_most, k_signed         magnitude of a level, whether it may be negative (then no offset)
//   k_offset                 a power of two as its exponent, -1: none
//   Head, head(p, slice, h)  what the groups of a block share
//   group(p, h, g, slice, out)
// A scale is the format's real value rounded once; levels are exact.
// `p` is the start of the block, see packed.h and pack.cpp for what lies where.
#pragma once

#include STRATA_LANES

namespace strata::device::cpu {
namespace {

template <size_t k_scales>
struct Group {
  W line[8];
  V scale[k_scales];
  V min[k_scales];
};

alignas(16) constexpr int8_t k_iq4_levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                 1,    13,   25,  38,  53,  69,  89,  113};
// Twice the values of MXFP4, to be whole, and 16 more, to be positive.
alignas(16) constexpr int8_t k_mxfp4_levels[16] = {16, 17, 18, 19, 20, 22, 24, 28,
                                                   16, 15, 14, 13, 12, 10, 8,  4};

STRATA_INLINE const uint8_t* line_at(const uint8_t* lines, size_t line, size_t slice) {
  return lines + 64 * line + 4 * k_lanes * slice;
}
STRATA_INLINE V halves_at(const uint8_t* p, size_t slice) {
  return widen_f16(p + 2 * k_lanes * slice);
}
STRATA_INLINE uint64_t word_at(const uint8_t* p) {
  uint64_t x;
  __builtin_memcpy(&x, p, sizeof x);
  return x;
}
STRATA_INLINE V negative(V v) { return sub(zero(), v); }

STRATA_INLINE void load_nibbles(const uint8_t* lines, size_t slice, W* out) {
  STRATA_UNROLL(8)
  for (size_t i = 0; i < 4; ++i) {
    const W raw = w_kept(w_load(line_at(lines, i, slice)));
    out[2 * i] = w_pick<0>(raw, 15);
    out[2 * i + 1] = w_pick<4>(raw, 15);
  }
}
// Adds the plane's pairs as bits 4 and 5 (at = 4) or makes them bits 0 and 1 (at = 0).
template <int at>
STRATA_INLINE void load_pairs(const uint8_t* lines, size_t slice, W* out) {
  STRATA_UNROLL(8)
  for (size_t i = 0; i < 2; ++i) {
    const W raw = w_kept(w_load(line_at(lines, i, slice)));
    const W f[4] = {w_pick<0 - at>(raw, 3 << at), w_pick<2 - at>(raw, 3 << at),
                    w_pick<4 - at>(raw, 3 << at), w_pick<6 - at>(raw, 3 << at)};
    for (size_t j = 0; j < 4; ++j) {
      out[4 * i + j] = at == 0 ? f[j] : w_or(out[4 * i + j], f[j]);
    }
  }
}
// Adds the plane's bits as bit `at`.
template <int at>
STRATA_INLINE void add_bits(const uint8_t* line, size_t slice, W* out) {
  const W raw = w_kept(w_load(line_at(line, 0, slice)));
  out[0] = w_or(out[0], w_pick<0 - at>(raw, 1 << at));
  out[1] = w_or(out[1], w_pick<1 - at>(raw, 1 << at));
  out[2] = w_or(out[2], w_pick<2 - at>(raw, 1 << at));
  out[3] = w_or(out[3], w_pick<3 - at>(raw, 1 << at));
  out[4] = w_or(out[4], w_pick<4 - at>(raw, 1 << at));
  out[5] = w_or(out[5], w_pick<5 - at>(raw, 1 << at));
  out[6] = w_or(out[6], w_pick<6 - at>(raw, 1 << at));
  out[7] = w_or(out[7], w_pick<7 - at>(raw, 1 << at));
}

struct NoHead {};

// What most formats say of themselves; each overrides what differs.
template <size_t k_width, size_t k_file_bytes>
struct Packed {
  static constexpr size_t k_columns = k_width, k_bytes = k_file_bytes * k_panel_rows;
  static constexpr size_t k_scales = 1;
  static constexpr bool k_minima = false, k_signed = false;
  static constexpr int k_offset = -1;
  static constexpr bool k_streamed = true;  // comes from memory, in order
  using Head = NoHead;
  static STRATA_INLINE void head(const uint8_t*, size_t, NoHead&) {}
};

struct PackedQ4_0 : Packed<32, 18> {
  static constexpr int k_most = 15, k_offset = 3;
  static STRATA_INLINE void group(const uint8_t* p, const Head&, size_t, size_t slice,
                                  Group<1>& out) {
    out.scale[0] = halves_at(p, slice);
    load_nibbles(p + 32, slice, out.line);
  }
};

struct PackedQ4_1 : Packed<32, 20> {
  static constexpr int k_most = 15;
  static constexpr bool k_minima = true;
  static STRATA_INLINE void group(const uint8_t* p, const Head&, size_t, size_t slice,
                                  Group<1>& out) {
    out.scale[0] = halves_at(p, slice);
    out.min[0] = halves_at(p + 32, slice);
    load_nibbles(p + 64, slice, out.line);
  }
};

struct PackedQ5_0 : Packed<32, 22> {
  static constexpr int k_most = 31, k_offset = 4;
  static STRATA_INLINE void group(const uint8_t* p, const Head&, size_t, size_t slice,
                                  Group<1>& out) {
    out.scale[0] = halves_at(p, slice);
    load_nibbles(p + 32, slice, out.line);
    add_bits<4>(p + 288, slice, out.line);
  }
};

struct PackedQ5_1 : Packed<32, 24> {
  static constexpr int k_most = 31;
  static constexpr bool k_minima = true;
  static STRATA_INLINE void group(const uint8_t* p, const Head&, size_t, size_t slice,
                                  Group<1>& out) {
    out.scale[0] = halves_at(p, slice);
    out.min[0] = halves_at(p + 32, slice);
    load_nibbles(p + 64, slice, out.line);
    add_bits<4>(p + 320, slice, out.line);
  }
};

struct PackedQ8_0 : Packed<32, 34> {
  static constexpr int k_most = 128;
  static constexpr bool k_signed = true;
  static STRATA_INLINE void group(const uint8_t* p, const Head&, size_t, size_t slice,
                                  Group<1>& out) {
    out.scale[0] = halves_at(p, slice);
    STRATA_UNROLL(8)
    for (size_t i = 0; i < 8; ++i) out.line[i] = w_flip(w_load(line_at(p + 32, i, slice)));
  }
};

STRATA_INLINE void look_up(const int8_t* table, W* line) {
  STRATA_UNROLL(8)
  for (size_t i = 0; i < 8; ++i) line[i] = w_flip(w_lookup(table, line[i]));
}

struct PackedIq4Nl : Packed<32, 18> {
  static constexpr int k_most = 127;
  static constexpr bool k_signed = true;
  static STRATA_INLINE void group(const uint8_t* p, const Head&, size_t, size_t slice,
                                  Group<1>& out) {
    out.scale[0] = halves_at(p, slice);
    load_nibbles(p + 32, slice, out.line);
    look_up(k_iq4_levels, out.line);
  }
};

struct PackedMxfp4 : Packed<32, 17> {
  static constexpr int k_most = 28, k_offset = 4;
  static STRATA_INLINE void group(const uint8_t* p, const Head&, size_t, size_t slice,
                                  Group<1>& out) {
    out.scale[0] = power_u8(p + k_lanes * slice);
    load_nibbles(p + 16, slice, out.line);
    STRATA_UNROLL(8)
    for (size_t i = 0; i < 8; ++i) out.line[i] = w_lookup(k_mxfp4_levels, out.line[i]);
  }
};

// Sixteen scales of 6 bits for each row, widened to bytes: [scale][row].
struct SixBits {
  alignas(64) uint8_t at[256];
  STRATA_INLINE V unsigned_lane(size_t i, size_t slice) const {
    return widen_u8(at + 16 * i + k_lanes * slice);
  }
};
STRATA_INLINE void load_six_bits(const uint8_t* p, SixBits& out) {
  for (size_t i = 0; i < 64; i += sizeof(W)) {
    const W a = w_kept(w_load(p + i)), b = w_kept(w_load(p + 64 + i));
    const W top = w_kept(w_load(p + 128 + i));
    w_store(out.at + i, w_or(w_pick<0>(a, 15), w_pick<-4>(top, 48)));
    w_store(out.at + 64 + i, w_or(w_pick<4>(a, 15), w_pick<-2>(top, 48)));
    w_store(out.at + 128 + i, w_or(w_pick<0>(b, 15), w_pick<0>(top, 48)));
    w_store(out.at + 192 + i, w_or(w_pick<4>(b, 15), w_pick<2>(top, 48)));
  }
}

struct KHead {
  SixBits scales;
  V d, m;
};
STRATA_INLINE void k_head(const uint8_t* p, size_t slice, KHead& h) {
  h.d = halves_at(p, slice);
  h.m = negative(halves_at(p + 32, slice));
  load_six_bits(p + 64, h.scales);
}
STRATA_INLINE void k_scale(const KHead& h, size_t g, size_t slice, Group<1>& out) {
  out.scale[0] = mul(h.d, h.scales.unsigned_lane(g, slice));
  out.min[0] = mul(h.m, h.scales.unsigned_lane(8 + g, slice));
}

struct PackedQ4K : Packed<256, 144> {
  static constexpr int k_most = 15;
  static constexpr bool k_minima = true;
  using Head = KHead;
  static STRATA_INLINE void head(const uint8_t* p, size_t slice, Head& h) { k_head(p, slice, h); }
  static STRATA_INLINE void group(const uint8_t* p, const Head& h, size_t g, size_t slice,
                                  Group<1>& out) {
    k_scale(h, g, slice, out);
    load_nibbles(p + 256 + 256 * g, slice, out.line);
  }
};

struct PackedQ5K : Packed<256, 176> {
  static constexpr int k_most = 31;
  static constexpr bool k_minima = true;
  using Head = KHead;
  static STRATA_INLINE void head(const uint8_t* p, size_t slice, Head& h) { k_head(p, slice, h); }
  static STRATA_INLINE void group(const uint8_t* p, const Head& h, size_t g, size_t slice,
                                  Group<1>& out) {
    k_scale(h, g, slice, out);
    load_nibbles(p + 256 + 320 * g, slice, out.line);
    add_bits<4>(p + 256 + 320 * g + 256, slice, out.line);
  }
};

struct PackedQ2K : Packed<256, 84> {
  static constexpr int k_most = 3;
  static constexpr size_t k_scales = 2;
  static constexpr bool k_minima = true;
  struct Head {
    alignas(64) uint8_t scale[256];
    alignas(64) uint8_t min[256];
    V d, m;
  };
  static STRATA_INLINE void head(const uint8_t* p, size_t slice, Head& h) {
    h.d = halves_at(p, slice);
    h.m = negative(halves_at(p + 32, slice));
    for (size_t i = 0; i < 256; i += sizeof(W)) {
      const W both = w_kept(w_load(p + 64 + i));
      w_store(h.scale + i, w_pick<0>(both, 15));
      w_store(h.min + i, w_pick<4>(both, 15));
    }
  }
  static STRATA_INLINE void group(const uint8_t* p, const Head& h, size_t g, size_t slice,
                                  Group<2>& out) {
    for (size_t i = 0; i < 2; ++i) {
      const size_t at = 16 * (2 * g + i) + k_lanes * slice;
      out.scale[i] = mul(h.d, widen_u8(h.scale + at));
      out.min[i] = mul(h.m, widen_u8(h.min + at));
    }
    load_pairs<0>(p + 320 + 128 * g, slice, out.line);
  }
};

struct PackedQ3K : Packed<256, 110> {
  static constexpr int k_most = 7, k_offset = 2;
  static constexpr size_t k_scales = 2;
  struct Head {
    SixBits scales;
    V d;
  };
  static STRATA_INLINE void head(const uint8_t* p, size_t slice, Head& h) {
    h.d = halves_at(p, slice);
    load_six_bits(p + 32, h.scales);
  }
  static STRATA_INLINE void group(const uint8_t* p, const Head& h, size_t g, size_t slice,
                                  Group<2>& out) {
    for (size_t i = 0; i < 2; ++i) {
      const V s = sub(h.scales.unsigned_lane(2 * g + i, slice), set1(32));
      out.scale[i] = mul(h.d, s);
    }
    load_pairs<0>(p + 224 + 192 * g, slice, out.line);
    add_bits<2>(p + 224 + 192 * g + 128, slice, out.line);
  }
};

struct PackedQ6K : Packed<256, 210> {
  static constexpr int k_most = 63, k_offset = 5;
  static constexpr size_t k_scales = 2;
  struct Head {
    V d;
  };
  static STRATA_INLINE void head(const uint8_t* p, size_t slice, Head& h) {
    h.d = halves_at(p, slice);
  }
  static STRATA_INLINE void group(const uint8_t* p, const Head& h, size_t g, size_t slice,
                                  Group<2>& out) {
    for (size_t i = 0; i < 2; ++i) {
      out.scale[i] = mul(h.d, widen_s8(p + 32 + 16 * (2 * g + i) + k_lanes * slice));
    }
    load_nibbles(p + 288 + 384 * g, slice, out.line);
    load_pairs<4>(p + 288 + 384 * g + 256, slice, out.line);
  }
};

struct PackedIq4Xs : Packed<256, 136> {
  static constexpr int k_most = 127;
  static constexpr bool k_signed = true;
  struct Head {
    alignas(64) uint8_t scale[128];
    V d;
  };
  static STRATA_INLINE void head(const uint8_t* p, size_t slice, Head& h) {
    h.d = halves_at(p, slice);
    // Eight scales at a time: four bits, two bits, less 32 (as 8-bit sums that carry nothing over).
    constexpr uint64_t k_each = 0x0101010101010101u;
    for (size_t i = 0; i < 128; i += 8) {
      const uint64_t low = word_at(p + 32 + i % 64) >> (i / 64 * 4) & 15 * k_each;
      const uint64_t high = word_at(p + 96 + i % 32) >> (i / 32 * 2) & 3 * k_each;
      const uint64_t v = ((low | high << 4) + 96 * k_each) ^ 128 * k_each;
      __builtin_memcpy(h.scale + i, &v, sizeof v);
    }
  }
  static STRATA_INLINE void group(const uint8_t* p, const Head& h, size_t g, size_t slice,
                                  Group<1>& out) {
    out.scale[0] = mul(h.d, widen_s8(h.scale + 16 * g + k_lanes * slice));
    load_nibbles(p + 128 + 256 * g, slice, out.line);
    look_up(k_iq4_levels, out.line);
  }
};

// A panel of F whose levels have been unpacked to bytes: 8 lines, scales, minima for 32 columns.
template <class F>
struct Unpacked {
  static constexpr size_t k_columns = 32;
  static constexpr size_t k_scales = F::k_scales;
  static constexpr bool k_streamed = false;
  static constexpr bool k_minima = F::k_minima, k_signed = F::k_signed;
  static constexpr int k_most = F::k_most, k_offset = F::k_offset;
  static constexpr size_t k_bytes = 512 + 64 * k_scales * (k_minima ? 2 : 1);
  using Head = NoHead;
  static STRATA_INLINE void head(const uint8_t*, size_t, NoHead&) {}
  static STRATA_INLINE const float* floats(const uint8_t* p, size_t i, size_t slice) {
    return reinterpret_cast<const float*>(p + 512 + 64 * i) + k_lanes * slice;
  }
  static STRATA_INLINE void group(const uint8_t* p, const Head&, size_t, size_t slice,
                                  Group<k_scales>& out) {
    STRATA_UNROLL(8)
    for (size_t i = 0; i < 8; ++i) out.line[i] = w_load(line_at(p, i, slice));
    for (size_t i = 0; i < k_scales; ++i) {
      out.scale[i] = load(floats(p, i, slice));
      if (k_minima) out.min[i] = load(floats(p, k_scales + i, slice));
    }
  }
  static STRATA_INLINE void store_group(uint8_t* p, size_t slice, const Group<k_scales>& in) {
    for (size_t i = 0; i < 8; ++i) w_store(const_cast<uint8_t*>(line_at(p, i, slice)), in.line[i]);
    for (size_t i = 0; i < k_scales; ++i) {
      store(const_cast<float*>(floats(p, i, slice)), in.scale[i]);
      if (k_minima) store(const_cast<float*>(floats(p, k_scales + i, slice)), in.min[i]);
    }
  }
};

}  // namespace
}  // namespace strata::device::cpu
