// Cases of the ops that work row by row: rms_norm, gate, add, all_reduce, gather, route.
//
// Tolerances count the roundings of each formula, in u = 2^-24 of the result's magnitude.
#include <algorithm>
#include <cmath>
#include <limits>

#include "device/op_case.h"

namespace strata::test {

using namespace device;

namespace {

constexpr double k_u = 0x1p-24;
// Where a result is subnormal, a rounding is an absolute error of half of the smallest number.
constexpr double k_tiny = 0x1p-148;

double size_of(float x) { return std::fabs(static_cast<double>(x)); }

OpCase norm_case(Random& random, uint32_t group, uint32_t groups, uint32_t n_tokens, float size,
                 bool in_place) {
  CaseBuilder builder("group " + std::to_string(group) + " x " + std::to_string(groups) +
                          " tokens " + std::to_string(n_tokens),
                      n_tokens);
  const auto x = random.normals(uint64_t{n_tokens} * group * groups, size);
  const auto w = random.normals(group);
  RmsNorm op;
  op.group = group;
  op.eps = 1e-5f;
  op.in = builder.input(group * groups, x);
  op.out = in_place ? op.in : builder.output(group * groups);
  op.weight = builder.weight_f32(w);
  // The sum is in double; the factor is rounded once, then two products.
  std::vector<double> tolerance;
  for (uint64_t begin = 0; begin < x.size(); begin += group) {
    double sum = 0;
    for (uint32_t i = 0; i < group; ++i) sum += size_of(x[begin + i]) * size_of(x[begin + i]);
    const double factor = 1 / std::sqrt(sum / group + 1e-5);
    for (uint32_t i = 0; i < group; ++i) {
      tolerance.push_back(4 * k_u * size_of(x[begin + i]) * factor * size_of(w[i]) + k_tiny);
    }
  }
  builder.expect(op.out, std::move(tolerance));
  return builder.build(op);
}

OpCase gate_case(Random& random, Activation activation, uint32_t width, uint32_t n_tokens,
                 float size, int in_place) {
  CaseBuilder builder("width " + std::to_string(width) + " tokens " + std::to_string(n_tokens),
                      n_tokens);
  const auto gate = random.normals(uint64_t{n_tokens} * width, size);
  const auto up = random.normals(uint64_t{n_tokens} * width);
  Gate op;
  op.activation = activation;
  op.gate = builder.input(width, gate);
  op.up = builder.input(width, up);
  op.out = in_place == 0 ? builder.output(width) : in_place == 1 ? op.gate : op.up;
  // x / (1 + e^y): exp is good to 2 u and carries the error of y (exact for SiLU, 4 roundings for
  // GELU) times |y|; then three more roundings.
  std::vector<double> tolerance;
  for (size_t i = 0; i < gate.size(); ++i) {
    const double x = static_cast<double>(gate[i]);
    double y = 0, value = x / (1 + std::exp(-x));
    if (activation == Activation::gelu_tanh) {
      y = 2 * 0.7978845608 * (x + 0.044715 * x * x * x);
      value = x / (1 + std::exp(-y));
    }
    const double relative = (8 + 4 * std::min(std::fabs(y), 110.0)) * k_u;
    tolerance.push_back(relative * std::fabs(value) * size_of(up[i]) +
                        k_tiny * (1 + std::fabs(x)) * (1 + size_of(up[i])));
  }
  builder.expect(op.out, std::move(tolerance));
  return builder.build(op);
}

OpCase route_case(Random& random, Gating gating, bool bias, bool renormalise, uint32_t n_experts,
                  uint32_t n_used, uint32_t n_tokens, bool ties) {
  CaseBuilder builder("gating " + std::to_string(static_cast<int>(gating)) + ", " +
                          std::to_string(n_experts) + " experts, " + std::to_string(n_used) +
                          " used, tokens " + std::to_string(n_tokens) + (ties ? ", ties" : ""),
                      n_tokens);
  // Logits on a grid, far enough apart for no rounding to change their order; distinct unless ties
  // are wanted.
  std::vector<float> logits;
  for (uint32_t t = 0; t < n_tokens; ++t) {
    for (const uint32_t place : random.permutation(n_experts)) {
      const uint32_t step = ties ? place / 3 : place;
      logits.push_back((static_cast<float>(step) - static_cast<float>(n_experts) / 2) * 0.0625f);
    }
  }
  Route op;
  op.gating = gating;
  op.renormalise = renormalise;
  op.n_experts = n_experts;
  op.n_used = n_used;
  op.scale = 1.5f;
  op.logits = builder.input(n_experts, logits);
  op.ids = builder.output(n_used);
  op.weights = builder.output(n_used);
  if (bias) {
    // Whole numbers: they reorder experts, and differences of gates within stay far apart.
    std::vector<float> b;
    for (uint32_t e = 0; e < n_experts; ++e) b.push_back(static_cast<float>(random.below(3)));
    op.selection_bias = builder.weight_f32(b);
  }
  builder.expect(op.ids);
  // Gates have a relative error of about (n_experts / 4 + 12) u: the terms of the sum, exp, the
  // quotients; weights are at most `scale`.
  builder.expect(op.weights, std::vector<double>(uint64_t{n_tokens} * n_used,
                                                 (n_experts / 4.0 + 24 + n_used) * k_u * 1.5));
  return builder.build(op);
}

}  // namespace

std::vector<OpCase> cases_rms_norm() {
  Random random(4);
  return {norm_case(random, 1, 1, 3, 1, false),        norm_case(random, 17, 3, 5, 1, false),
          norm_case(random, 64, 8, 2, 1, true),        norm_case(random, 128, 1, 0, 1, false),
          norm_case(random, 1000, 1, 17, 1e6f, false), norm_case(random, 4096, 1, 1, 1e-4f, true),
          norm_case(random, 65, 1, 4, 1e15f, false)};
}

std::vector<OpCase> cases_gate() {
  Random random(5);
  std::vector<OpCase> out;
  for (const Activation activation : {Activation::silu, Activation::gelu_tanh}) {
    out.push_back(gate_case(random, activation, 1, 1, 1, 0));
    out.push_back(gate_case(random, activation, 67, 3, 1, 1));
    out.push_back(gate_case(random, activation, 100, 17, 8, 2));
    out.push_back(gate_case(random, activation, 31, 5, 60, 0));
    out.push_back(gate_case(random, activation, 31, 5, 1e6f, 0));
    out.push_back(gate_case(random, activation, 16, 0, 1, 0));
  }
  return out;
}

std::vector<OpCase> cases_add() {
  Random random(6);
  std::vector<OpCase> out;
  for (const uint32_t width : {1u, 16u, 77u, 200u}) {
    for (const uint32_t n_tokens : {0u, 1u, 5u, 17u}) {
      CaseBuilder builder("width " + std::to_string(width) + " tokens " + std::to_string(n_tokens),
                          n_tokens);
      Add op;
      op.a = builder.input(width, random.normals(uint64_t{n_tokens} * width));
      op.b = builder.input(width, random.normals(uint64_t{n_tokens} * width));
      op.out = width == 77 ? op.a : width == 200 ? op.b : builder.output(width);
      builder.expect(op.out);  // one rounding, the same everywhere
      out.push_back(builder.build(op));
    }
  }
  return out;
}

std::vector<OpCase> cases_all_reduce() {
  Random random(8);
  std::vector<OpCase> out;
  for (const uint32_t width : {1u, 77u, 200u, 2100u}) {
    for (const uint32_t n_tokens : {0u, 1u, 5u}) {
      CaseBuilder builder("width " + std::to_string(width) + " tokens " + std::to_string(n_tokens),
                          n_tokens);
      AllReduce op;
      if (width != 77)
        op.partial = builder.input(width, random.normals(uint64_t{n_tokens} * width));
      if (width != 1)
        op.residual = builder.input(width, random.normals(uint64_t{n_tokens} * width));
      op.out = width == 200 ? op.residual : builder.output(width);
      builder.expect(op.out);  // one rounding at most, the same everywhere
      out.push_back(builder.build(op));
    }
  }
  return out;
}

std::vector<OpCase> cases_gather() {
  Random random(7);
  std::vector<OpCase> out;
  for (const uint32_t n_outputs : {0u, 1u, 4u, 9u}) {
    CaseBuilder builder("outputs " + std::to_string(n_outputs), 9);
    auto rows = random.permutation(9);
    rows.resize(n_outputs);
    std::sort(rows.begin(), rows.end());
    builder.batch().output_rows = rows;
    Gather op;
    op.in = builder.input(33, random.normals(9 * 33));
    op.out = builder.output(33, Rows::outputs);
    builder.expect(op.out);
    out.push_back(builder.build(op));
  }
  return out;
}

std::vector<OpCase> cases_route() {
  Random random(8);
  std::vector<OpCase> out;
  for (const Gating gating : {Gating::softmax, Gating::sigmoid, Gating::softmax_selected}) {
    for (const bool bias : {false, true}) {
      out.push_back(route_case(random, gating, bias, true, 16, 4, 5, false));
      out.push_back(route_case(random, gating, bias, false, 9, 2, 17, false));
      out.push_back(route_case(random, gating, bias, true, 33, 8, 3, true));
      out.push_back(route_case(random, gating, bias, false, 3, 3, 1, false));
    }
    out.push_back(route_case(random, gating, false, true, 128, 8, 4, false));
    out.push_back(route_case(random, gating, false, true, 1, 1, 2, false));
    out.push_back(route_case(random, gating, false, true, 8, 2, 0, false));
  }
  return out;
}

}  // namespace strata::test
