// ModelSpec: what a model is made of, as data.
//
// Purpose: a family (families/*.cpp) reads a file's metadata and tensor table into this
// description, built from a small vocabulary of blocks; lowering, planning and sharding follow
// from it and know no family by name.
// Not for: data. No byte of a weight is read to make one.
// Errors: ErrorCode::bad_file naming a missing or misshapen tensor or key, with what was expected
// and what was found; ErrorCode::unsupported for unknown families (listing the known) and types.
// Ownership: a ModelSpec is self-contained. Threads: constant once built.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "device/program.h"
#include "gguf/file.h"

namespace strata::model {

using device::k_none;
using device::WeightId;

// How a weight may be cut over the devices of a tensor-parallel group.
enum class Role : uint8_t {
  replicated,
  column_parallel,      // output rows: q, k, v, gate, up
  row_parallel,         // input columns: attention output, down
  per_head,             // one entry per head
  expert_column,        // per expert, then output rows
  expert_row,           // per expert, then input columns
  vocabulary_parallel,  // rows are tokens: embedding, head
};

// A weight of the model and the rows of a file's tensor that it is.
struct Weight {
  device::WeightSpec spec;  // name as in the file, or "blk.0.attn_qkv.weight[q]" for a part
  Role role = Role::replicated;
  std::string tensor;      // name in the file
  uint64_t row_begin = 0;  // first row of the tensor; spec.rows() rows are taken
};

enum class RopeScaling : uint8_t { none, linear, yarn };

struct RopeSpec {
  device::RopeStyle style = device::RopeStyle::norm;
  uint32_t n_rot = 0;
  double base = 10000;
  RopeScaling scaling = RopeScaling::none;
  double factor = 1;
  uint64_t original_context = 0;
  double attn_factor = 1;
  double beta_fast = 32;
  double beta_slow = 1;
  double ext_factor = 1;
  WeightId factors = k_none;  // divisors of the angles, [n_rot / 2]
};

// Angle per position of each pair, n_rot / 2 values, without `factors`; and the factor on cos and
// sin. Formulas: RoPE (Su et al. 2021), position interpolation (Chen et al. 2023), YaRN (Peng et
// al. 2023) with the extrapolation ramp rounded to whole dimensions.
std::vector<double> inverse_frequencies(const RopeSpec& rope);
double rope_magnitude(const RopeSpec& rope);

struct AttentionSpec {
  uint32_t n_heads = 0;
  uint32_t n_kv_heads = 0;
  uint32_t head_dim_k = 0;
  uint32_t head_dim_v = 0;
  float scale = 0;
  float softcap = 0;
  uint32_t window = 0;
  uint32_t rope = 0;  // index into ModelSpec::ropes
  WeightId q = k_none, k = k_none, v = k_none, output = k_none;
  WeightId q_bias = k_none, k_bias = k_none, v_bias = k_none, output_bias = k_none;
  WeightId q_norm = k_none, k_norm = k_none;  // [head_dim_k], per head, before rope
};

struct DenseFfn {
  device::Activation activation = device::Activation::silu;
  uint32_t n_ff = 0;
  WeightId gate = k_none, up = k_none, down = k_none;
  WeightId gate_bias = k_none, up_bias = k_none, down_bias = k_none;
};

struct ExpertFfn {
  device::Activation activation = device::Activation::silu;
  device::Gating gating = device::Gating::softmax;
  uint32_t n_experts = 0;
  uint32_t n_used = 0;
  uint32_t n_ff = 0;
  bool renormalise = false;
  float scale = 1;
  WeightId router = k_none, selection_bias = k_none;
  WeightId gate = k_none, up = k_none, down = k_none;  // stacked over experts
};

struct BlockSpec {
  WeightId attention_norm = k_none;
  AttentionSpec attention;
  WeightId ffn_norm = k_none;
  std::optional<DenseFfn> dense;     // exactly one of
  std::optional<ExpertFfn> experts;  // the two
};

struct ModelSpec {
  std::string family;  // "llama"
  std::string name;    // general.name, or empty
  uint32_t n_embd = 0;
  uint32_t n_vocab = 0;
  uint64_t n_context = 0;  // trained
  float norm_eps = 0;
  std::vector<RopeSpec> ropes;
  std::vector<BlockSpec> blocks;
  WeightId embedding = k_none;
  WeightId output_norm = k_none;
  WeightId head = k_none;  // the embedding itself when tied
  WeightId head_bias = k_none;
  bool tied_head = false;
  std::vector<Weight> weights;              // by WeightId
  std::vector<std::string> unused_tensors;  // in the file, but not of this family

  uint64_t parameters() const;
};

// Reads the description of a file. Uses its metadata and tensor table only.
ModelSpec read_spec(const gguf::File& file);

// Names of the families that can be read.
std::vector<std::string> known_families();

}  // namespace strata::model
