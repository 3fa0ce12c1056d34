// Cases of the ops that read weight matrices: linear, experts, embed.
//
// Tolerances, with u = 2^-24 (half a unit in the last place of F32): a dot product of n terms,
// summed by any of the kernels, meets at most `depth` roundings on the way of each term, so its
// error is at most depth * u * sum |w_i x_i| to first order (Higham, Accuracy and Stability, 3.1).
// Within a chunk of k_chunk columns an accumulator takes at least 4 lanes, with a product and an
// addition each.
#include <algorithm>
#include <cmath>

#include "device/cpu/kernels.h"
#include "device/op_case.h"
#include "tensor/types.h"

namespace strata::test {

using namespace device;

namespace {

constexpr double k_u = 0x1p-24;

double depth(uint64_t n) {
  return 2.0 * static_cast<double>(std::min<uint64_t>(n, cpu::k_chunk)) / 4 +
         static_cast<double>(n / cpu::k_chunk) + 8;
}

// What quantising the activations may add to a product with a row of a packed weight: a block of 32
// is kept in steps of d = max |x| / 127, so each activation is off by at most d / 2. Levels and
// offsets (at most twice the row's largest weight) are multiplied and scaled apart, with `depth`
// roundings each.
double packed_error(ElementType type, const float* w, const float* x, uint64_t n) {
  if (info(type).block_elems == 1) return 0;
  double largest = 0;
  for (uint64_t i = 0; i < n; ++i) {
    largest = std::max(largest, std::fabs(static_cast<double>(w[i])));
  }
  double error = 0;
  for (uint64_t begin = 0; begin < n; begin += 32) {
    double top = 0, weights = 0, xs = 0;
    for (uint64_t i = begin; i < begin + 32; ++i) {
      top = std::max(top, std::fabs(static_cast<double>(x[i])));
      weights += std::fabs(static_cast<double>(w[i]));
      xs += std::fabs(static_cast<double>(x[i]));
    }
    error += 1.0001 * top / 254 * weights + depth(n) * k_u * 2 * largest * (xs + top);
  }
  return error;
}

// Element counts that a type's rows may have: one block, odd numbers of blocks, more than a chunk.
std::vector<uint32_t> row_lengths(ElementType type) {
  const uint32_t block = info(type).block_elems;
  if (block == 1) return {1, 7, 16, 33, 100, 511, 513, 1030};
  if (block == 32) return {32, 96, 512, 544, 1056};
  return {256, 512, 768, 1280};
}

OpCase linear_case(Random& random, ElementType type, uint32_t n_in, uint32_t n_out,
                   uint32_t n_tokens, bool bias, Rows rows = Rows::tokens, float size = 1) {
  std::string name = std::string(info(type).name) + " " + std::to_string(n_in) + "x" +
                     std::to_string(n_out) + " tokens " + std::to_string(n_tokens);
  CaseBuilder builder(name, n_tokens);
  if (rows == Rows::outputs) {
    builder.batch().output_rows = random.permutation(n_tokens);
    builder.batch().output_rows.resize((n_tokens + 1) / 2);
  }
  const uint32_t n_rows =
      rows == Rows::tokens ? n_tokens : static_cast<uint32_t>(builder.batch().output_rows.size());
  const auto x = random.normals(uint64_t{n_rows} * n_in, size);
  auto bytes = random_weight(random, type, uint64_t{n_in} * n_out);
  const auto w = dequantized(type, bytes, uint64_t{n_in} * n_out);
  const auto b = random.normals(n_out);
  Linear op;
  op.in = builder.input(n_in, x, rows);
  op.out = builder.output(n_out, rows);
  op.weight = builder.weight(type, {n_in, n_out, 1}, std::move(bytes));
  if (bias) op.bias = builder.weight_f32(b);
  std::vector<double> tolerance;
  for (uint32_t t = 0; t < n_rows; ++t) {
    for (uint32_t r = 0; r < n_out; ++r) {
      double sum = bias ? std::fabs(static_cast<double>(b[r])) : 0;
      for (uint32_t i = 0; i < n_in; ++i) {
        sum += std::fabs(static_cast<double>(w[uint64_t{r} * n_in + i]) *
                         static_cast<double>(x[uint64_t{t} * n_in + i]));
      }
      tolerance.push_back(
          depth(n_in) * k_u * sum +
          packed_error(type, w.data() + uint64_t{r} * n_in, x.data() + uint64_t{t} * n_in, n_in));
    }
  }
  builder.expect(op.out, std::move(tolerance));
  return builder.build(op);
}

OpCase experts_case(Random& random, ElementType gate_type, ElementType down_type, uint32_t n_embd,
                    uint32_t n_ff, uint32_t n_experts, uint32_t n_used, uint32_t n_tokens,
                    Activation activation, uint32_t first = 0, uint32_t held = 0) {
  if (held == 0) held = n_experts;
  std::string name = std::string(info(gate_type).name) + "/" + std::string(info(down_type).name) +
                     " " + std::to_string(n_experts) + " experts, tokens " +
                     std::to_string(n_tokens);
  CaseBuilder builder(name, n_tokens);
  const float size = 1.0f / std::sqrt(static_cast<float>(n_embd));
  const auto x = random.normals(uint64_t{n_tokens} * n_embd, size);
  std::vector<int32_t> ids;
  for (uint32_t t = 0; t < n_tokens; ++t) {
    const auto order = random.permutation(n_experts);
    ids.insert(ids.end(), order.begin(), order.begin() + n_used);
  }
  std::vector<float> weights;
  for (size_t i = 0; i < ids.size(); ++i) weights.push_back(static_cast<float>(random.unit()));

  Experts op;
  op.n_experts = n_experts;
  op.n_used = n_used;
  op.n_ff = n_ff;
  op.activation = activation;
  op.in = builder.input(n_embd, x);
  op.ids = builder.input_ids(n_used, ids);
  op.weights = builder.input(n_used, weights);
  op.hidden = builder.output(n_used * n_ff);
  op.out = builder.output(n_embd);
  op.first_expert = first;
  const uint64_t elems = uint64_t{n_embd} * n_ff * held;
  auto gate_bytes = random_weight(random, gate_type, elems);
  auto up_bytes = random_weight(random, gate_type, elems);
  auto down_bytes = random_weight(random, down_type, elems);
  const auto gate = dequantized(gate_type, gate_bytes, elems);
  const auto up = dequantized(gate_type, up_bytes, elems);
  const auto down = dequantized(down_type, down_bytes, elems);
  op.gate = builder.weight(gate_type, {n_embd, n_ff, held}, std::move(gate_bytes));
  op.up = builder.weight(gate_type, {n_embd, n_ff, held}, std::move(up_bytes));
  op.down = builder.weight(down_type, {n_ff, n_embd, held}, std::move(down_bytes));

  // |activation(g)| <= |g| and its slope is at most 1.13 (GELU; 1.1 SiLU), so the hidden value's
  // error is at most |u| * 1.13 * error(g) + |g| * error(u) + a few roundings of |g u|.
  std::vector<double> tolerance;
  for (uint32_t t = 0; t < n_tokens; ++t) {
    std::vector<double> sizes(n_embd), errors(n_embd);
    for (uint32_t s = 0; s < n_used; ++s) {
      const auto id = static_cast<uint64_t>(ids[uint64_t{t} * n_used + s]);
      if (id < first || id >= first + held) continue;  // another device's
      const uint64_t e = id - first;
      const double weight = static_cast<double>(weights[uint64_t{t} * n_used + s]);
      std::vector<double> hidden(n_ff), hidden_error(n_ff);
      for (uint32_t r = 0; r < n_ff; ++r) {
        double g = 0, u = 0;  // sums of magnitudes bound the values too
        for (uint32_t i = 0; i < n_embd; ++i) {
          const uint64_t at = (e * n_ff + r) * n_embd + i;
          const double xi = static_cast<double>(x[uint64_t{t} * n_embd + i]);
          g += std::fabs(static_cast<double>(gate[at]) * xi);
          u += std::fabs(static_cast<double>(up[at]) * xi);
        }
        const uint64_t row = (e * n_ff + r) * n_embd;
        const float* xt = x.data() + uint64_t{t} * n_embd;
        const double gate_error = packed_error(gate_type, gate.data() + row, xt, n_embd);
        const double up_error = packed_error(gate_type, up.data() + row, xt, n_embd);
        hidden[r] = g * u;
        hidden_error[r] = (2.13 * depth(n_embd) + 24) * k_u * g * u +
                          1.13 * gate_error * (u + up_error) + (g + gate_error) * up_error;
      }
      // Hidden values are quantised before a packed down-projection.
      std::vector<float> bound(n_ff);
      for (uint32_t i = 0; i < n_ff; ++i)
        bound[i] = static_cast<float>(hidden[i] + hidden_error[i]);
      for (uint32_t r = 0; r < n_embd; ++r) {
        for (uint32_t i = 0; i < n_ff; ++i) {
          const double w = std::fabs(static_cast<double>(down[(e * n_embd + r) * n_ff + i]));
          sizes[r] += weight * w * hidden[i];
          errors[r] += weight * w * hidden_error[i];
        }
        errors[r] += weight * packed_error(down_type, down.data() + (e * n_embd + r) * n_ff,
                                           bound.data(), n_ff);
      }
    }
    for (uint32_t r = 0; r < n_embd; ++r) {
      tolerance.push_back(errors[r] + (depth(n_ff) + 2.0 * n_used) * k_u * sizes[r]);
    }
  }
  builder.expect(op.out, std::move(tolerance));
  return builder.build(op);
}

}  // namespace

std::vector<OpCase> cases_linear() {
  Random random(1);
  std::vector<OpCase> out;
  for (const ElementType type : supported_types()) {
    const auto lengths = row_lengths(type);
    for (size_t i = 0; i < lengths.size(); ++i) {
      constexpr uint32_t rows[] = {1, 3, 65, 17, 8};
      constexpr uint32_t tokens[] = {1, 4, 17, 2, 7, 3, 5};
      out.push_back(
          linear_case(random, type, lengths[i], rows[i % 5], tokens[(i + 1) % 7], i % 2 == 0));
    }
    out.push_back(linear_case(random, type, lengths.back(), 21, 1, false));
    out.push_back(linear_case(random, type, lengths[1], 5, 0, true));
  }
  // More rows than a row block, more tokens than a tile; few rows and many tokens; huge values.
  out.push_back(linear_case(random, ElementType::q8_0, 64, 300, 2, false));
  out.push_back(linear_case(random, ElementType::f16, 40, 20, 300, true));
  out.push_back(linear_case(random, ElementType::f32, 48, 1, 37, true));
  out.push_back(linear_case(random, ElementType::q4_k, 512, 33, 9, true, Rows::tokens, 1e6f));
  out.push_back(linear_case(random, ElementType::f32, 64, 50, 11, false, Rows::outputs));
  return out;
}

std::vector<OpCase> cases_experts() {
  Random random(2);
  std::vector<OpCase> out;
  using enum ElementType;
  out.push_back(experts_case(random, f32, f32, 24, 9, 4, 2, 5, Activation::silu));
  out.push_back(experts_case(random, f32, f32, 24, 9, 4, 2, 0, Activation::silu));
  out.push_back(experts_case(random, f16, bf16, 33, 40, 6, 3, 7, Activation::gelu_tanh));
  out.push_back(experts_case(random, q8_0, q4_0, 64, 32, 16, 4, 17, Activation::silu));
  out.push_back(experts_case(random, q4_k, q6_k, 256, 256, 3, 1, 3, Activation::silu));
  out.push_back(experts_case(random, mxfp4, mxfp4, 32, 96, 8, 8, 2, Activation::silu));
  out.push_back(experts_case(random, iq4_xs, iq4_nl, 256, 32, 5, 2, 1, Activation::silu));
  // A part of the experts: from the first, from the middle, the last.
  out.push_back(experts_case(random, f32, f32, 24, 9, 5, 2, 6, Activation::silu, 0, 2));
  out.push_back(experts_case(random, q4_k, q6_k, 256, 256, 6, 3, 9, Activation::silu, 2, 3));
  out.push_back(experts_case(random, q8_0, q8_0, 64, 32, 4, 1, 11, Activation::gelu_tanh, 3, 1));
  // One expert takes more tokens than a tile.
  out.push_back(experts_case(random, q8_0, q8_0, 32, 32, 2, 1, 600, Activation::silu));
  // Enough tokens of each to multiply their rows where they are, in groups with some left over.
  out.push_back(experts_case(random, q4_k, q6_k, 768, 256, 3, 2, 89, Activation::silu));
  out.push_back(experts_case(random, q5_1, iq4_nl, 96, 160, 2, 1, 117, Activation::gelu_tanh));
  return out;
}

std::vector<OpCase> cases_embed() {
  Random random(3);
  std::vector<OpCase> out;
  for (const ElementType type : supported_types()) {
    for (const uint32_t width : row_lengths(type)) {
      constexpr uint32_t n_vocab = 11;
      const uint32_t first_row = out.size() % 3 == 0 ? 0 : random.below(5);
      const uint32_t n_rows = out.size() % 3 == 0 ? n_vocab : 6;
      const uint32_t n_tokens = random.below(6);
      CaseBuilder builder(std::string(info(type).name) + " width " + std::to_string(width),
                          n_tokens);
      for (int32_t& token : builder.batch().tokens) {
        token = static_cast<int32_t>(random.below(n_vocab));
      }
      Embed op;
      op.first_row = first_row;
      op.weight = builder.weight(type, {width, n_rows, 1},
                                 random_weight(random, type, uint64_t{width} * n_rows));
      op.out = builder.output(width);
      // Every value is the format's real value rounded once: equal (but for the sign of zero).
      builder.expect(op.out, std::vector<double>(uint64_t{n_tokens} * width, 0.0));
      out.push_back(builder.build(op));
    }
  }
  return out;
}

}  // namespace strata::test
