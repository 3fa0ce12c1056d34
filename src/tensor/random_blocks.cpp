#include "tensor/random_blocks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/error.h"

namespace strata {
namespace {

// Relative spread of the scales from block to block: uniform in 1 +- k_spread.
constexpr double k_spread = 0.25;

void fill_bits(RandomBits& random, uint8_t* dst, size_t bytes) {
  size_t i = 0;
  for (; i + 8 <= bytes; i += 8) {
    const uint64_t word = random.next();
    std::memcpy(dst + i, &word, 8);
  }
  if (i < bytes) {
    const uint64_t word = random.next();
    std::memcpy(dst + i, &word, bytes - i);
  }
}

void store_u16(uint8_t* to, uint16_t bits) { std::memcpy(to, &bits, sizeof bits); }
void store_f16(uint8_t* to, float value) { store_u16(to, f32_to_f16(value)); }

// The scale of a block whose values, with a scale of 1, have the standard deviation `unit`.
class Scales {
 public:
  Scales(double sigma, double unit)
      : mean_(static_cast<float>(sigma / unit / std::sqrt(1 + k_spread * k_spread / 3))) {}
  // From 16 of the bits given.
  float positive(uint64_t bits) const {
    const float u = static_cast<float>(bits & 0xFFFF) * 0x1p-15f - 1.0f;  // [-1, 1)
    return mean_ * (1.0f + static_cast<float>(k_spread) * u);
  }
  // Of either sign: quants that are not quite symmetric then still have mean 0 over the blocks.
  float either(uint64_t bits) const {
    return (bits >> 16 & 1) != 0 ? -positive(bits) : positive(bits);
  }

