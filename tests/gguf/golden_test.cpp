// Files written by another engine: they open, and written again they are the same bytes.
#include <filesystem>
#include <set>

#include "gguf/file.h"
#include "gguf/writer.h"
#include "support.h"

namespace strata::gguf {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> golden_files() {
  std::vector<std::string> out;
  for (const char* folder : {"models", "tokenizers"}) {
    for (const auto& entry : fs::recursive_directory_iterator(test::shared_path(folder))) {
      if (entry.path().extension() == ".gguf") out.push_back(entry.path().string());
    }
  }
  return out;
}

TEST(Golden, WrittenAgainIsTheSameBytes) {
  STRATA_NEED_SHARED();
  const std::string copy = testing::TempDir() + "strata_gguf_copy.gguf";
  const auto paths = golden_files();
  EXPECT_GE(paths.size(), 30u);
  for (const std::string& path : paths) {
    SCOPED_TRACE(path);
    const File file = File::open(path);
    EXPECT_EQ(file.shards()[0].header.version, 3u);
    EXPECT_EQ(file.total_bytes(), fs::file_size(path));
    std::vector<TensorSpec> specs;
    for (const TensorInfo& tensor : file.tensors()) {
      specs.push_back(
          {tensor.name, {tensor.dims.begin(), tensor.dims.begin() + tensor.n_dims}, tensor.type});
    }
    Writer writer(copy, file.metadata(), specs);
    for (size_t i = 0; i < file.tensors().size(); ++i) {
      const auto data = file.data(file.tensors()[i]);
      ASSERT_EQ(data.size(), writer.tensor_bytes(i));
      // In two pieces: the size of pieces must not matter.
      writer.write(data.first(data.size() / 3));
      writer.write(data.subspan(data.size() / 3));
    }
    writer.close();
    std::string expected = read_file(path);
    if (specs.empty()) {
      // Some writers pad the metadata even where no data follow.
      const uint64_t end = file.shards()[0].header.data_offset;
      ASSERT_LT(expected.size() - end, 32u);
      EXPECT_EQ(expected.find_first_not_of('\0', end), std::string::npos);
      expected.resize(end);
    }
    EXPECT_TRUE(read_file(copy) == expected);
    fs::remove(copy);
  }
}

// What the README of the golden models says of them.
TEST(Golden, StoriesModelHasTheShapesOfItsReadme) {
  STRATA_NEED_SHARED();
  const File file = File::open(test::shared_path("models/stories260K-f32.gguf"));
  const Metadata& metadata = file.metadata();
  EXPECT_EQ(metadata.get_string("general.architecture"), "llama");
  EXPECT_EQ(metadata.get_uint("llama.block_count"), 5u);
  EXPECT_EQ(metadata.get_uint("llama.embedding_length"), 64u);
  EXPECT_EQ(metadata.get_uint("llama.attention.head_count"), 8u);
  EXPECT_EQ(metadata.get_uint("llama.attention.head_count_kv"), 4u);
  EXPECT_EQ(metadata.get_uint("llama.feed_forward_length"), 172u);
  ASSERT_NE(metadata.find_strings("tokenizer.ggml.tokens"), nullptr);
  EXPECT_EQ(metadata.find_strings("tokenizer.ggml.tokens")->size(), 512u);
  const TensorInfo* embedding = file.find_tensor("token_embd.weight");
  ASSERT_NE(embedding, nullptr);
  EXPECT_EQ(embedding->n_dims, 2u);
  EXPECT_EQ(embedding->dims, (std::array<uint64_t, 4>{64, 512, 1, 1}));
  EXPECT_EQ(embedding->type, 0u);
  EXPECT_EQ(embedding->bytes, 64u * 512 * 4);
  EXPECT_EQ(file.data(*embedding).size(), embedding->bytes);
  EXPECT_EQ(file.find_tensor("no_such_tensor"), nullptr);
}

}  // namespace
}  // namespace strata::gguf
