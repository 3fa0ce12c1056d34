// What every family uses to read a file: keys below the architecture's prefix, checked tensors.
//
// Purpose: a family's file reads like its table of tensors; presence, shapes, types and ranges
// are checked here, once.
// Errors: see spec.h. Threads: one builder belongs to one thread.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "model/spec.h"

namespace strata::model {

// Tensors in files of a split model that are not there: how they look, as far as one can know.
class AbsentTensors {
 public:
  virtual ~AbsentTensors() = default;
  // Whether an optional one exists.
  virtual bool has(const std::string& name) = 0;
  // One that a model of this family must have; the reference stays valid.
  virtual const gguf::TensorInfo& make(const std::string& name,
                                       const std::vector<uint64_t>& shape) = 0;
};

class SpecBuilder {
 public:
  explicit SpecBuilder(const gguf::File& file, AbsentTensors* absent = nullptr);

  const gguf::Metadata& metadata() const { return file_.metadata(); }
  // "{architecture}.{suffix}"
  std::string key(std::string_view suffix) const;

  // Integers that are sizes: 1 to `max` (or 0 to `max` for count_or_zero).
  uint32_t size(std::string_view suffix, uint64_t max = k_max_dimension) const;
  uint32_t size_or(std::string_view suffix, uint32_t fallback,
                   uint64_t max = k_max_dimension) const;
  std::vector<uint32_t> size_per_layer(std::string_view suffix, uint32_t n_layers,
                                       std::optional<uint32_t> fallback) const;
  uint32_t count_or_zero(std::string_view suffix, uint64_t max = k_max_dimension) const;
  // Finite reals above zero.
  double positive(std::string_view suffix) const;
  double positive_or(std::string_view suffix, double fallback) const;

  // A tensor with exactly this shape, of a type that can be computed; its id among the weights.
  // `wide` shapes come in GGUF order. Vectors (norms, biases) must be F32, F16 or BF16; they are
  // kept as F32.
  WeightId matrix(const std::string& name, std::vector<uint64_t> shape, Role role);
  WeightId vector(const std::string& name, uint64_t length, Role role = Role::replicated);
  // The same, k_none when the file does not have it.
  WeightId optional_matrix(const std::string& name, std::vector<uint64_t> shape, Role role);
  WeightId optional_vector(const std::string& name, uint64_t length, Role role = Role::replicated);
  // Rows [begin, begin + rows) of a matrix of `total` rows, as a weight of its own.
  WeightId rows_of(const std::string& name, std::string_view part, uint64_t n_in, uint64_t total,
                   uint64_t begin, uint64_t rows, Role role);
  WeightId elements_of(const std::string& name, std::string_view part, uint64_t total,
                       uint64_t begin, uint64_t length, Role role);
  bool has(const std::string& name) const;
  // Rows of token_embd.weight, or `fallback` when there is no such tensor.
  uint64_t embedding_rows(uint64_t fallback) const;

  ModelSpec& spec() { return spec_; }
  // Notes what the file holds beyond the family and gives the description out.
  ModelSpec finish();

  static constexpr uint64_t k_max_dimension = uint64_t{1} << 24;
  static constexpr uint64_t k_max_layers = 4096;

 private:
  const gguf::TensorInfo& require(const std::string& name, const std::vector<uint64_t>& shape);
  WeightId add(const gguf::TensorInfo& tensor, std::string name, std::array<uint64_t, 3> dims,
               uint64_t row_begin, Role role);

  const gguf::File& file_;
  AbsentTensors* absent_;
  std::string architecture_;
  ModelSpec spec_;
  std::set<std::string> used_;
};

// Pieces that most families share.
// Block count, width, context, eps, vocabulary, embedding, output norm and head (tied by presence).
void read_trunk(SpecBuilder& builder);
// Rope keys: dimension_count (default `head_dim`), freq_base, scaling; adds a RopeSpec.
uint32_t read_rope(SpecBuilder& builder, device::RopeStyle style, uint32_t head_dim);
// q, k, v (or fused qkv) with optional biases and the output projection of layer `i`.
struct AttentionShape {
  uint32_t n_heads = 0;
  uint32_t n_kv_heads = 0;
  uint32_t head_dim_k = 0;
  uint32_t head_dim_v = 0;
};
AttentionSpec read_attention(SpecBuilder& builder, uint32_t layer, const AttentionShape& shape,
                             uint32_t rope);
// Heads and head sizes of every layer, from metadata cross-checked with each other.
std::vector<AttentionShape> read_attention_shapes(SpecBuilder& builder, uint32_t n_layers);
DenseFfn read_dense_ffn(SpecBuilder& builder, uint32_t layer, uint32_t n_ff);
// Stacked experts of layer `i`: router, gate, up, down.
ExpertFfn read_expert_ffn(SpecBuilder& builder, uint32_t layer, uint32_t n_experts, uint32_t n_used,
                          uint32_t n_ff);

// "blk.3.attn_q.weight"
std::string block_tensor(uint32_t layer, std::string_view name);

// A family: the architecture's name in files and the function that reads it.
struct Family {
  std::string_view name;
  ModelSpec (*read)(SpecBuilder& builder);
};

// As read_spec(file), with something that stands in for tensors that are not there.
ModelSpec read_spec(const gguf::File& file, AbsentTensors* absent);

ModelSpec read_llama(SpecBuilder& builder);
ModelSpec read_qwen2(SpecBuilder& builder);
ModelSpec read_qwen3(SpecBuilder& builder);
ModelSpec read_qwen3moe(SpecBuilder& builder);

}  // namespace strata::model
