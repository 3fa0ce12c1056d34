// Several devices: stages, lanes and shards give the logits that one device gives.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>

#include "base/error.h"
#include "runtime/run_model.h"
#include "tiny_model.h"

namespace strata {
namespace {

using test::random_tokens;
using test::same_bits;

std::string golden(const std::string& name) {
  return test::shared_path("models/" + name + ".gguf");
}

TEST(Stages, every_cut_gives_the_same_bits) {
  test::TinyShape shape;
  shape.n_layers = 3;
  const test::TemporaryFile file;
  test::tiny_model(shape).write(file.path());
  const auto tokens = random_tokens(150, 267, 3);
  test::RunSetup setup;
  setup.n_ubatch = 48;
  const auto reference = test::all_logits(*test::load_model(file.path(), setup), tokens);
  for (int a = 0; a <= 6; ++a) {
    setup.n_devices = 2;
    setup.shares = {static_cast<double>(a), static_cast<double>(6 - a)};
    EXPECT_TRUE(
        same_bits(test::all_logits(*test::load_model(file.path(), setup), tokens), reference))
        << "cut at half " << a;
    for (int b = a; b <= 6; ++b) {
      setup.n_devices = 3;
      setup.shares = {static_cast<double>(a), static_cast<double>(b - a),
                      static_cast<double>(6 - b)};
      EXPECT_TRUE(
          same_bits(test::all_logits(*test::load_model(file.path(), setup), tokens), reference))
          << "cuts at halves " << a << " and " << b;
    }
  }
}

TEST(Stages, copies_and_micro_batches_change_no_bit) {
  STRATA_NEED_SHARED();
  for (const char* name : {"quant/llama-gqa.Q4_K_S", "mini/qwen3moe", "mini/mixtral"}) {
    const auto tokens = random_tokens(300, 512, 4);
    test::RunSetup setup;
    setup.type_k = setup.type_v = ElementType::f16;
    const auto reference = test::all_logits(*test::load_model(golden(name), setup), tokens);
    setup.n_devices = 2;
    for (const uint32_t copies : {1u, 2u, 3u, 4u}) {
      for (const uint32_t n_ubatch : {32u, 512u}) {
        setup.copies = copies;
        setup.n_ubatch = n_ubatch;
        EXPECT_TRUE(
            same_bits(test::all_logits(*test::load_model(golden(name), setup), tokens), reference))
            << name << ", copies " << copies << ", -ub " << n_ubatch;
      }
    }
  }
}

TEST(Stages, rules_change_no_bit) {
  STRATA_NEED_SHARED();
  const auto tokens = random_tokens(200, 512, 5);
  for (const char* name : {"mini/qwen3moe", "quant/llama-gqa.Q8_0"}) {
    test::RunSetup setup;
    setup.n_ubatch = 64;
    const auto reference = test::all_logits(*test::load_model(golden(name), setup), tokens);
    for (const std::vector<plan::Rule>& rules : {std::vector<plan::Rule>{{"ffn_.*", "d1"}},
                                                 {{"attn_.*", "d2"}, {"token_embd", "d1"}},
                                                 {{"blk\\.0\\.", "d2"}, {"^output", "d0"}}}) {
      setup.n_devices = 3;
      setup.rules = rules;
      setup.shares = {1, 0, 0};
      EXPECT_TRUE(
          same_bits(test::all_logits(*test::load_model(golden(name), setup), tokens), reference))
          << name << " " << rules[0].pattern;
      setup.shares = {1, 1, 1};
      EXPECT_TRUE(
          same_bits(test::all_logits(*test::load_model(golden(name), setup), tokens), reference))
          << name << " " << rules[0].pattern;
    }
  }
}

TEST(Shards, agree_with_one_device) {
  STRATA_NEED_SHARED();
  for (const char* name :
       {"mini/llama-gqa", "mini/mixtral", "mini/qwen2", "mini/qwen3moe", "quant/llama-gqa.Q4_K_S",
        "quant/llama-gqa.Q8_0", "quant/llama-gqa.Q6_K", "quant/llama-gqa.F16"}) {
    const auto tokens = random_tokens(100, 512, 6);
    test::RunSetup setup;
    setup.n_ubatch = 40;
    const auto reference = test::all_logits(*test::load_model(golden(name), setup), tokens);
    setup.split = plan::Split::tensor;
    for (const std::vector<double>& shares :
         {std::vector<double>{1, 1}, {70, 30}, {10, 90}, {1, 1, 1}, {50, 30, 20}, {45, 45, 10}}) {
      setup.n_devices = static_cast<uint32_t>(shares.size());
      setup.shares = shares;
      const auto model = test::load_model(golden(name), setup);
      const auto got = test::all_logits(*model, tokens);
      const double limit = std::string(name).find("mini/") == 0 ? 1e-9 : 3e-4;
      EXPECT_LT(test::normalised_error(got, reference), limit)
          << name << ", " << shares.size() << " devices, " << shares[0];
      EXPECT_TRUE(same_bits(got, test::all_logits(*model, tokens))) << name;
    }
  }
}

TEST(Shards, are_the_same_from_run_to_run) {
  STRATA_NEED_SHARED();
  test::RunSetup setup;
  setup.n_ubatch = 33;
  setup.split = plan::Split::tensor;
  setup.n_devices = 3;
  const auto model = test::load_model(golden("quant/llama-gqa.Q4_K_S"), setup);
  const auto tokens = random_tokens(90, 512, 7);
  const auto first = test::all_logits(*model, tokens);
  for (int run = 1; run < 20; ++run) {
    ASSERT_TRUE(same_bits(first, test::all_logits(*model, tokens))) << "run " << run;
  }
}

// Four devices in groups of two, whatever part of a group each has, agree with one device.
void check_groups(const std::vector<double>& shares,
                  const std::function<void(const runtime::Model& model)>& look) {
  const auto tokens = random_tokens(120, 512, 8);
  for (const char* name : {"mini/llama-gqa", "mini/qwen3moe"}) {
    test::RunSetup setup;
    setup.n_ubatch = 32;
    const auto reference = test::all_logits(*test::load_model(golden(name), setup), tokens);
    setup.split = plan::Split::tensor;
    setup.n_devices = 4;
    setup.tensor_parallel = 2;
    setup.shares = shares;
    const auto model = test::load_model(golden(name), setup);
    EXPECT_EQ(model->plan().pipeline.stages, 2u);
    EXPECT_LT(test::normalised_error(test::all_logits(*model, tokens), reference), 1e-9) << name;
    look(*model);
  }
}

TEST(Shards, in_stages) {
  STRATA_NEED_SHARED();
  check_groups({}, [](const runtime::Model& model) {
    for (const auto& use : model.use()) EXPECT_GT(use.busy_seconds, 0) << use.name;
  });
}

// Who is given no share takes no part, and one device hands on to two: the second gets a copy.
TEST(Shards, groups_of_unequal_size) {
  STRATA_NEED_SHARED();
  check_groups({1, 0, 1, 1}, [](const runtime::Model& model) {
    EXPECT_EQ(model.plan().devices[1].bytes.total(), 0u);
    const auto use = model.use();
    ASSERT_EQ(use.size(), 4u);
    EXPECT_GT(use[0].busy_seconds, 0);
    EXPECT_EQ(use[1].runs, 0u);
    EXPECT_GT(use[3].copy_seconds, 0);
    EXPECT_EQ(use[0].copy_seconds, 0);
  });
}

// Three more copies are three more boundaries, at any context.
TEST(Stages, a_copy_costs_one_boundary) {
  STRATA_NEED_SHARED();
  const model::ModelSpec spec = model::read_spec(gguf::File::open(golden("mini/llama-gqa")));
  test::RunSetup setup;
  setup.n_devices = 3;
  setup.n_ubatch = 256;
  std::vector<device::Description> descriptions;
  const auto devices = test::open_devices(setup, descriptions);
  for (const uint64_t context : {uint64_t{4096}, uint64_t{131072}}) {
    setup.n_context = context;
    setup.shares = {1, 1, 1};
    setup.copies = 1;
    const auto one = plan::make(spec, descriptions, test::request_of(setup)).bytes();
    setup.copies = 4;
    const auto four = plan::make(spec, descriptions, test::request_of(setup)).bytes();
    const uint64_t boundaries = 2;
    EXPECT_EQ(four.compute() - one.compute(), boundaries * 3 * 256 * spec.n_embd * 4);
    EXPECT_EQ(four.weights + four.kv, one.weights + one.kv);
  }
}

}  // namespace
}  // namespace strata
