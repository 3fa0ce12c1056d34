#include "model/mixtures.h"

#include <string>
#include <vector>

#include "base/error.h"
#include "base/suggest.h"

namespace strata::model {
namespace {

using T = ElementType;
using M = MixtureId;

constexpr Mixture k_mixtures[] = {
    {M::f32, "f32", T::f32, 0},           {M::f16, "f16", T::f16, 1},
    {M::bf16, "bf16", T::bf16, 32},       {M::q8_0, "q8_0", T::q8_0, 7},
    {M::q4_0, "q4_0", T::q4_0, 2},        {M::q4_1, "q4_1", T::q4_1, 3},
    {M::q5_0, "q5_0", T::q5_0, 8},        {M::q5_1, "q5_1", T::q5_1, 9},
    {M::q2_k, "q2_k", T::q2_k, 10},       {M::q2_k_s, "q2_k_s", T::q2_k, 21},
    {M::q3_k_s, "q3_k_s", T::q3_k, 11},   {M::q3_k_m, "q3_k_m", T::q3_k, 12},
    {M::q3_k_l, "q3_k_l", T::q3_k, 13},   {M::q4_k_s, "q4_k_s", T::q4_k, 14},
    {M::q4_k_m, "q4_k_m", T::q4_k, 15},   {M::q5_k_s, "q5_k_s", T::q5_k, 16},
    {M::q5_k_m, "q5_k_m", T::q5_k, 17},   {M::q6_k, "q6_k", T::q6_k, 18},
    {M::iq4_nl, "iq4_nl", T::iq4_nl, 25}, {M::iq4_xs, "iq4_xs", T::iq4_xs, 30},
    {M::mxfp4, "mxfp4", T::mxfp4, 38},    {M::mxfp4_moe, "mxfp4_moe", T::mxfp4, 38},
};

bool is_plain(M id) { return id == M::f32 || id == M::f16 || id == M::bf16; }

// The layers that Q4_K_M and Q5_K_M spend more bits on.
bool is_favoured(uint32_t layer, uint32_t n_layers) {
  const uint32_t eighth = n_layers / 8;
  return layer < eighth || layer >= 7 * n_layers / 8 || (layer - eighth) % 3 == 2;
}

ElementType head_type(const Mixture& mixture, uint64_t n_in) {
  if (mixture.id == M::q8_0 || mixture.id == M::mxfp4_moe || n_in % 256 != 0) return T::q8_0;
  return T::q6_k;
}

ElementType value_type(const Mixture& mixture, const Shape& shape, uint32_t layer) {
  if (shape.n_experts == 8) return T::q8_0;
  const bool shared = shape.n_heads / shape.n_kv_heads >= 4;
  ElementType type = mixture.base;
  switch (mixture.id) {
    case M::q2_k:
      type = shared ? T::q4_k : T::q3_k;
      break;
    case M::q2_k_s:
      if (shared) type = T::q4_k;
      break;
    case M::q3_k_m:
      type = layer < 2 ? T::q5_k : T::q4_k;
      break;
    case M::q3_k_l:
      type = T::q5_k;
      break;
    case M::iq4_nl:
    case M::iq4_xs:
      if (shared) type = T::q5_k;
      break;
    case M::q4_k_m:
    case M::q5_k_m:
      if (is_favoured(layer, shape.n_layers)) type = T::q6_k;
      break;
    case M::q4_k_s:
      if (layer < 4) type = T::q5_k;
      break;
    default:
      break;
  }
  // In models of 70 B the values are shared by so many heads that they get more.
  if (shape.n_layers == 80 && (type == T::q3_k || type == T::q4_k)) type = T::q5_k;
  return type;
}

ElementType down_type(const Mixture& mixture, const Shape& shape, uint32_t layer) {
  const uint32_t eighth = shape.n_layers / 8;
  switch (mixture.id) {
    case M::q2_k:
      return T::q3_k;
    case M::q2_k_s:
      return layer < eighth ? T::q4_k : mixture.base;
    case M::q3_k_m:
      return layer < shape.n_layers / 16 ? T::q5_k : T::q4_k;
    case M::q3_k_l:
      return T::q5_k;
    case M::q4_k_m:
    case M::q5_k_m:
      return is_favoured(layer, shape.n_layers) ? T::q6_k : mixture.base;
    case M::iq4_nl:
    case M::iq4_xs:
    case M::q4_k_s:
      return layer < eighth ? T::q5_k : mixture.base;
    default:
      return mixture.base;
  }
}

ElementType attention_output_type(const Mixture& mixture, const Shape& shape) {
  if (shape.n_experts == 8) {
    switch (mixture.id) {
      case M::q2_k:
      case M::q3_k_s:
      case M::q3_k_m:
      case M::q4_k_s:
      case M::q4_k_m:
      case M::iq4_nl:
      case M::iq4_xs:
        return T::q5_k;
      default:
        return mixture.base;
    }
  }
  if (mixture.id == M::q2_k) return T::q3_k;
  if (mixture.id == M::q3_k_m) return T::q4_k;
  if (mixture.id == M::q3_k_l) return T::q5_k;
  return mixture.base;
}

ElementType wanted_type(const Mixture& mixture, const Shape& shape, Part part, uint32_t layer,
                        uint64_t n_in) {
  if (mixture.pure || is_plain(mixture.id)) return mixture.base;
  if (part == Part::head || (part == Part::embedding && shape.tied_head)) {
    return head_type(mixture, n_in);
  }
  if (mixture.id == M::mxfp4_moe) {
    const bool expert =
        part == Part::expert_gate || part == Part::expert_up || part == Part::expert_down;
    return expert ? T::mxfp4 : T::q8_0;
  }
  switch (part) {
    case Part::k:
      return shape.n_experts == 8 ? T::q8_0 : mixture.base;
    case Part::v:
      return value_type(mixture, shape, layer);
    case Part::down:
    case Part::expert_down:
      return down_type(mixture, shape, layer);
    case Part::attention_output:
      return attention_output_type(mixture, shape);
    default:
      return mixture.base;
  }
}

// What stands in for a type whose blocks do not divide the rows.
ElementType fitting_type(ElementType type, uint64_t n_in) {
  if (n_in % info(type).block_elems == 0) return type;
  if (n_in % 32 != 0 || info(type).block_elems == 32) return T::f16;
  switch (type) {
    case T::q2_k:
    case T::q3_k:
    case T::iq4_xs:
      return T::iq4_nl;
    case T::q4_k:
      return T::q5_0;
    case T::q5_k:
      return T::q5_1;
    default:
      return T::q8_0;
  }
}

}  // namespace

std::span<const Mixture> mixtures() { return k_mixtures; }

Mixture find_mixture(std::string_view name) {
  std::string lower;
  for (const char c : name) lower += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  if (lower == "q3_k" || lower == "q4_k" || lower == "q5_k") lower += "_m";
  std::vector<std::string> names;
  for (const Mixture& mixture : k_mixtures) {
    if (mixture.name == lower) return mixture;
    names.emplace_back(mixture.name);
  }
  fail(ErrorCode::usage, "element type '{}' is not known; known are {}", printable(name),
       join_names(names));
}

ElementType type_in(const Mixture& mixture, const Shape& shape, Part part, uint32_t layer,
                    uint64_t n_in) {
  if (part == Part::vector || part == Part::router) return T::f32;
  return fitting_type(wanted_type(mixture, shape, part, layer, n_in), n_in);
}

}  // namespace strata::model
