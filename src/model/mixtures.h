// Mixtures of element types as people download them: which tensor gets which type in "q4_k_m".
//
// Purpose: the rules that llama.cpp's quantiser (without an importance matrix) follows, for the
// families known here; a synthetic model then weighs what a downloaded one weighs and asks for the
// same kernels. In short:
//   - vectors and expert routers stay F32;
//   - the head (the embedding, when there is no head of its own) is Q6_K, Q8_0 in q8_0 and in
//     mxfp4_moe, and plain in f32, f16 and bf16;
//   - the _M mixtures raise attn_v and ffn_down of some layers: the first and last eighth and
//     every third between them in q4_k_m and q5_k_m; all of them in q3_k_m and q2_k;
//   - the _S mixtures raise the first layers only;
//   - 8 experts: attn_k and attn_v are Q8_0, attn_output often Q5_K;
//   - rows that are no whole number of 256-element blocks take the nearest type with blocks of 32,
//     and F16 when they are not a multiple of 32 either.
// Threads: constant tables and pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "model/shapes.h"
#include "tensor/types.h"

namespace strata::model {

enum class MixtureId : uint8_t {
  f32,
  f16,
  bf16,
  q8_0,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q2_k,
  q2_k_s,
  q3_k_s,
  q3_k_m,
  q3_k_l,
  q4_k_s,
  q4_k_m,
  q5_k_s,
  q5_k_m,
  q6_k,
  iq4_nl,
  iq4_xs,
  mxfp4,
  mxfp4_moe,
};

struct Mixture {
  MixtureId id;
  std::string_view name;   // "q4_k_m"
  ElementType base;        // of most matrices
  uint32_t file_type = 0;  // general.file_type
  bool pure = false;       // every matrix in the base type, whatever the name
};

std::span<const Mixture> mixtures();
// By name, in any case; "q4_k" is q4_k_m, as "q3_k" and "q5_k" are the _M ones. ErrorCode::usage.
Mixture find_mixture(std::string_view name);

enum class Part : uint8_t {
  embedding,
  head,
  q,
  k,
  v,
  attention_output,
  gate,
  up,
  down,
  expert_gate,
  expert_up,
  expert_down,
  router,
  vector,
};

// The type of a matrix with rows of `n_in` elements in layer `layer`. `embedding` of a shape with
// a tied head is the head.
ElementType type_in(const Mixture& mixture, const Shape& shape, Part part, uint32_t layer,
                    uint64_t n_in);

}  // namespace strata::model
