// Parameters of every op (see ops.def), in device-independent form.
//
// Purpose: plain data that lowering writes and devices read. Shapes are [rows, width], width
// contiguous; rows is the number of tokens in the micro-batch (or of asked-for rows). All
// activations are F32 unless said otherwise.
// Threads: plain values.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <variant>
#include <vector>

namespace strata::device {

using ValueId = uint32_t;
using WeightId = uint32_t;
inline constexpr uint32_t k_none = UINT32_MAX;

// out[t] = row tokens[t] of the embedding table, as F32. The weight [width, n] holds the table's
// rows from first_row on; a token whose row it does not hold gives zeros.
struct Embed {
  WeightId weight = k_none;
  ValueId out = k_none;
  uint32_t first_row = 0;
};

// Every `group` consecutive elements of a row are normalised on their own (group = width for a
// plain norm, the head size for QK-norm); weight [group], F32. `in` and `out` may be the same.
struct RmsNorm {
  ValueId in = k_none;
  WeightId weight = k_none;
  ValueId out = k_none;
  uint32_t group = 0;
  float eps = 0;
};

// out[t, r] = sum_i weight[i, r] * in[t, i] + bias[r]; weight [n_in, n_out], bias [n_out] F32 or
// none. The order of the sum depends on n_in, the type and the instruction set only: one row and
// many rows agree bit for bit.
struct Linear {
  ValueId in = k_none;
  WeightId weight = k_none;
  WeightId bias = k_none;
  ValueId out = k_none;
};

// out[t] = (cos, sin) pairs, width n_rot: angle = position * inverse_frequency[i] / factors[i],
// both multiplied by `magnitude`. Computed in double, rounded once.
struct RopeTable {
  ValueId out = k_none;
  std::shared_ptr<const std::vector<double>> inverse_frequencies;  // n_rot / 2
  WeightId factors = k_none;                                       // [n_rot / 2] F32, or none
  double magnitude = 1;
};

enum class RopeStyle : uint8_t {
  norm,  // pairs (x[2i], x[2i+1])
  neox,  // pairs (x[i], x[i + n_rot/2])
};

// Rotates x in place: n_heads heads of head_dim; elements from n_rot on are left alone.
struct Rope {
  ValueId x = k_none;
  ValueId table = k_none;
  uint32_t n_heads = 0;
  uint32_t head_dim = 0;
  uint32_t n_rot = 0;
  RopeStyle style = RopeStyle::norm;
};

// Stores row t of k [n_kv_heads * head_dim_k] and v [n_kv_heads * head_dim_v] at the token's
// position in its sequence, in the cache's element types. `layer` indexes the program's kv layers.
struct StoreKv {
  ValueId k = k_none;
  ValueId v = k_none;
  uint32_t layer = 0;
};

// out[t] for each of n_heads query heads; head h reads kv head (h + first_head) / group. Every kv
// head of the layer is read; group = 0 stands for n_heads / n_kv_heads.
// scores = scale * q.k, capped c * tanh(s / c) when softcap > 0; keys at positions
// (p - window, p] when window > 0, else [0, p]. Softmax is computed by streaming over the cache in
// ranges of fixed absolute positions merged in ascending order, so that the result does not depend
// on the micro-batch. sinks: [n_heads] F32 logits that join the denominator only, or none.
struct Attention {
  ValueId q = k_none;
  ValueId out = k_none;
  WeightId sinks = k_none;
  uint32_t layer = 0;
  uint32_t n_heads = 0;
  uint32_t group = 0;       // query heads that share a kv head
  uint32_t first_head = 0;  // place of head 0 among those of kv head 0
  float scale = 0;
  float softcap = 0;
  uint32_t window = 0;
};

inline uint32_t group_of(const Attention& op, uint32_t n_kv_heads) {
  return op.group > 0 ? op.group : op.n_heads / n_kv_heads;
}

enum class Activation : uint8_t { silu, gelu_tanh };

// out = activation(gate) * up, elementwise; `out` may be `gate` or `up`.
struct Gate {
  ValueId gate = k_none;
  ValueId up = k_none;
  ValueId out = k_none;
  Activation activation = Activation::silu;
};

enum class Gating : uint8_t {
  softmax,           // over all experts
  sigmoid,           // each for itself
  softmax_selected,  // softmax over the chosen logits
};

// From logits [n_experts] per token: ids [n_used] (int32, descending score, the lower id first on
// ties) and weights [n_used]. Selection scores are the gate values plus selection_bias
// ([n_experts] F32, or none); weights are the unbiased gate values of the chosen, divided by
// max(sum, 2^-14) when `renormalise`, times `scale`.
struct Route {
  ValueId logits = k_none;
  ValueId ids = k_none;
  ValueId weights = k_none;
  WeightId selection_bias = k_none;
  uint32_t n_experts = 0;
  uint32_t n_used = 0;
  Gating gating = Gating::softmax;
  bool renormalise = false;
  float scale = 1;
};

// out[t] = sum over the chosen experts e, in ascending id, of
//   weight_e * (down_e . (activation(gate_e . in[t]) * (up_e . in[t])));
// gate, up [n_embd, n_ff, n], down [n_ff, n_embd, n] hold the n experts from first_expert on;
// chosen experts beyond them add nothing. `hidden` is scratch of width n_used * n_ff.
struct Experts {
  ValueId in = k_none;
  ValueId ids = k_none;
  ValueId weights = k_none;
  ValueId hidden = k_none;
  ValueId out = k_none;
  WeightId gate = k_none;
  WeightId up = k_none;
  WeightId down = k_none;
  uint32_t n_experts = 0;  // that ids may name
  uint32_t n_used = 0;
  uint32_t n_ff = 0;
  uint32_t first_expert = 0;
  Activation activation = Activation::silu;
};

// out = a + b, elementwise; `out` may be `a` or `b`.
struct Add {
  ValueId a = k_none;
  ValueId b = k_none;
  ValueId out = k_none;
};

// out = residual + (partial of member 0 + partial of member 1 + ...), elementwise, the same on
// every member of the group that runs the program together (device/host_group.h). A member without
// `partial` adds nothing; without `residual` the sum alone. `out` may be `residual`, never
// `partial`. Run by one device alone it is an addition.
struct AllReduce {
  ValueId partial = k_none;
  ValueId residual = k_none;
  ValueId out = k_none;
};

// out[i] = in[output_rows[i]]: the rows whose logits are asked for.
struct Gather {
  ValueId in = k_none;
  ValueId out = k_none;
};

// clang-format off
using Op = std::variant<
#define STRATA_OP(name, Type, text) Type,
#include "device/ops.def"
#undef STRATA_OP
    std::monostate>;
// clang-format on

// "linear"; the op's name in the table.
std::string_view name_of(const Op& op);

// Values an op reads and writes (in-place operands appear in both).
struct OpOperands {
  std::vector<ValueId> reads;
  std::vector<ValueId> writes;
  std::vector<WeightId> weights;
};
OpOperands operands_of(const Op& op);

}  // namespace strata::device
