// Promise 3: logits do not depend on the micro-batch, the threads or the neighbours, bit for bit.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <utility>

#include "base/error.h"
#include "runtime/run_model.h"
#include "tiny_model.h"

namespace strata {
namespace {

using test::random_tokens;
using test::same_bits;

// Models of every family and several element types, or the tiny one where there is no golden data.
std::vector<std::string> model_paths() {
  std::vector<std::string> paths;
  if (!test::have_shared()) return paths;
  for (const char* name :
       {"mini/llama-gqa", "mini/mixtral", "mini/qwen2", "mini/qwen3moe", "quant/llama-gqa.Q8_0",
        "quant/llama-gqa.Q4_K_S", "quant/llama-gqa.Q6_K", "quant/llama-gqa.F16"}) {
    paths.push_back(test::shared_path(std::string("models/") + name + ".gguf"));
  }
  return paths;
}

TEST(SameTokens, any_micro_batch_any_threads) {
  STRATA_NEED_SHARED();
  for (const std::string& path : model_paths()) {
    // Longer than one range of the attention, so that ranges are merged.
    const auto tokens = random_tokens(300, 512, 5);
    test::RunSetup setup;
    setup.type_k = setup.type_v = ElementType::f16;
    const auto reference = test::all_logits(*test::load_model(path, setup), tokens);
    for (const uint32_t n_ubatch : {1u, 7u, 64u, 512u}) {
      for (const uint32_t threads : {1u, 2u, 3u}) {
        if (n_ubatch == 1 && threads != 2) continue;
        setup.n_ubatch = n_ubatch;
        setup.threads = threads;
        EXPECT_TRUE(same_bits(test::all_logits(*test::load_model(path, setup), tokens), reference))
            << path << " -ub " << n_ubatch << " -t " << threads;
      }
    }
  }
}

// Decode and prefill read caches of every type, also mixed, with the same result.
TEST(SameTokens, any_cache) {
  STRATA_NEED_SHARED();
  using enum ElementType;
  const auto tokens = random_tokens(270, 512, 6);
  for (const auto& [type_k, type_v] :
       {std::pair{f32, f32}, {bf16, bf16}, {q8_0, q8_0}, {q4_0, q4_0}, {q8_0, f16}, {f32, q4_0}}) {
    test::RunSetup setup;
    setup.type_k = type_k;
    setup.type_v = type_v;
    const std::string path = test::shared_path("models/quant/llama-gqa.F16.gguf");
    const auto reference = test::all_logits(*test::load_model(path, setup), tokens);
    for (const uint32_t n_ubatch : {1u, 33u}) {
      setup.n_ubatch = n_ubatch;
      setup.threads = 2;
      EXPECT_TRUE(same_bits(test::all_logits(*test::load_model(path, setup), tokens), reference))
          << info(type_k).name << "/" << info(type_v).name << " -ub " << n_ubatch;
    }
  }
}

TEST(SameTokens, alone_or_with_three_others) {
  STRATA_NEED_SHARED();
  for (const std::string& path : model_paths()) {
    test::RunSetup setup;
    setup.threads = 2;
    setup.n_ubatch = 48;
    setup.type_k = setup.type_v = ElementType::f16;
    const auto model = test::load_model(path, setup);
    std::vector<std::vector<int32_t>> prompts;
    std::vector<std::vector<float>> alone;
    for (uint32_t i = 0; i < 4; ++i) {
      prompts.push_back(random_tokens(30 + 17 * i, 512, 10 + i));
      alone.push_back(test::all_logits(*model, prompts.back()));
    }
    // All four prompts in one call, then five decode steps of the four together.
    std::vector<runtime::SequenceId> ids;
    std::vector<std::vector<float>> together(4);
    std::vector<runtime::Chunk> chunks;
    const auto sink = [&](size_t chunk, size_t, std::span<const float> row) {
      together[chunk].insert(together[chunk].end(), row.begin(), row.end());
    };
    for (uint32_t i = 0; i < 4; ++i) {
      ids.push_back(model->create_sequence());
      const auto head = std::span<const int32_t>(prompts[i]).first(prompts[i].size() - 5);
      chunks.push_back({ids[i], head, runtime::Outputs::all});
    }
    model->evaluate(chunks, sink);
    for (size_t step = 5; step > 0; --step) {
      chunks.clear();
      for (uint32_t i = 0; i < 4; ++i) {
        const auto one = std::span<const int32_t>(prompts[i]).subspan(prompts[i].size() - step, 1);
        chunks.push_back({ids[i], one, runtime::Outputs::all});
      }
      model->evaluate(chunks, sink);
    }
    for (uint32_t i = 0; i < 4; ++i) EXPECT_TRUE(same_bits(together[i], alone[i])) << path;
  }
}

TEST(SameTokens, a_fork_goes_its_own_way) {
  const test::TemporaryFile file;
  test::tiny_model().write(file.path());
  const auto model = test::load_model(file.path());
  const auto past = random_tokens(41, 267, 1);
  const auto left = random_tokens(9, 267, 2);
  const auto right = random_tokens(9, 267, 3);
  const auto join = [&](const std::vector<int32_t>& tail) {
    std::vector<int32_t> all = past;
    all.insert(all.end(), tail.begin(), tail.end());
    const auto logits = test::all_logits(*model, all);
    return std::vector<float>(logits.end() - 9 * 267, logits.end());
  };
  const auto a = model->create_sequence();
  const runtime::Chunk first{a, past, runtime::Outputs::none};
  model->evaluate({&first, 1}, [](size_t, size_t, std::span<const float>) {});
  EXPECT_EQ(model->use()[0].copy_seconds, 0.0);
  const auto b = model->fork_sequence(a);
  std::vector<std::vector<float>> out(2);
  const std::vector<runtime::Chunk> both{{a, left, runtime::Outputs::all},
                                         {b, right, runtime::Outputs::all}};
  model->evaluate(both, [&](size_t chunk, size_t, std::span<const float> row) {
    out[chunk].insert(out[chunk].end(), row.begin(), row.end());
  });
  EXPECT_GT(model->use()[0].copy_seconds, 0.0);  // the block that both had begun
  EXPECT_TRUE(same_bits(out[0], join(left)));
  EXPECT_TRUE(same_bits(out[1], join(right)));
}

TEST(Model, a_full_cache_changes_nothing) {
  const test::TemporaryFile file;
  test::tiny_model().write(file.path());
  test::RunSetup setup;
  setup.n_context = 64;
  const auto model = test::load_model(file.path(), setup);
  const auto sequence = model->create_sequence();
  const auto tokens = random_tokens(60, 267, 1);
  const runtime::Chunk chunk{sequence, tokens, runtime::Outputs::none};
  const auto ignore = [](size_t, size_t, std::span<const float>) {};
  model->evaluate({&chunk, 1}, ignore);
  try {
    model->evaluate({&chunk, 1}, ignore);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::does_not_fit);
  }
  EXPECT_EQ(model->length(sequence), 60u);
}

TEST(Model, tokens_outside_the_vocabulary_are_refused) {
  const test::TemporaryFile file;
  test::tiny_model().write(file.path());
  const auto model = test::load_model(file.path());
  for (const int32_t bad : {-1, 267, INT32_MAX}) {
    EXPECT_THROW(test::all_logits(*model, {1, bad}), Error);
  }
  EXPECT_NO_THROW(test::all_logits(*model, {1, 266}));
}

TEST(Model, a_poisoned_weight_is_named) {
  test::TinyModel tiny = test::tiny_model();
  tiny.find("blk.1.ffn_down.weight")->values[17] = std::nanf("");
  const test::TemporaryFile file;
  tiny.write(file.path());
  try {
    test::load_model(file.path());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_file);
    EXPECT_NE(std::string(error.what()).find("blk.1.ffn_down.weight"), std::string::npos);
  }
}

