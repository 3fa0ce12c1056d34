#include "model/shapes.h"

#include <vector>

#include "base/error.h"
#include "base/suggest.h"
#include "model/families/builder.h"

namespace strata::model {
namespace {

constexpr FamilyTraits k_traits[] = {
    {"llama", false, false, FamilyTraits::Experts::maybe, false},
    {"qwen2", true, false, FamilyTraits::Experts::never, false},
    {"qwen3", false, true, FamilyTraits::Experts::never, false},
    {"qwen3moe", false, true, FamilyTraits::Experts::always, true},
};

constexpr bool k_tied = true;
constexpr bool k_untied = false;

// Dimensions as the models' authors published them (config.json). The columns: name, family,
// layers, width, heads, KV heads, head size, feed-forward width (of one expert), experts, experts
// used, vocabulary, head, context, rope base, rope factor, eps of the norms.
// clang-format off
const std::vector<Shape>& table() {
  static const std::vector<Shape> shapes{
    // For measurements: the sizes of TinyLlama, and a small mixture of many experts.
    {"llama-1b",      "llama", 22,  2048,  32, 4,  64,  5632,  0, 0,  32000, k_untied,   2048, 10000, 0, 1e-5},
    {"moe-1.8b",   "qwen3moe", 16,  1024,  16, 4, 128,   512, 64, 8,  32000, k_untied,  32768,   1e6, 0, 1e-6},
    // Llama
    {"llama-2-7b",    "llama", 32,  4096,  32, 32, 128, 11008, 0, 0,  32000, k_untied,   4096, 10000, 0, 1e-5},
    {"llama-2-13b",   "llama", 40,  5120,  40, 40, 128, 13824, 0, 0,  32000, k_untied,   4096, 10000, 0, 1e-5},
    {"llama-2-70b",   "llama", 80,  8192,  64, 8,  128, 28672, 0, 0,  32000, k_untied,   4096, 10000, 0, 1e-5},
    {"llama-3-8b",    "llama", 32,  4096,  32, 8,  128, 14336, 0, 0, 128256, k_untied,   8192,   5e5, 0, 1e-5},
    {"llama-3-70b",   "llama", 80,  8192,  64, 8,  128, 28672, 0, 0, 128256, k_untied,   8192,   5e5, 0, 1e-5},
    {"llama-3.1-8b",  "llama", 32,  4096,  32, 8,  128, 14336, 0, 0, 128256, k_untied, 131072,   5e5, 8, 1e-5},
    {"llama-3.1-70b", "llama", 80,  8192,  64, 8,  128, 28672, 0, 0, 128256, k_untied, 131072,   5e5, 8, 1e-5},
    {"llama-3.1-405b","llama",126, 16384, 128, 8,  128, 53248, 0, 0, 128256, k_untied, 131072,   5e5, 8, 1e-5},
    {"llama-3.2-1b",  "llama", 16,  2048,  32, 8,   64,  8192, 0, 0, 128256, k_tied,   131072,   5e5, 32, 1e-5},
    {"llama-3.2-3b",  "llama", 28,  3072,  24, 8,  128,  8192, 0, 0, 128256, k_tied,   131072,   5e5, 32, 1e-5},
    // Mistral
    {"mistral-7b",    "llama", 32,  4096,  32, 8,  128, 14336, 0, 0,  32768, k_untied,  32768,   1e6, 0, 1e-5},
    {"mixtral-8x7b",  "llama", 32,  4096,  32, 8,  128, 14336, 8, 2,  32000, k_untied,  32768,   1e6, 0, 1e-5},
    {"mixtral-8x22b", "llama", 56,  6144,  48, 8,  128, 16384, 8, 2,  32768, k_untied,  65536,   1e6, 0, 1e-5},
    // Qwen 2.5
    {"qwen2.5-0.5b",  "qwen2", 24,   896,  14, 2,   64,  4864, 0, 0, 151936, k_tied,    32768,   1e6, 0, 1e-6},
    {"qwen2.5-1.5b",  "qwen2", 28,  1536,  12, 2,  128,  8960, 0, 0, 151936, k_tied,    32768,   1e6, 0, 1e-6},
    {"qwen2.5-3b",    "qwen2", 36,  2048,  16, 2,  128, 11008, 0, 0, 151936, k_tied,    32768,   1e6, 0, 1e-6},
    {"qwen2.5-7b",    "qwen2", 28,  3584,  28, 4,  128, 18944, 0, 0, 152064, k_untied,  32768,   1e6, 0, 1e-6},
    {"qwen2.5-14b",   "qwen2", 48,  5120,  40, 8,  128, 13824, 0, 0, 152064, k_untied,  32768,   1e6, 0, 1e-6},
    {"qwen2.5-32b",   "qwen2", 64,  5120,  40, 8,  128, 27648, 0, 0, 152064, k_untied,  32768,   1e6, 0, 1e-6},
    {"qwen2.5-72b",   "qwen2", 80,  8192,  64, 8,  128, 29568, 0, 0, 152064, k_untied,  32768,   1e6, 0, 1e-6},
    // Qwen 3
    {"qwen3-0.6b",    "qwen3", 28,  1024,  16, 8,  128,  3072, 0, 0, 151936, k_tied,    40960,   1e6, 0, 1e-6},
    {"qwen3-1.7b",    "qwen3", 28,  2048,  16, 8,  128,  6144, 0, 0, 151936, k_tied,    40960,   1e6, 0, 1e-6},
    {"qwen3-4b",      "qwen3", 36,  2560,  32, 8,  128,  9728, 0, 0, 151936, k_tied,    40960,   1e6, 0, 1e-6},
    {"qwen3-8b",      "qwen3", 36,  4096,  32, 8,  128, 12288, 0, 0, 151936, k_untied,  40960,   1e6, 0, 1e-6},
    {"qwen3-14b",     "qwen3", 40,  5120,  40, 8,  128, 17408, 0, 0, 151936, k_untied,  40960,   1e6, 0, 1e-6},
    {"qwen3-32b",     "qwen3", 64,  5120,  64, 8,  128, 25600, 0, 0, 151936, k_untied,  40960,   1e6, 0, 1e-6},
    {"qwen3-30b-a3b",        "qwen3moe", 48, 2048, 32, 4, 128,  768, 128, 8, 151936, k_untied,  40960, 1e6, 0, 1e-6},
    {"qwen3-235b-a22b",      "qwen3moe", 94, 4096, 64, 4, 128, 1536, 128, 8, 151936, k_untied,  40960, 1e6, 0, 1e-6},
    {"qwen3-coder-480b-a35b","qwen3moe", 62, 6144, 96, 8, 128, 2560, 160, 8, 151936, k_untied, 262144, 1e7, 0, 1e-6},
  };
  return shapes;
}
// clang-format on

}  // namespace

std::span<const Shape> shapes() { return table(); }

const Shape& find_shape(std::string_view name) {
  std::vector<std::string> names;
  for (const Shape& shape : table()) {
    if (shape.name == name) return shape;
    names.push_back(shape.name);
  }
  const std::string near = nearest_name(std::string(name), names);
  if (!near.empty()) {
    fail(ErrorCode::usage, "shape '{}' is not known; did you mean {}?", printable(name), near);
  }
  fail(ErrorCode::usage, "shape '{}' is not known; known are {}", printable(name),
       join_names(names));
}

const FamilyTraits& find_traits(std::string_view family) {
  for (const FamilyTraits& traits : k_traits) {
    if (traits.name == family) return traits;
  }
  fail(ErrorCode::usage, "family '{}' is not known; known are {}", printable(family),
       join_names(known_families()));
}

void check_shape(const Shape& shape) {
  const FamilyTraits& traits = find_traits(shape.family);
  const auto in_range = [](uint64_t value, uint64_t low, uint64_t high, const char* what) {
    if (value < low || value > high) {
      fail(ErrorCode::usage, "the shape has {} = {}, but it must lie from {} to {}", what, value,
           low, high);
    }
  };
  in_range(shape.n_layers, 1, SpecBuilder::k_max_layers, "layers");
  in_range(shape.n_embd, 1, 1 << 20, "width");
  in_range(shape.n_heads, 1, 1 << 16, "heads");
  in_range(shape.n_kv_heads, 1, shape.n_heads, "KV heads");
  in_range(shape.head_dim, 2, 1 << 16, "head size");
  in_range(shape.n_ff, 1, 1 << 20, "feed-forward width");
  in_range(shape.n_vocab, 1, 1 << 24, "vocabulary");
  in_range(shape.n_context, 1, uint64_t{1} << 31, "context");
  if (shape.n_heads % shape.n_kv_heads != 0) {
    fail(ErrorCode::usage, "{} heads cannot be shared by {} KV heads: give a divisor",
         shape.n_heads, shape.n_kv_heads);
  }
  if (shape.head_dim % 2 != 0) {
    fail(ErrorCode::usage, "the head size {} is odd; rotary positions need an even one",
         shape.head_dim);
  }
  using Experts = FamilyTraits::Experts;
  if (shape.n_experts > 0 && traits.experts == Experts::never) {
    fail(ErrorCode::usage, "family '{}' has no experts; llama and qwen3moe do", shape.family);
  }
  if (shape.n_experts == 0 && traits.experts == Experts::always) {
    fail(ErrorCode::usage, "family '{}' needs experts; give their number (--experts)",
         shape.family);
  }
  if (shape.n_experts > 0) {
    in_range(shape.n_experts, 1, 65536, "experts");
    in_range(shape.n_experts_used, 1, shape.n_experts, "experts used");
  }
}

uint64_t parameters(const Shape& shape) {
  const FamilyTraits& traits = find_traits(shape.family);
  const uint64_t width = shape.n_embd;
  const uint64_t q = uint64_t{shape.n_heads} * shape.head_dim;
  const uint64_t kv = uint64_t{shape.n_kv_heads} * shape.head_dim;
  uint64_t layer = 2 * width + width * (q + 2 * kv) + q * width;
  if (traits.qkv_bias) layer += q + 2 * kv;
  if (traits.qk_norm) layer += 2 * uint64_t{shape.head_dim};
  const uint64_t ffn = 3 * width * shape.n_ff;
  layer += shape.n_experts == 0 ? ffn : shape.n_experts * (ffn + width);
  const uint64_t tables = uint64_t{shape.n_vocab} * width * (shape.tied_head ? 1 : 2);
  return shape.n_layers * layer + tables + width;
}

}  // namespace strata::model
