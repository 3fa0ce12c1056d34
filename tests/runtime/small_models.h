// Small synthetic models of every family, in files, for tests over many placements.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gguf/writer.h"
#include "model/synth.h"
#include "tiny_model.h"

namespace strata::test {

inline void write_synthetic(const model::SyntheticModel& model, const std::string& path) {
  gguf::Writer writer(path, model.metadata(), model.tensors());
  std::vector<std::byte> bytes;
  for (size_t i = 0; i < model.tensors().size(); ++i) {
    bytes.resize(model.tensor_bytes(i));
    model.fill(i, 0, bytes);
    writer.write(bytes);
  }
  writer.close();
}

struct SmallModel {
  std::string name;
  model::Shape shape;
  std::string mixture;
  bool pure;     // every matrix in the mixture's type
  double limit;  // of the error that another order of addition may make
};

inline model::Shape shape_of(const std::string& family, uint32_t n_layers, uint32_t n_embd,
                             uint32_t n_heads, uint32_t n_kv_heads, uint32_t head_dim,
                             uint32_t n_ff) {
  model::Shape shape;
  shape.name = "small";
  shape.family = family;
  shape.n_layers = n_layers;
  shape.n_embd = n_embd;
  shape.n_heads = n_heads;
  shape.n_kv_heads = n_kv_heads;
  shape.head_dim = head_dim;
  shape.n_ff = n_ff;
  shape.n_vocab = 300;
  shape.n_context = 512;
  return shape;
}

// Heads, columns and experts of numbers that do not divide evenly; where blocks of 256 elements
// hold several heads or a whole expert, cuts cannot fall anywhere.
inline std::vector<SmallModel> small_models() {
  const auto with_experts = [](model::Shape shape, uint32_t n, uint32_t used) {
    shape.n_experts = n;
    shape.n_experts_used = used;
    return shape;
  };
  const auto tied = [](model::Shape shape) {
    shape.tied_head = true;
    return shape;
  };
  std::vector<SmallModel> out;
  out.push_back({"llama-f32", shape_of("llama", 3, 64, 4, 2, 16, 96), "f32", true, 1e-9});
  out.push_back({"qwen2-f16", shape_of("qwen2", 4, 96, 6, 3, 16, 160), "f16", true, 5e-7});
  out.push_back({"qwen3-q8_0", tied(shape_of("qwen3", 2, 128, 8, 2, 32, 224)), "q8_0", true, 3e-4});
  out.push_back({"llama-q4_k", shape_of("llama", 2, 256, 8, 4, 64, 768), "q4_k_m", false, 3e-4});
  out.push_back({"qwen3-q4_k", shape_of("qwen3", 1, 256, 4, 1, 64, 256), "q4_k_s", true, 3e-4});
  out.push_back({"qwen3moe-f32", with_experts(shape_of("qwen3moe", 3, 64, 4, 1, 32, 40), 6, 2),
                 "f32", true, 1e-9});
  // All experts are used: which of them are is no question of rounding.
  out.push_back({"qwen3moe-q4_k", with_experts(shape_of("qwen3moe", 2, 256, 4, 2, 64, 256), 5, 5),
                 "q4_k_s", true, 3e-4});
  out.push_back({"mixtral-q8_0", with_experts(shape_of("llama", 3, 128, 4, 2, 32, 160), 4, 4),
                 "q8_0", true, 3e-4});
  return out;
}

// A small model in a file, with its description.
struct StoredModel {
  explicit StoredModel(const SmallModel& model) : name(model.name) {
    model::Mixture mixture = model::find_mixture(model.mixture);
    mixture.pure = model.pure;
    write_synthetic(model::SyntheticModel(model.shape, mixture, 11), path.path());
    file = std::make_unique<gguf::File>(gguf::File::open(path.path()));
    spec = model::read_spec(*file);
  }

  std::string name;
  TemporaryFile path;
  std::unique_ptr<gguf::File> file;
  model::ModelSpec spec;
};

}  // namespace strata::test
