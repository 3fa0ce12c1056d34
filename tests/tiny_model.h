// A tiny random llama-family model with a byte vocabulary, written as GGUF, for tests that need a
// model that is theirs to damage.
#pragma once

#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "gguf/writer.h"

namespace strata::test {

struct TinyTensor {
  std::string name;
  std::vector<uint64_t> dims;
  std::vector<float> values;  // F32
};

struct TinyModel {
  gguf::Metadata metadata;
  std::vector<TinyTensor> tensors;

  TinyTensor* find(const std::string& name) {
    for (TinyTensor& tensor : tensors) {
      if (tensor.name == name) return &tensor;
    }
    return nullptr;
  }
  void remove(const std::string& name) {
    std::erase_if(tensors, [&](const TinyTensor& tensor) { return tensor.name == name; });
  }

  void write(const std::string& path) const {
    std::vector<gguf::TensorSpec> specs;
    for (const TinyTensor& tensor : tensors) specs.push_back({tensor.name, tensor.dims, 0});
    gguf::Writer writer(path, metadata, specs);
    for (const TinyTensor& tensor : tensors) writer.write(std::as_bytes(std::span(tensor.values)));
    writer.close();
  }
};

struct TinyShape {
  uint32_t n_embd = 32;
  uint32_t n_layers = 2;
  uint32_t n_heads = 4;
  uint32_t n_kv_heads = 2;
  uint32_t head_dim = 8;
  uint32_t n_ff = 48;
  uint32_t n_context = 128;
  bool tied = false;
};

// Vocabulary: <unk> <s> </s>, the 256 byte tokens, and a few pieces (SPM).
inline TinyModel tiny_model(const TinyShape& shape = {}, uint32_t seed = 1) {
  TinyModel model;
  gguf::Metadata& m = model.metadata;
  m.set("general.architecture", std::string("llama"));
  m.set("general.name", std::string("tiny"));
  m.set("llama.block_count", shape.n_layers);
  m.set("llama.context_length", shape.n_context);
  m.set("llama.embedding_length", shape.n_embd);
  m.set("llama.feed_forward_length", shape.n_ff);
  m.set("llama.attention.head_count", shape.n_heads);
  m.set("llama.attention.head_count_kv", shape.n_kv_heads);
  m.set("llama.attention.key_length", shape.head_dim);
  m.set("llama.attention.value_length", shape.head_dim);
  m.set("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  m.set("llama.rope.dimension_count", shape.head_dim);
  std::vector<std::string> tokens{"<unk>", "<s>", "</s>"};
  std::vector<int32_t> kinds{2, 3, 3};
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", byte);
    tokens.emplace_back(name);
    kinds.push_back(6);
  }
  for (const char* piece : {"\xE2\x96\x81", "a", "b", "c", "d", "e", "ab", "abc"}) {
    tokens.emplace_back(piece);
    kinds.push_back(1);
  }
  std::vector<float> scores(tokens.size(), 0.0f);
  const auto n_vocab = static_cast<uint64_t>(tokens.size());
  m.set("tokenizer.ggml.model", std::string("llama"));
  m.set("tokenizer.ggml.tokens", gguf::Array(tokens));
  m.set("tokenizer.ggml.scores", gguf::Array(scores));
  m.set("tokenizer.ggml.token_type", gguf::Array(kinds));
  m.set("tokenizer.ggml.bos_token_id", uint32_t{1});
  m.set("tokenizer.ggml.eos_token_id", uint32_t{2});
  m.set("tokenizer.ggml.unknown_token_id", uint32_t{0});

  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  const auto add = [&](const std::string& name, std::vector<uint64_t> dims, bool norm = false) {
    uint64_t count = 1;
    for (const uint64_t dim : dims) count *= dim;
    std::vector<float> values(count);
    const float scale = 1.0f / std::sqrt(static_cast<float>(dims[0]));
    for (float& value : values)
      value = norm ? 1.0f + 0.1f * normal(random) : scale * normal(random);
    model.tensors.push_back({name, std::move(dims), std::move(values)});
  };
  const uint64_t e = shape.n_embd;
  const uint64_t q = uint64_t{shape.n_heads} * shape.head_dim;
  const uint64_t kv = uint64_t{shape.n_kv_heads} * shape.head_dim;
  add("token_embd.weight", {e, n_vocab});
  add("output_norm.weight", {e}, true);
  if (!shape.tied) add("output.weight", {e, n_vocab});
  for (uint32_t i = 0; i < shape.n_layers; ++i) {
    const std::string block = "blk." + std::to_string(i) + ".";
    add(block + "attn_norm.weight", {e}, true);
    add(block + "attn_q.weight", {e, q});
    add(block + "attn_k.weight", {e, kv});
    add(block + "attn_v.weight", {e, kv});
    add(block + "attn_output.weight", {q, e});
    add(block + "ffn_norm.weight", {e}, true);
    add(block + "ffn_gate.weight", {e, shape.n_ff});
    add(block + "ffn_up.weight", {e, shape.n_ff});
    add(block + "ffn_down.weight", {shape.n_ff, e});
  }
  return model;
}

// A file in the system's temporary folder that goes away with the object.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& suffix = ".gguf") {
    static int counter = 0;
    path_ = (std::filesystem::temp_directory_path() / ("strata-test-" + std::to_string(::getpid()) +
                                                       "-" + std::to_string(counter++) + suffix))
                .string();
  }
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace strata::test
