// strata synth through the binary: what it writes can be looked into, tokenized and run.
#include <cmath>
#include <cstring>

#include "base/json.h"
#include "gguf/file.h"
#include "model/synth.h"
#include "run_binary.h"

namespace strata::test {
namespace {

std::vector<std::string> tiny(const std::string& path, std::vector<std::string> more = {}) {
  std::vector<std::string> words{"synth",   "--layers", "2",     "--width", "256",
                                 "--heads", "4",        "--ffn", "256",     "--vocab-size",
                                 "600",     "-o",       path};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(Synth, WritesWhatTheLibraryMakes) {
  const TemporaryFolder folder;
  const std::string path = folder.path("a.gguf");
  const RunResult result = run_strata(tiny(path, {"--type", "q4_k_m", "-s", "9", "-t", "2"}));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out, "");
  model::Shape shape;
  shape.name = shape.family = "llama";
  shape.n_layers = 2;
  shape.n_embd = 256;
  shape.n_heads = shape.n_kv_heads = 4;
  shape.head_dim = 64;
  shape.n_ff = 256;
  shape.n_vocab = 600;
  shape.n_context = 32768;
  const model::SyntheticModel model(shape, model::find_mixture("q4_k_m"), 9);
  const gguf::File file = gguf::File::open(path);
  ASSERT_EQ(file.tensors().size(), model.tensors().size());
  for (size_t i = 0; i < file.tensors().size(); ++i) {
    std::vector<std::byte> wanted(model.tensor_bytes(i));
    model.fill(i, 0, wanted);
    const auto data = file.data(file.tensors()[i]);
    ASSERT_EQ(data.size(), wanted.size());
    EXPECT_EQ(std::memcmp(data.data(), wanted.data(), data.size()), 0) << file.tensors()[i].name;
  }
  ASSERT_EQ(file.metadata().entries().size(), model.metadata().entries().size());
  for (const auto& [key, value] : model.metadata().entries()) {
    EXPECT_EQ(*file.metadata().find(key), value) << key;
  }
}

TEST(Synth, TheModelRuns) {
  const TemporaryFolder folder;
  const std::string path = folder.path("a.gguf");
  ASSERT_EQ(run_strata(tiny(path, {"--type", "q8_0"})).status, 0);
  const RunResult inspected = run_strata({"inspect", path, "-o", "json"});
  ASSERT_EQ(inspected.status, 0) << inspected.err;
  EXPECT_NO_THROW(Json::parse(inspected.out));
  // The vocabulary gives any text back, and its chat template renders.
  for (const char* text :
       {"Hello, world 123", "\xE4\xBD\xA0\xE5\xA5\xBD \xF0\x9F\x99\x82\n\ttabs"}) {
    const RunResult run = run_strata({"run", "-m", path, "-p", text, "-n", "1", "--temp", "0"});
    ASSERT_EQ(run.status, 0) << run.err;
    EXPECT_EQ(run.out.find(text), 0u) << run.out;
  }
  RunOptions conversation;
  conversation.input =
      R"({"messages": [{"role": "user", "content": "hi"}], "add_generation_prompt": true})";
  const RunResult chat = run_strata({"template", "-m", path, "--input", "-"}, conversation);
  EXPECT_EQ(chat.status, 0) << chat.err;
  EXPECT_NE(chat.out.find("[user]\nhi</s>\n[assistant]\n"), std::string::npos) << chat.out;
  const std::string ids = folder.write("ids", "1 5 300 77 599 0");
  const RunResult logits =
      run_strata({"logits", "-m", path, "--tokens-file", ids, "-o", folder.path("l")});
  ASSERT_EQ(logits.status, 0) << logits.err;
  const std::string bytes = read_back(folder.path("l"));
  ASSERT_EQ(bytes.size(), 6u * 600 * 4);
  std::vector<float> values(bytes.size() / 4);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  for (const float value : values) {
    ASSERT_TRUE(std::isfinite(value));
    ASSERT_LT(std::fabs(value), 20.0f);
  }
}

TEST(Synth, BorrowsAVocabulary) {
  const TemporaryFolder folder;
  const std::string path = folder.path("a.gguf");
  const std::string lender = source_path("models/demo-q8_0.gguf");
  auto words = tiny(path, {"--vocab", lender});
  std::erase(words, "--vocab-size");
  std::erase(words, "600");
  const RunResult result = run_strata(words);
  ASSERT_EQ(result.status, 0) << result.err;
  const gguf::File file = gguf::File::open(path);
  const gguf::File demo = gguf::File::open(lender);
  EXPECT_EQ(*file.metadata().find("tokenizer.ggml.tokens"),
            *demo.metadata().find("tokenizer.ggml.tokens"));
  EXPECT_EQ(file.find_tensor("token_embd.weight")->dims[1],
            demo.metadata().find_strings("tokenizer.ggml.tokens")->size());
  // Too small a table for it.
  const RunResult small = run_strata(tiny(path, {"--vocab", lender}));
  EXPECT_EQ(small.status, 2) << small.err;
}

TEST(Synth, WrongUsage) {
  const TemporaryFolder folder;
  const std::string path = folder.path("a.gguf");
  const auto error = [](const std::vector<std::string>& words) {
    const RunResult result = run_strata(words);
    EXPECT_EQ(result.status, 2) << result.err;
    return result.err;
  };
  const auto has = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(error({"synth", "--shape", "llama-1b"}), "-o FILE");
  has(error({"synth", "-o", path}), "--shape");
  has(error({"synth", "--shape", "lama-1b", "-o", path}), "llama-1b");
  has(error({"synth", "--shape", "something-else-entirely", "-o", path}), "qwen3-30b-a3b");
  has(error({"synth", "--layers", "2", "-o", path}), "--width");
  has(error(tiny(path, {"--type", "q7"})), "q4_k_m");
  has(error(tiny(path, {"--kv-heads", "3"})), "3 KV heads");
  has(error(tiny(path, {"--family", "bert"})), "qwen3moe");
  has(error(tiny(path, {"--experts", "4"})), "--experts-used");
  has(error(tiny(path, {"--heads", "5"})), "--head-dim");
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace strata::test