 private:
  float mean_;
};

// Standard deviation of integers uniform over `count` values around 0, and of such integers that
// lie half a step below 0 (as -8 to 7 do).
double spread_of(int count) { return std::sqrt((double(count) * count - 1) / 12); }
double offset_spread_of(int count) { return std::hypot(spread_of(count), 0.5); }

// The `index`-th byte of `bits`, scaled down to 0 .. count - 1.
int below(uint64_t bits, size_t index, int count) {
  return static_cast<int>((bits >> (8 * index) & 255) * static_cast<uint64_t>(count) >> 8);
}

// ---- Blocks of 32: one scale, random quants.

void symmetric(RandomBits& random, const Scales& scales, uint8_t* dst, size_t blocks,
               size_t block_bytes) {
  for (size_t b = 0; b < blocks; ++b, dst += block_bytes) {
    store_f16(dst, scales.either(random.next()));
    fill_bits(random, dst + 2, block_bytes - 2);
  }
}

// With a minimum: about -`middle` times the scale.
void with_minimum(RandomBits& random, const Scales& scales, int middle, uint8_t* dst, size_t blocks,
                  size_t block_bytes) {
  for (size_t b = 0; b < blocks; ++b, dst += block_bytes) {
    const uint64_t bits = random.next();
    const float d = scales.positive(bits);
    store_f16(dst, d);
    store_f16(dst + 2, -d * static_cast<float>(middle + static_cast<int>(bits >> 16 & 1)));
    fill_bits(random, dst + 4, block_bytes - 4);
  }
}

void q8_0(RandomBits& random, const Scales& scales, uint8_t* dst, size_t blocks) {
  symmetric(random, scales, dst, blocks, 34);
  for (size_t b = 0; b < blocks; ++b) {
    // Encoders give -127 to 127.
    uint8_t* quants = dst + 34 * b + 2;
    for (size_t i = 0; i < 32; ++i) quants[i] = quants[i] == 0x80 ? 0x81 : quants[i];
  }
}

// E2M1 values times a power of two; two neighbouring exponents mixed give any deviation.
void mxfp4(RandomBits& random, double sigma, uint8_t* dst, size_t blocks) {
  // Values 0, .5, 1, 1.5, 2, 3, 4, 6 of either sign: mean square 68.5 / 8.
  const double wanted = sigma * sigma / (68.5 / 8);  // E[4^exponent]
  const int low = std::clamp(static_cast<int>(std::floor(std::log2(wanted) / 2)), -126, 120);
  const double at_low = std::exp2(2.0 * low);
  const double share_of_high = std::clamp((wanted / at_low - 1) / 3, 0.0, 1.0);
  const auto threshold = static_cast<uint64_t>(share_of_high * 65536);
  for (size_t b = 0; b < blocks; ++b, dst += 17) {
    dst[0] = static_cast<uint8_t>(low + 127 + ((random.next() & 0xFFFF) < threshold ? 1 : 0));
    fill_bits(random, dst + 1, 16);
  }
}

// ---- Blocks of 256.

// Scales 8 to 13 and minima that centre the quants, give or take 2 (both of 4 bits).
void q2_k(RandomBits& random, double sigma, uint8_t* dst, size_t blocks) {
  const double sub = 10.5 * 10.5 + 35.0 / 12;  // E[scale^2]
  const Scales scales(sigma, std::sqrt(sub * 1.25 + 1.5 * 1.5 * 2));
  for (size_t b = 0; b < blocks; ++b, dst += 84) {
    for (size_t half = 0; half < 2; ++half) {
      const uint64_t bits = random.next();
      const uint64_t more = random.next();
      for (size_t s = 0; s < 8; ++s) {
        const int scale = 8 + below(bits, s, 6);
        const int min = scale + below(more, s, 5) - 2;
        dst[8 * half + s] = static_cast<uint8_t>(scale | min << 4);
      }
    }
    fill_bits(random, dst + 16, 64);
    const float d = scales.positive(random.next());
    store_f16(dst + 80, d);
    store_f16(dst + 82, d * 1.5f);
  }
}

// Six-bit scales -32 to 31 and quants -4 to 3, all as they come.
void q3_k(RandomBits& random, double sigma, uint8_t* dst, size_t blocks) {
  const Scales scales(sigma, offset_spread_of(64) * offset_spread_of(8));
  for (size_t b = 0; b < blocks; ++b, dst += 110) {
    fill_bits(random, dst, 108);
    store_f16(dst + 108, scales.either(random.next()));
  }
}

// Q4_K and Q5_K: scales 32 to 59 and minima that centre the quants, give or take 4 (both of 6
// bits); `middle` is the mean of the quants, `spread` their deviation.
void q45_k(RandomBits& random, double sigma, double middle, double spread, uint8_t* dst,
           size_t blocks, size_t block_bytes) {
  const double sub = 45.5 * 45.5 + (28.0 * 28.0 - 1) / 12;  // E[scale^2]
  const double unit = std::sqrt(sub * spread * spread + middle * middle * (80.0 / 12));
  const Scales scales(sigma, unit);
  for (size_t b = 0; b < blocks; ++b, dst += block_bytes) {
    const float d = scales.positive(random.next());
    store_f16(dst, d);
    store_f16(dst + 2, d * static_cast<float>(middle));
    const uint64_t bits = random.next();
    const uint64_t more = random.next();
    int scale[8];
    int min[8];
    for (size_t s = 0; s < 8; ++s) {
      scale[s] = 32 + below(bits, s, 28);
      min[s] = scale[s] + below(more, s, 9) - 4;
    }
    uint8_t* packed = dst + 4;
    for (size_t s = 0; s < 4; ++s) {
      packed[s] = static_cast<uint8_t>(scale[s] | (scale[s + 4] >> 4) << 6);
      packed[s + 4] = static_cast<uint8_t>(min[s] | (min[s + 4] >> 4) << 6);
      packed[s + 8] = static_cast<uint8_t>((scale[s + 4] & 15) | (min[s + 4] & 15) << 4);
    }
    fill_bits(random, dst + 16, block_bytes - 16);
  }
}

// Eight-bit scales of either sign and quants -32 to 31, all as they come.
void q6_k(RandomBits& random, double sigma, uint8_t* dst, size_t blocks) {
  const Scales scales(sigma, offset_spread_of(256) * offset_spread_of(64));
  for (size_t b = 0; b < blocks; ++b, dst += 210) {
    fill_bits(random, dst, 208);
    store_f16(dst + 208, scales.either(random.next()));
  }
}

// Root mean square of the table of IQ4_NL and IQ4_XS: the squares of its values add up to 72768.
const double k_nonlinear_spread = std::sqrt(72768.0 / 16);

void iq4_xs(RandomBits& random, double sigma, uint8_t* dst, size_t blocks) {
  const Scales scales(sigma, offset_spread_of(64) * k_nonlinear_spread);
  for (size_t b = 0; b < blocks; ++b, dst += 136) {
    store_f16(dst, scales.either(random.next()));
    fill_bits(random, dst + 2, 134);
  }
}

// ---- Types without blocks: normal values.

constexpr size_t k_quantiles = 4096;

// The middle of each of k_quantiles equal shares of the standard normal distribution, scaled so
// that the deviation is 1.
const std::array<float, k_quantiles>& quantiles() {
  static const std::array<float, k_quantiles> table = [] {
    std::array<double, k_quantiles> exact{};
    double squares = 0;
    for (size_t i = 0; i < k_quantiles; ++i) {
      const double p = (static_cast<double>(i) + 0.5) / k_quantiles;
      double low = -8;
      double high = 8;
      for (int step = 0; step < 60; ++step) {
        const double middle = (low + high) / 2;
        (std::erfc(-middle / std::sqrt(2.0)) / 2 < p ? low : high) = middle;
      }
      exact[i] = (low + high) / 2;
      squares += exact[i] * exact[i];
    }
    const double scale = 1 / std::sqrt(squares / k_quantiles);
    std::array<float, k_quantiles> out{};
    for (size_t i = 0; i < k_quantiles; ++i) out[i] = static_cast<float>(exact[i] * scale);
    return out;
  }();
  return table;
}

// Four values from one random word, through `convert` of a table made for this sigma.
template <class Value, class Convert>
void normal_values(RandomBits& random, double sigma, Convert convert, uint8_t* dst, size_t elems) {
  std::array<Value, k_quantiles> table;
  for (size_t i = 0; i < k_quantiles; ++i) {
    table[i] = convert(quantiles()[i] * static_cast<float>(sigma));
  }
  for (size_t i = 0; i < elems; i += 4) {
    const uint64_t bits = random.next();
    Value values[4];
    for (size_t j = 0; j < 4; ++j) values[j] = table[bits >> (16 * j + 4) & (k_quantiles - 1)];
    std::memcpy(dst + i * sizeof(Value), values, std::min<size_t>(4, elems - i) * sizeof(Value));
  }
}

}  // namespace

void random_values(ElementType type, uint64_t seed, double sigma, void* dst, size_t elems) {
  if (elems == 0) return;
  auto* out = static_cast<uint8_t*>(dst);
  RandomBits random(seed);
  const TypeInfo& t = info(type);
  const size_t blocks = row_bytes(type, elems) / t.block_bytes;
  switch (type) {
    case ElementType::f32:
      return normal_values<float>(
          random, sigma, [](float v) { return v; }, out, elems);
    case ElementType::f16:
      return normal_values<uint16_t>(random, sigma, f32_to_f16, out, elems);
    case ElementType::bf16:
      return normal_values<uint16_t>(random, sigma, f32_to_bf16, out, elems);
    case ElementType::q4_0:
      return symmetric(random, {sigma, offset_spread_of(16)}, out, blocks, t.block_bytes);
    case ElementType::q5_0:
      return symmetric(random, {sigma, offset_spread_of(32)}, out, blocks, t.block_bytes);
    case ElementType::q4_1:
      return with_minimum(random, {sigma, offset_spread_of(16)}, 7, out, blocks, t.block_bytes);
    case ElementType::q5_1:
      return with_minimum(random, {sigma, offset_spread_of(32)}, 15, out, blocks, t.block_bytes);
    case ElementType::q8_0:
      return q8_0(random, {sigma, spread_of(255)}, out, blocks);
    case ElementType::iq4_nl:
      return symmetric(random, {sigma, k_nonlinear_spread}, out, blocks, t.block_bytes);
    case ElementType::iq4_xs:
      return iq4_xs(random, sigma, out, blocks);
    case ElementType::mxfp4:
      return mxfp4(random, sigma, out, blocks);
    case ElementType::q2_k:
      return q2_k(random, sigma, out, blocks);
    case ElementType::q3_k:
      return q3_k(random, sigma, out, blocks);
    case ElementType::q4_k:
      return q45_k(random, sigma, 7.5, spread_of(16), out, blocks, t.block_bytes);
    case ElementType::q5_k:
      return q45_k(random, sigma, 15.5, spread_of(32), out, blocks, t.block_bytes);
    case ElementType::q6_k:
      return q6_k(random, sigma, out, blocks);
  }
  fail(ErrorCode::internal, "element type {} has no random values", t.name);
}

}  // namespace strata
