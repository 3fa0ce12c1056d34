// Shapes against the published parameter counts, mixtures against the tensor counts that
// llama.cpp's loader prints for downloaded files, and synthetic models as files.
#include "model/synth.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "base/error.h"
#include "model/spec.h"

namespace strata::model {
namespace {

// As counted in the checkpoints that their authors published.
TEST(Shapes, HaveThePublishedNumberOfParameters) {
  const std::map<std::string, uint64_t> published{
      {"llama-1b", 1100048384},         {"llama-2-7b", 6738415616},
      {"llama-2-13b", 13015864320},     {"llama-2-70b", 68976648192},
      {"llama-3-8b", 8030261248},       {"llama-3.1-70b", 70553706496},
      {"llama-3.1-405b", 405853388800}, {"llama-3.2-1b", 1235814400},
      {"llama-3.2-3b", 3212749824},     {"mistral-7b", 7248023552},
      {"mixtral-8x7b", 46702792704},    {"qwen2.5-0.5b", 494032768},
      {"qwen2.5-1.5b", 1543714304},     {"qwen2.5-7b", 7615616512},
      {"qwen2.5-32b", 32763876352},     {"qwen3-0.6b", 596049920},
      {"qwen3-8b", 8190735360},         {"qwen3-32b", 32762123264},
      {"qwen3-30b-a3b", 30532122624},
  };
  for (const auto& [name, count] : published) {
    EXPECT_EQ(parameters(find_shape(name)), count) << name;
  }
}

TEST(Shapes, TheDescriptionOfEachIsRead) {
  for (const Shape& shape : shapes()) {
    const auto model = std::make_shared<const SyntheticModel>(shape, find_mixture("q4_k_m"));
    const ModelSpec spec = read_spec(open_synthetic(model));
    EXPECT_EQ(spec.blocks.size(), shape.n_layers);
    EXPECT_TRUE(spec.unused_tensors.empty()) << shape.name;
    EXPECT_EQ(spec.tied_head, shape.tied_head);
    // rope_freqs are no parameters.
    const uint64_t factors = shape.rope_factor > 0 ? shape.head_dim / 2 : 0;
    EXPECT_EQ(spec.parameters() - factors, parameters(shape)) << shape.name;
  }
}

std::map<std::string, int> type_counts(const char* shape, const char* mixture) {
  std::map<std::string, int> counts;
  const SyntheticModel model(find_shape(shape), find_mixture(mixture));
  for (const gguf::TensorSpec& tensor : model.tensors()) {
    ++counts[std::string(find_type(tensor.type)->name)];
  }
  return counts;
}

using Counts = std::map<std::string, int>;

TEST(Mixtures, HaveTheTensorCountsOfDownloadedFiles) {
  EXPECT_EQ(type_counts("llama-1b", "q4_k_m"), (Counts{{"f32", 45}, {"q4_k", 135}, {"q6_k", 21}}));
  EXPECT_EQ(type_counts("llama-2-7b", "q4_0"), (Counts{{"f32", 65}, {"q4_0", 225}, {"q6_k", 1}}));
  EXPECT_EQ(type_counts("llama-2-7b", "q8_0"), (Counts{{"f32", 65}, {"q8_0", 226}}));
  EXPECT_EQ(type_counts("llama-3-8b", "q2_k"),
            (Counts{{"f32", 65}, {"q2_k", 129}, {"q3_k", 64}, {"q4_k", 32}, {"q6_k", 1}}));
  EXPECT_EQ(type_counts("llama-2-7b", "q3_k_m"),
            (Counts{{"f32", 65}, {"q3_k", 129}, {"q4_k", 92}, {"q5_k", 4}, {"q6_k", 1}}));
  EXPECT_EQ(type_counts("llama-2-7b", "q3_k_l"),
            (Counts{{"f32", 65}, {"q3_k", 129}, {"q5_k", 96}, {"q6_k", 1}}));
  EXPECT_EQ(type_counts("llama-2-7b", "q4_k_s"),
            (Counts{{"f32", 65}, {"q4_k", 217}, {"q5_k", 8}, {"q6_k", 1}}));
  EXPECT_EQ(type_counts("llama-2-7b", "q5_k_m"),
            (Counts{{"f32", 65}, {"q5_k", 193}, {"q6_k", 33}}));
  EXPECT_EQ(type_counts("llama-2-7b", "f16"), (Counts{{"f32", 65}, {"f16", 226}}));
  EXPECT_EQ(type_counts("llama-3-8b", "q4_k_m"),
            (Counts{{"f32", 65}, {"q4_k", 193}, {"q6_k", 33}}));
  EXPECT_EQ(type_counts("qwen3-30b-a3b", "q4_k_m"),
            (Counts{{"f32", 241}, {"q4_k", 289}, {"q6_k", 49}}));
}

// 896 is no multiple of 256: rows of that width take types with blocks of 32.
TEST(Mixtures, RowsThatDoNotFitTakeTheNearestType) {
  const Counts counts = type_counts("qwen2.5-0.5b", "q4_k_m");
  EXPECT_EQ(counts.count("q5_0"), 1u);
  EXPECT_EQ(counts.at("q8_0"), 13);  // the tied table and the favoured attn_v of 12 layers
  EXPECT_EQ(counts.at("q4_k") + counts.at("q6_k"), 24);  // ffn_down, with rows of 4864
  Shape shape = find_shape("llama-1b");
  shape.n_ff = 100;
  EXPECT_EQ(type_in(find_mixture("q4_0"), shape, Part::down, 0, 100), ElementType::f16);
}

TEST(Mixtures, Names) {
  EXPECT_EQ(find_mixture("Q4_K").name, "q4_k_m");
  EXPECT_EQ(find_mixture("Q6_K").name, "q6_k");
  try {
    find_mixture("q9_k");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::usage);
    EXPECT_NE(std::string(error.what()).find("q4_k_m"), std::string::npos) << error.what();
  }
}

TEST(Mixtures, PureIsOneType) {
  Mixture mixture = find_mixture("q4_k_m");
  mixture.pure = true;
  const SyntheticModel model(find_shape("moe-1.8b"), mixture);
  for (const gguf::TensorSpec& tensor : model.tensors()) {
    if (tensor.dims.size() == 1 || tensor.name.find("ffn_gate_inp") != std::string::npos) continue;
    EXPECT_EQ(tensor.type, static_cast<uint32_t>(ElementType::q4_k)) << tensor.name;
  }
}

Shape small_shape() {
  Shape shape = find_shape("llama-1b");
  shape.n_layers = 2;
  shape.n_embd = 512;
  shape.n_heads = 8;
  shape.n_ff = 1024;
  shape.n_vocab = 1500;
  return shape;
}

TEST(Synthetic, TheSameBytesInAnyPiecesAndThreads) {
  const SyntheticModel model(small_shape(), find_mixture("q4_k_m"), 5);
  const SyntheticModel other(small_shape(), find_mixture("q4_k_m"), 6);
  for (size_t i = 0; i < model.tensors().size(); ++i) {
    const uint64_t bytes = model.tensor_bytes(i);
    std::vector<std::byte> whole(bytes), pieces(bytes), another(bytes);
    model.fill(i, 0, whole, 3);
    for (uint64_t at = 0; at < bytes; at += 100003) {
      model.fill(i, at, std::span(pieces).subspan(at, std::min<uint64_t>(100003, bytes - at)));
    }
    other.fill(i, 0, another);
    EXPECT_TRUE(whole == pieces) << model.tensors()[i].name;
    EXPECT_FALSE(whole == another) << model.tensors()[i].name;
    EXPECT_THROW(model.fill(i, 1, whole), Error);
  }
}

TEST(Synthetic, AFileInMemoryMakesItsDataWhenAskedFor) {
  const auto model = std::make_shared<const SyntheticModel>(small_shape(), find_mixture("q8_0"), 1);
  const gguf::File file = open_synthetic(model, 2);
  EXPECT_TRUE(file.made());
  for (size_t i = 0; i < file.tensors().size(); ++i) {
    const gguf::TensorInfo& tensor = file.tensors()[i];
    ASSERT_EQ(tensor.bytes, model->tensor_bytes(i));
    std::vector<std::byte> wanted(tensor.bytes);
    model->fill(i, 0, wanted);
    const auto data = file.data(tensor);
    ASSERT_EQ(data.size(), wanted.size());
    EXPECT_EQ(std::memcmp(data.data(), wanted.data(), wanted.size()), 0) << tensor.name;
    EXPECT_EQ(file.data(tensor).data(), data.data());
    file.release(tensor);
    EXPECT_EQ(std::memcmp(file.data(tensor).data(), wanted.data(), wanted.size()), 0);
  }
  // A header alone: enough to plan with.
  const gguf::File header = gguf::File::in_memory("a", model->metadata(), model->tensors());
  EXPECT_TRUE(header.data(header.tensors()[0]).empty());
  EXPECT_EQ(read_spec(header).blocks.size(), 2u);
  EXPECT_EQ(header.total_bytes(), file.total_bytes());
}

// The factors that Meta's code gives for Llama 3.1: short waves are kept, the longest are stretched
// eightfold.
TEST(Synthetic, RopeFactors) {
  const SyntheticModel model(find_shape("llama-3.1-8b"), find_mixture("q4_k_m"));
  size_t at = 0;
  while (model.tensors()[at].name != "rope_freqs.weight") ++at;
  std::vector<float> factors(64);
  ASSERT_EQ(model.tensor_bytes(at), 256u);
  model.fill(at, 0, std::as_writable_bytes(std::span(factors)));
  EXPECT_EQ(factors[0], 1.0f);
  EXPECT_EQ(factors[28], 1.0f);  // wave 2 pi 500000^(28/64) = 1956, shorter than 2048
  EXPECT_GT(factors[29], 1.0f);  // 2400
  EXPECT_LT(factors[34], 8.0f);  // 6697
  EXPECT_EQ(factors[35], 8.0f);  // 8222, longer than 8192
  EXPECT_EQ(factors[63], 8.0f);
}

TEST(Synthetic, ShapesThatAreNoModel) {
  const auto reason = [](auto change) -> std::string {
    Shape shape = small_shape();
    change(shape);
    try {
      const SyntheticModel model(shape, find_mixture("f16"));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::usage);
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(reason([](Shape&) {}), "");
  EXPECT_NE(reason([](Shape& s) { s.family = "gpt"; }).find("gpt"), std::string::npos);
  EXPECT_NE(reason([](Shape& s) { s.n_kv_heads = 3; }).find("3"), std::string::npos);
  EXPECT_NE(reason([](Shape& s) { s.head_dim = 63; }).find("odd"), std::string::npos);
  EXPECT_NE(reason([](Shape& s) { s.family = "qwen3moe"; }).find("experts"), std::string::npos);
  EXPECT_NE(reason([](Shape& s) { s.n_experts = 4; }).find("used"), std::string::npos);
  EXPECT_NE(reason([](Shape& s) { s.n_vocab = 100; }).find("259"), std::string::npos);
  EXPECT_THROW(find_shape("llama-9b"), Error);
}

}  // namespace
}  // namespace strata::model
