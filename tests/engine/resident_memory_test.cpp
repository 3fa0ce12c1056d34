// What loading takes of the machine's memory, as the system counts it.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "gguf/writer.h"
#include "model/synth.h"
#include "strata/engine.h"
#include "tiny_model.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STRATA_SHADOW_MEMORY 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define STRATA_SHADOW_MEMORY 1
#endif
#endif

namespace strata::test {
namespace {

constexpr uint64_t k_mib = uint64_t{1} << 20;

// "VmRSS", "VmHWM" of /proc/self/status, in bytes.
uint64_t status(const std::string& key) {
  std::ifstream file("/proc/self/status");
  std::string name;
  while (file >> name) {
    if (name == key + ":") {
      uint64_t kib = 0;
      file >> kib;
      return kib * 1024;
    }
    file.ignore(4096, '\n');
  }
  return 0;
}

// Makes the peak count from now on.
bool reset_peak() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5";
  file.close();
  return file.good();
}

// 150 MB of weights: enough that a second copy of them would show.
std::unique_ptr<TemporaryFile> model_file() {
  model::Shape shape = model::find_shape("llama-1b");
  shape.n_layers = 6;
  const model::SyntheticModel model(shape, model::find_mixture("q4_k_m"));
  auto file = std::make_unique<TemporaryFile>();
  gguf::Writer writer(file->path(), model.metadata(), model.tensors());
  std::vector<std::byte> slab(8 * k_mib);
  for (size_t i = 0; i < model.tensors().size(); ++i) {
    for (uint64_t at = 0; at < model.tensor_bytes(i); at += slab.size()) {
      const auto part =
          std::span(slab).first(std::min<uint64_t>(slab.size(), model.tensor_bytes(i) - at));
      model.fill(i, at, part, 2);
      writer.write(part);
    }
  }
  writer.close();
  return file;
}

class ResidentMemory : public testing::TestWithParam<bool> {};

TEST_P(ResidentMemory, IsTheModelAndItsCacheAndLittleMore) {
#if defined(STRATA_SHADOW_MEMORY)
  GTEST_SKIP() << "skipped: a sanitizer's memory would be counted";
#endif
  const auto file = model_file();
  ::malloc_trim(0);
  const uint64_t before = status("VmRSS");
  ASSERT_GT(before, 0u);
  ASSERT_TRUE(reset_peak());
  EngineOptions options;
  options.model = file->path();
  options.n_context = 2048;
  options.n_ubatch = 64;
  options.mmap = GetParam();
  const auto engine = Engine::open(options);
  const uint64_t after = status("VmRSS");
  const uint64_t peak = status("VmHWM");
  const MemoryUse use = engine->memory().front();
  ASSERT_GT(use.weights, 150 * 1000 * 1000u);
  const uint64_t allowed = (use.weights + use.kv_cache) * 105 / 100 + 50 * k_mib;
  EXPECT_LE(after - before, allowed) << "weights " << use.weights << ", cache " << use.kv_cache;
  EXPECT_LE(peak - before, allowed + 512 * k_mib);
  // Pieces of 64 MiB are read at a time: nothing like a second copy.
  EXPECT_LE(peak - before, use.total() + 100 * k_mib);
}

INSTANTIATE_TEST_SUITE_P(Ways, ResidentMemory, testing::Bool(), [](const auto& test) {
  return std::string(test.param ? "mapped" : "read");
});

}  // namespace
}  // namespace strata::test
