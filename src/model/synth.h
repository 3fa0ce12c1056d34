// Synthetic models: random, well-scaled weights in any shape and mixture.
//
// Purpose: a model of a published shape without the download, as a file (`strata synth`) or without
// any (`strata bench --shape`): how fast would it run here, does it fit, does every kernel work.
// Scaling: a matrix with rows of n elements has values of deviation g / sqrt(n), so that it keeps
// the size of what goes through it; g is 1, but 1 / sqrt(2 layers) for the two matrices of a layer
// that add to the residual stream, which so keeps its size over any depth, and 2 for the head:
// logits have a deviation of about 2. Norms lie around 1.
// Deterministic: the bytes depend on shape, mixture and seed only, not on threads or pieces.
// Errors: ErrorCode::usage for a shape that is no model, or a vocabulary that does not fit it.
// Threads: constant once made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gguf/file.h"
#include "model/mixtures.h"
#include "model/shapes.h"

namespace strata::model {

class SyntheticModel {
 public:
  // `vocabulary`: metadata to take the tokenizer from; nullptr makes one.
  SyntheticModel(const Shape& shape, const Mixture& mixture, uint64_t seed = 0,
                 const gguf::Metadata* vocabulary = nullptr);

  const Shape& shape() const { return shape_; }
  const gguf::Metadata& metadata() const { return metadata_; }
  const std::vector<gguf::TensorSpec>& tensors() const { return tensors_; }
  uint64_t tensor_bytes(size_t tensor) const;
  uint64_t data_bytes() const;  // of all tensors

  // Bytes [offset, offset + out.size()) of a tensor's data, made by up to `n_threads` threads.
  void fill(size_t tensor, uint64_t offset, std::span<std::byte> out, uint32_t n_threads = 1) const;

 private:
  struct Values {
    enum class Kind : uint8_t { weights, norm, rope_factors } kind = Kind::weights;
    double sigma = 0;
  };

  void add(const std::string& name, std::vector<uint64_t> dims, Part part, uint32_t layer,
           double gain);
  void add_vector(const std::string& name, uint64_t length, Values values);
  void add_layer(uint32_t layer);
  void set_metadata(const gguf::Metadata* vocabulary);
  void fill_vector(size_t tensor, std::span<float> out) const;

  Shape shape_;
  Mixture mixture_;
  uint64_t seed_;
  gguf::Metadata metadata_;
  std::vector<gguf::TensorSpec> tensors_;
  std::vector<Values> values_;  // by tensor
};

// The model as a file in memory, whose tensors are made when they are asked for.
gguf::File open_synthetic(std::shared_ptr<const SyntheticModel> model, uint32_t n_threads = 1);

// A valid SPM vocabulary of `n_vocab` tokens (at least 259: three control tokens and the bytes)
// with a simple chat template.
void set_generated_vocabulary(gguf::Metadata& metadata, uint32_t n_vocab);

}  // namespace strata::model
