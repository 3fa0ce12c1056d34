// Kernels over rows of F32: every element (and its tail) by the same lane-wise function.
#pragma once

#include "device/cpu/simd/linear.h"
#include "device/cpu/simd/math.h"

namespace strata::device::cpu {
namespace {

// out[i] = function(inputs[i]...) for n elements.
template <class Function, class... Inputs>
inline void map(Function function, float* out, size_t n, const Inputs*... in) {
  size_t i = 0;
  for (; i + k_lanes <= n; i += k_lanes) store(out + i, function(load(in + i)...));
  if (i < n) store_part(out + i, function(load_part(in + i, n - i)...), n - i);
}

void rms_norm(const float* in, const float* weight, float* out, size_t n, float eps) {
  Squares squares;
  size_t i = 0;
  for (; i + k_lanes <= n; i += k_lanes) add_squares(squares, load(in + i));
  if (i < n) add_squares(squares, load_part(in + i, n - i));
  const double mean = total(squares) / static_cast<double>(n);
  const V factor = set1(static_cast<float>(1.0 / __builtin_sqrt(mean + static_cast<double>(eps))));
  map([=](V x, V w) { return mul(mul(x, factor), w); }, out, n, in, weight);
}

void rope_norm(float* head, const float* table, size_t n_rot) {
  for (size_t i = 0; i < n_rot; i += 2) {
    const float a = head[i];
    const float b = head[i + 1];
    head[i] = a * table[i] - b * table[i + 1];
    head[i + 1] = a * table[i + 1] + b * table[i];
  }
}

void rope_neox(float* head, const float* table, size_t n_rot) {
  float* __restrict first = head;
  float* __restrict second = head + n_rot / 2;
  for (size_t i = 0; i < n_rot / 2; ++i) {
    const float a = first[i];
    const float b = second[i];
    first[i] = a * table[2 * i] - b * table[2 * i + 1];
    second[i] = a * table[2 * i + 1] + b * table[2 * i];
  }
}

void gate_silu(const float* gate, const float* up, float* out, size_t n) {
  map([](V g, V u) { return mul(silu(g), u); }, out, n, gate, up);
}

void gate_gelu_tanh(const float* gate, const float* up, float* out, size_t n) {
  map([](V g, V u) { return mul(gelu_tanh(g), u); }, out, n, gate, up);
}

void add_rows(const float* a, const float* b, float* out, size_t n) {
  map([](V x, V y) { return add(x, y); }, out, n, a, b);
}

float exp_sum(const float* in, float shift, float* out, size_t n) {
  const V by = set1(shift);
  V total_of = zero();
  size_t i = 0;
  for (; i + k_lanes <= n; i += k_lanes) {
    const V e = exp(sub(load(in + i), by));
    store(out + i, e);
    total_of = add(total_of, e);
  }
  if (i < n) {
    store_part(out + i, exp(sub(load_part(in + i, n - i), by)), n - i);
    total_of = add(total_of, load_part(out + i, n - i));  // zeros beyond
  }
  return sum(total_of);
}

void sigmoid_row(const float* in, float* out, size_t n) {
  map([](V x) { return sigmoid(x); }, out, n, in);
}

float max_of(const float* in, size_t n) {
  float top = -__builtin_inff();
  size_t i = 0;
  if (n >= k_lanes) {
    V best = load(in);
    for (i = k_lanes; i + k_lanes <= n; i += k_lanes) best = max(load(in + i), best);
    top = max_lane(best);
  }
  for (; i < n; ++i) top = in[i] > top ? in[i] : top;
  return top;
}

void soft_cap(float* x, float cap, size_t n) {
  const V by = set1(cap);
  map([=](V v) { return mul(by, tanh(div(v, by))); }, x, n, x);
}

void scale_row(float* x, float factor, size_t n) {
  const V by = set1(factor);
  map([=](V v) { return mul(v, by); }, x, n, x);
}

void blend(float* a, float fa, const float* b, float fb, size_t n) {
  const V va = set1(fa);
  const V vb = set1(fb);
  map([=](V x, V y) { return fma(y, vb, mul(x, va)); }, a, n, a, b);
}

}  // namespace
}  // namespace strata::device::cpu
