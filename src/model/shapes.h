// Shapes of models: the published ones by name, and what a shape is.
//
// Purpose: the one table from which synthetic models are made (`strata synth`, `strata bench
// --shape`) and from which a model can be planned for without its file. To add a model: a line in
// shapes.cpp.
// Not for: reading files; that gives a ModelSpec (spec.h).
// Errors: ErrorCode::usage for an unknown name (with the nearest) or dimensions that do not fit
// together.
// Threads: a constant table and pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace strata::model {

struct Shape {
  std::string name;
  std::string family;  // as general.architecture: "llama"
  uint32_t n_layers = 0;
  uint32_t n_embd = 0;
  uint32_t n_heads = 0;
  uint32_t n_kv_heads = 0;
  uint32_t head_dim = 0;
  uint32_t n_ff = 0;       // of a dense block, or of one expert
  uint32_t n_experts = 0;  // 0: dense
  uint32_t n_experts_used = 0;
  uint32_t n_vocab = 0;
  bool tied_head = false;  // no output.weight: the embedding is the head
  uint64_t n_context = 0;  // trained
  double rope_base = 10000;
  double rope_factor = 0;  // Llama 3.1's scaling of long waves by this much; 0: none
  double norm_eps = 1e-5;
};

std::span<const Shape> shapes();
const Shape& find_shape(std::string_view name);

// What a family's files hold beside what all have.
struct FamilyTraits {
  std::string_view name;
  bool qkv_bias = false;
  bool qk_norm = false;
  enum class Experts { never, maybe, always } experts = Experts::never;
  bool own_expert_width = false;  // key expert_feed_forward_length beside feed_forward_length
};
const FamilyTraits& find_traits(std::string_view family);

// Refuses a shape that is no model of its family.
void check_shape(const Shape& shape);

// Number of weights: those of the matrices, norms and biases.
uint64_t parameters(const Shape& shape);

}  // namespace strata::model
