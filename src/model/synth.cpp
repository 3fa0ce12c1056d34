#include "model/synth.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <exception>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/start_thread.h"
#include "model/families/builder.h"
#include "tensor/random_blocks.h"

namespace strata::model {
namespace {

// Elements made from one seed; a multiple of every block.
constexpr uint64_t k_chunk_elems = uint64_t{1} << 18;
constexpr double k_logits_deviation = 2;
constexpr double k_norm_deviation = 0.1;
constexpr double k_bias_deviation = 0.1;

// FNV-1a: a tensor's values follow from its name, whatever else the file holds.
uint64_t hash_of(std::string_view text) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3u;
  return hash;
}

uint64_t seed_of(uint64_t seed, std::string_view tensor, uint64_t chunk) {
  RandomBits random(seed);
  RandomBits of_tensor(random.next() ^ hash_of(tensor));
  RandomBits of_chunk(of_tensor.next() + chunk);
  return of_chunk.next();
}

// Divisors of the rotary angles in Llama 3.1 and 3.2 (their reference implementation): waves longer
// than the old context are stretched by `factor`, those shorter than a quarter of it are kept.
void rope_factors(const Shape& shape, std::span<float> out) {
  constexpr double k_old_context = 8192;
  constexpr double k_low = 1;
  constexpr double k_high = 4;
  for (size_t i = 0; i < out.size(); ++i) {
    const double exponent = 2 * static_cast<double>(i) / shape.head_dim;
    const double wave = 2 * M_PI * std::pow(shape.rope_base, exponent);
    const double smooth = std::clamp((k_old_context / wave - k_low) / (k_high - k_low), 0.0, 1.0);
    out[i] = static_cast<float>(1 / ((1 - smooth) / shape.rope_factor + smooth));
  }
}

// Runs work(i) for 0 <= i < count on up to `n_threads` threads; the first exception is thrown on.
template <class Work>
void in_parallel(uint64_t count, uint32_t n_threads, const Work& work) {
  n_threads = static_cast<uint32_t>(std::min<uint64_t>(std::max(1u, n_threads), count));
  std::atomic<uint64_t> next{0};
  std::vector<std::exception_ptr> errors(n_threads);
  const auto run = [&](uint32_t rank) {
    try {
      for (uint64_t i = next++; i < count; i = next++) work(i);
    } catch (...) {
      errors[rank] = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  try {
    for (uint32_t rank = 1; rank < n_threads; ++rank) {
      threads.push_back(start_thread([&run, rank] { run(rank); }));
    }
  } catch (const Error&) {
    // Those that there are do it all.
  }
  if (n_threads > 0) run(0);
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace

SyntheticModel::SyntheticModel(const Shape& shape, const Mixture& mixture, uint64_t seed,
                               const gguf::Metadata* vocabulary)
    : shape_(shape), mixture_(mixture), seed_(seed) {
  check_shape(shape_);
  set_metadata(vocabulary);
  const uint64_t width = shape_.n_embd;
  const double head_gain = k_logits_deviation;
  // A tied table is the head, with rows of the width; as an embedding alone its values are of size
  // 1, whatever the width.
  add("token_embd.weight", {width, shape_.n_vocab}, Part::embedding, 0,
      shape_.tied_head ? head_gain : std::sqrt(static_cast<double>(width)));
  if (shape_.rope_factor > 0) {
    add_vector("rope_freqs.weight", shape_.head_dim / 2, {Values::Kind::rope_factors, 0});
  }
  for (uint32_t layer = 0; layer < shape_.n_layers; ++layer) add_layer(layer);
  add_vector("output_norm.weight", width, {Values::Kind::norm, k_norm_deviation});
  if (!shape_.tied_head) {
    add("output.weight", {width, shape_.n_vocab}, Part::head, 0, head_gain);
  }
}

void SyntheticModel::add(const std::string& name, std::vector<uint64_t> dims, Part part,
                         uint32_t layer, double gain) {
  const ElementType type = type_in(mixture_, shape_, part, layer, dims[0]);
  values_.push_back({Values::Kind::weights, gain / std::sqrt(static_cast<double>(dims[0]))});
  tensors_.push_back({name, std::move(dims), static_cast<uint32_t>(type)});
}

void SyntheticModel::add_vector(const std::string& name, uint64_t length, Values values) {
  values_.push_back(values);
  tensors_.push_back({name, {length}, static_cast<uint32_t>(ElementType::f32)});
}

void SyntheticModel::add_layer(uint32_t layer) {
  const FamilyTraits& traits = find_traits(shape_.family);
  const auto name = [&](const char* suffix) { return block_tensor(layer, suffix); };
  const uint64_t width = shape_.n_embd;
  const uint64_t n_ff = shape_.n_ff;
  const uint64_t q_rows = uint64_t{shape_.n_heads} * shape_.head_dim;
  const uint64_t kv_rows = uint64_t{shape_.n_kv_heads} * shape_.head_dim;
  const double residual = 1 / std::sqrt(2.0 * shape_.n_layers);
  const Values norm{Values::Kind::norm, k_norm_deviation};
  const Values bias{Values::Kind::weights, k_bias_deviation};

  add_vector(name("attn_norm.weight"), width, norm);
  add(name("attn_q.weight"), {width, q_rows}, Part::q, layer, 1);
  add(name("attn_k.weight"), {width, kv_rows}, Part::k, layer, 1);
  add(name("attn_v.weight"), {width, kv_rows}, Part::v, layer, 1);
  if (traits.qkv_bias) {
    add_vector(name("attn_q.bias"), q_rows, bias);
    add_vector(name("attn_k.bias"), kv_rows, bias);
    add_vector(name("attn_v.bias"), kv_rows, bias);
  }
  if (traits.qk_norm) {
    add_vector(name("attn_q_norm.weight"), shape_.head_dim, norm);
    add_vector(name("attn_k_norm.weight"), shape_.head_dim, norm);
  }
  add(name("attn_output.weight"), {q_rows, width}, Part::attention_output, layer, residual);
  add_vector(name("ffn_norm.weight"), width, norm);
  if (shape_.n_experts == 0) {
    add(name("ffn_gate.weight"), {width, n_ff}, Part::gate, layer, 1);
    add(name("ffn_up.weight"), {width, n_ff}, Part::up, layer, 1);
    add(name("ffn_down.weight"), {n_ff, width}, Part::down, layer, residual);
    return;
  }
  const uint64_t n = shape_.n_experts;
  add(name("ffn_gate_inp.weight"), {width, n}, Part::router, layer, 1);
  add(name("ffn_gate_exps.weight"), {width, n_ff, n}, Part::expert_gate, layer, 1);
  add(name("ffn_up_exps.weight"), {width, n_ff, n}, Part::expert_up, layer, 1);
  add(name("ffn_down_exps.weight"), {n_ff, width, n}, Part::expert_down, layer, residual);
}

void SyntheticModel::set_metadata(const gguf::Metadata* vocabulary) {
  const FamilyTraits& traits = find_traits(shape_.family);
  gguf::Metadata& m = metadata_;
  const auto set = [&](const char* suffix, gguf::Value value) {
    m.set(shape_.family + "." + suffix, std::move(value));
  };
  m.set("general.architecture", shape_.family);
  m.set("general.name", shape_.name + " (random weights)");
  m.set("general.file_type", mixture_.file_type);
  m.set("general.quantization_version", uint32_t{2});
  set("block_count", shape_.n_layers);
  set("context_length", static_cast<uint32_t>(shape_.n_context));
  set("embedding_length", shape_.n_embd);
  set("feed_forward_length",
      traits.own_expert_width ? shape_.n_ff * shape_.n_experts_used : shape_.n_ff);
  set("attention.head_count", shape_.n_heads);
  set("attention.head_count_kv", shape_.n_kv_heads);
  set("attention.key_length", shape_.head_dim);
  set("attention.value_length", shape_.head_dim);
  set("attention.layer_norm_rms_epsilon", static_cast<float>(shape_.norm_eps));
  set("rope.dimension_count", shape_.head_dim);
  set("rope.freq_base", static_cast<float>(shape_.rope_base));
  set("vocab_size", shape_.n_vocab);
  if (shape_.n_experts > 0) {
    set("expert_count", shape_.n_experts);
    set("expert_used_count", shape_.n_experts_used);
    if (traits.own_expert_width) set("expert_feed_forward_length", shape_.n_ff);
  }
  if (vocabulary == nullptr) return set_generated_vocabulary(m, shape_.n_vocab);
  const auto* tokens = vocabulary->find_strings("tokenizer.ggml.tokens");
  if (tokens == nullptr) fail(ErrorCode::usage, "the file for --vocab holds no vocabulary");
  if (tokens->size() > shape_.n_vocab) {
    fail(ErrorCode::usage, "the vocabulary borrowed has {} tokens, the model only {}",
         tokens->size(), shape_.n_vocab);
  }
  for (const auto& [key, value] : vocabulary->entries()) {
    if (key.starts_with("tokenizer.")) m.set(key, value);
  }
}

uint64_t SyntheticModel::tensor_bytes(size_t tensor) const {
  const gguf::TensorSpec& spec = tensors_.at(tensor);
  uint64_t bytes = row_bytes(static_cast<ElementType>(spec.type), spec.dims[0]);
  for (size_t i = 1; i < spec.dims.size(); ++i) bytes *= spec.dims[i];
  return bytes;
}

uint64_t SyntheticModel::data_bytes() const {
  uint64_t bytes = 0;
  for (size_t i = 0; i < tensors_.size(); ++i) bytes += tensor_bytes(i);
  return bytes;
}

void SyntheticModel::fill_vector(size_t tensor, std::span<float> out) const {
  const Values& values = values_[tensor];
  if (values.kind == Values::Kind::rope_factors) return rope_factors(shape_, out);
  random_values(ElementType::f32, seed_of(seed_, tensors_[tensor].name, 0), values.sigma,
                out.data(), out.size());
  if (values.kind == Values::Kind::norm) {
    for (float& value : out) value += 1;
  }
}

void SyntheticModel::fill(size_t tensor, uint64_t offset, std::span<std::byte> out,
                          uint32_t n_threads) const {
  const gguf::TensorSpec& spec = tensors_.at(tensor);
  const uint64_t total = tensor_bytes(tensor);
  if (offset > total || out.size() > total - offset) {
    fail(ErrorCode::internal, "tensor '{}': {} bytes at {} are beyond its {}", spec.name,
         out.size(), offset, total);
  }
  if (out.empty()) return;
  if (spec.dims.size() == 1) {
    std::vector<float> whole(spec.dims[0]);
    fill_vector(tensor, whole);
    std::memcpy(out.data(), reinterpret_cast<const std::byte*>(whole.data()) + offset, out.size());
    return;
  }
  const auto type = static_cast<ElementType>(spec.type);
  const uint64_t chunk_bytes = row_bytes(type, k_chunk_elems);
  const uint64_t end = offset + out.size();
  const uint64_t first = offset / chunk_bytes;
  const uint64_t last = (end - 1) / chunk_bytes;
  const double sigma = values_[tensor].sigma;
  in_parallel(last - first + 1, n_threads, [&](uint64_t i) {
    const uint64_t begin = (first + i) * chunk_bytes;
    const uint64_t bytes = std::min(chunk_bytes, total - begin);
    const uint64_t elems = bytes / info(type).block_bytes * info(type).block_elems;
    const uint64_t seed = seed_of(seed_, spec.name, first + i);
    if (begin >= offset && begin + bytes <= end) {
      random_values(type, seed, sigma, out.data() + (begin - offset), elems);
      return;
    }
    std::vector<std::byte> whole(bytes);
    random_values(type, seed, sigma, whole.data(), elems);
    const uint64_t from = std::max(begin, offset);
    const uint64_t to = std::min(begin + bytes, end);
    std::memcpy(out.data() + (from - offset), whole.data() + (from - begin), to - from);
  });
}

gguf::File open_synthetic(std::shared_ptr<const SyntheticModel> model, uint32_t n_threads) {
  const std::string name = model->shape().name;
  const SyntheticModel& m = *model;
  return gguf::File::in_memory(
      name, m.metadata(), m.tensors(),
      [model = std::move(model), n_threads](size_t tensor, std::span<std::byte> out) {
        model->fill(tensor, 0, out, n_threads);
      });
}

}  // namespace strata::model
