// Descriptions from the first file of a split model against those of the whole one.
#include "model/header.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "gguf/writer.h"
#include "model/synth.h"

namespace strata::model {
namespace {

namespace fs = std::filesystem;

using test::TemporaryFolder;

// Writes the headers of the model as three files; the first ends before tensor `cut`.
std::string write_split(const TemporaryFolder& folder, const SyntheticModel& model, size_t cut) {
  const std::vector<gguf::TensorSpec>& all = model.tensors();
  const size_t second = cut + (all.size() - cut) / 2;
  const size_t begins[] = {0, cut, second, all.size()};
  for (uint32_t i = 0; i < 3; ++i) {
    gguf::Metadata metadata;
    if (i == 0) metadata = model.metadata();
    metadata.set("split.no", static_cast<uint16_t>(i));
    metadata.set("split.count", uint16_t{3});
    metadata.set("split.tensors.count", static_cast<int32_t>(all.size()));
    const std::string bytes =
        gguf::encode_header(metadata, std::span(all).subspan(begins[i], begins[i + 1] - begins[i]));
    std::ofstream(gguf::split_name(folder.path("m"), i, 3), std::ios::binary) << bytes;
  }
  return gguf::split_name(folder.path("m"), 0, 3);
}

void expect_same(const ModelSpec& got, const ModelSpec& wanted) {
  EXPECT_EQ(got.n_vocab, wanted.n_vocab);
  EXPECT_EQ(got.tied_head, wanted.tied_head);
  EXPECT_EQ(got.ropes[0].factors, wanted.ropes[0].factors);
  ASSERT_EQ(got.weights.size(), wanted.weights.size());
  for (size_t i = 0; i < got.weights.size(); ++i) {
    const device::WeightSpec& a = got.weights[i].spec;
    const device::WeightSpec& b = wanted.weights[i].spec;
    EXPECT_EQ(a.name, b.name);
    EXPECT_EQ(info(a.type).name, info(b.type).name) << a.name;
    EXPECT_EQ(a.dims, b.dims) << a.name;
  }
}

TEST(Header, TheFirstFileOfASetSaysWhatTheOthersHold) {
  // All mixtures where headers are small, the usual one for all kinds of shapes.
  const std::vector<std::string> usual{"q4_k_m"};
  const std::vector<std::string> all{"f16",    "q8_0",   "q4_0",   "q2_k",     "q3_k_m",
                                     "q4_k_m", "q5_k_s", "iq4_xs", "mxfp4_moe"};
  for (const char* shape : {"llama-1b", "mixtral-8x7b", "moe-1.8b", "llama-3.1-70b", "llama-3.2-1b",
                            "qwen2.5-0.5b", "qwen2.5-7b", "qwen3-0.6b"}) {
    const bool small = find_shape(shape).n_vocab < 40000;
    for (const std::string& mixture : small ? all : usual) {
      const auto model =
          std::make_shared<const SyntheticModel>(find_shape(shape), find_mixture(mixture));
      const ModelSpec whole = read_spec(open_synthetic(model));
      const size_t n = model->tensors().size();
      // Nothing but metadata, a tensor, the middle of a layer, nearly all.
      for (const size_t cut : {size_t{0}, size_t{1}, n / 3, n / 2 + 1, n - 1}) {
        SCOPED_TRACE(shape + (" " + mixture) + " " + std::to_string(cut));
        const TemporaryFolder folder;
        const std::string first = write_split(folder, *model, cut);
        const PartialModel complete = open_header(first);
        EXPECT_EQ(complete.derived, 0u);
        EXPECT_EQ(complete.note, "");
        expect_same(complete.spec, whole);
        fs::remove(gguf::split_name(folder.path("m"), 1, 3));
        fs::remove(gguf::split_name(folder.path("m"), 2, 3));
        const PartialModel alone = open_header(first);
        EXPECT_EQ(alone.derived, n - cut);
        EXPECT_NE(alone.note.find("2 of the set's 3 files are not here"), std::string::npos)
            << alone.note;
        EXPECT_EQ(alone.note.find("a little off"), std::string::npos) << alone.note;
        expect_same(alone.spec, whole);
      }
    }
  }
}

TEST(Header, AnyFileWillDoWhereTheFirstIsThere) {
  const auto model =
      std::make_shared<const SyntheticModel>(find_shape("llama-1b"), find_mixture("q4_k_m"));
  const TemporaryFolder folder;
  const std::string first = write_split(folder, *model, 50);
  fs::remove(gguf::split_name(folder.path("m"), 1, 3));
  const PartialModel partial = open_header(gguf::split_name(folder.path("m"), 2, 3));
  EXPECT_EQ(partial.derived, (model->tensors().size() - 50) / 2);
  EXPECT_NE(partial.note.find("1 of the set's 3 files is not here"), std::string::npos);
  expect_same(partial.spec, read_spec(open_synthetic(model)));
  fs::remove(first);
  try {
    open_header(gguf::split_name(folder.path("m"), 2, 3));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::io);
    EXPECT_NE(std::string(error.what()).find("file 1"), std::string::npos) << error.what();
  }
}

// Files whose types no mixture has: those of the layers that are there count.
TEST(Header, TypesOfTheLayersThatAreThere) {
  Mixture pure = find_mixture("q4_k_m");
  pure.pure = true;
  const auto model = std::make_shared<const SyntheticModel>(find_shape("llama-1b"), pure);
  const TemporaryFolder folder;
  const std::string first = write_split(folder, *model, model->tensors().size() / 2);
  fs::remove(gguf::split_name(folder.path("m"), 1, 3));
  fs::remove(gguf::split_name(folder.path("m"), 2, 3));
  const ModelSpec got = open_header(first).spec;
  const ModelSpec whole = read_spec(open_synthetic(model));
  for (size_t i = 0; i < got.weights.size(); ++i) {
    // Of the head no layer tells.
    if (whole.weights[i].tensor == "output.weight") continue;
    EXPECT_EQ(info(got.weights[i].spec.type).name, info(whole.weights[i].spec.type).name)
        << whole.weights[i].tensor;
  }
}

// The set has more tensors than the family knows of: said, not hidden.
TEST(Header, ACountThatDoesNotComeOutIsSaid) {
  const SyntheticModel model(find_shape("llama-1b"), find_mixture("q8_0"));
  gguf::Metadata metadata = model.metadata();
  metadata.set("split.no", uint16_t{0});
  metadata.set("split.count", uint16_t{2});
  metadata.set("split.tensors.count", int32_t{1000});
  const TemporaryFolder folder;
  const std::string first = gguf::split_name(folder.path("m"), 0, 2);
  std::ofstream(first, std::ios::binary) << gguf::encode_header(metadata, {});
  const PartialModel partial = open_header(first);
  EXPECT_EQ(partial.spec.blocks.size(), 22u);
  EXPECT_NE(partial.note.find("the set has 1000"), std::string::npos) << partial.note;
}

TEST(Header, NothingTellsTheTypes) {
  const SyntheticModel model(find_shape("llama-1b"), find_mixture("q8_0"));
  for (const uint32_t file_type : {999u, 4u}) {
    gguf::Metadata metadata = model.metadata();
    metadata.set("general.file_type", file_type);
    metadata.set("split.no", uint16_t{0});
    metadata.set("split.count", uint16_t{2});
    metadata.set("split.tensors.count", static_cast<int32_t>(model.tensors().size()));
    const TemporaryFolder folder;
    const std::string first = gguf::split_name(folder.path("m"), 0, 2);
    std::ofstream(first, std::ios::binary) << gguf::encode_header(metadata, {});
    try {
      open_header(first);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unsupported);
      EXPECT_NE(std::string(error.what()).find("general.file_type is " + std::to_string(file_type)),
                std::string::npos)
          << error.what();
    }
  }
}