TEST(Model, fused_qkv_computes_what_the_parts_do) {
  const test::TinyModel parts = test::tiny_model();
  test::TinyModel fused = parts;
  for (const char* block : {"blk.0.", "blk.1."}) {
    std::vector<float> all;
    for (const char* part : {"attn_q", "attn_k", "attn_v"}) {
      const std::string name = std::string(block) + part + ".weight";
      const auto& values = fused.find(name)->values;
      all.insert(all.end(), values.begin(), values.end());
      fused.remove(name);
    }
    fused.tensors.push_back({std::string(block) + "attn_qkv.weight", {32, 64}, all});
  }
  const test::TemporaryFile a, b;
  parts.write(a.path());
  fused.write(b.path());
  const auto tokens = random_tokens(20, 267, 4);
  EXPECT_TRUE(same_bits(test::all_logits(*test::load_model(a.path()), tokens),
                        test::all_logits(*test::load_model(b.path()), tokens)));
}

// The device holds exactly what the plan says.
TEST(Model, the_run_is_the_plan) {
  const test::TemporaryFile file;
  test::tiny_model().write(file.path());
  const auto model = test::load_model(file.path());
  EXPECT_EQ(model->device().allocated_bytes(), model->plan().bytes().total());
}

}  // namespace
}  // namespace strata