// Whatever numbers the metadata claim: a typed error or a description, and bounded.
TEST(Header, HostileMetadata) {
  const SyntheticModel model(find_shape("llama-1b"), find_mixture("q4_k_m"));
  const std::vector<std::pair<const char*, gguf::Value>> changes{
      {"llama.block_count", uint32_t{0}},
      {"llama.block_count", UINT32_MAX},
      {"llama.attention.head_count", uint32_t{0}},
      {"llama.attention.head_count_kv", uint32_t{0}},
      {"llama.attention.head_count_kv", std::string("4")},
      {"llama.embedding_length", uint32_t{1}},
      {"llama.embedding_length", uint32_t{1} << 24},
      {"llama.feed_forward_length", uint32_t{7}},
      {"llama.expert_count", uint32_t{65536}},
      {"general.architecture", std::string("unheard-of")},
      {"general.file_type", std::string("q4_k_m")},
      {"split.tensors.count", UINT64_MAX},
  };
  for (const auto& [key, value] : changes) {
    SCOPED_TRACE(key);
    gguf::Metadata metadata = model.metadata();
    metadata.set("split.no", uint16_t{0});
    metadata.set("split.count", uint16_t{2});
    metadata.set("split.tensors.count", int32_t{1000});
    metadata.set(key, value);
    const TemporaryFolder folder;
    const std::string first = gguf::split_name(folder.path("m"), 0, 2);
    std::ofstream(first, std::ios::binary) << gguf::encode_header(metadata, {});
    try {
      const PartialModel partial = open_header(first);
      EXPECT_LE(partial.spec.weights.size(), 4096u * 16);
    } catch (const Error& error) {
      EXPECT_NE(error.code(), ErrorCode::internal) << error.what();
    }
  }
}

}  // namespace
}  // namespace strata::model
