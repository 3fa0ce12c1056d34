// What plans promise about memory: copies, contexts, refusals.
#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "described.h"
#include "flags.h"
#include "plan/alternatives.h"

namespace strata::plan {
namespace {

Plan plan_of(const model::ModelSpec& spec, const std::vector<std::string>& devices,
             const Request& request) {
  return make(spec, test::described(devices), request);
}

// Promise 2: a further copy is one boundary activation per stage boundary, and nothing else, at
// any context.
TEST(PlanMemory, ThreeMoreCopiesAreThreeBoundaryActivations) {
  const model::ModelSpec spec = test::spec_of("llama-3.1-70b", "q4_k_m");
  const std::vector<std::string> cards{"gpu:96GiB", "gpu:96GiB", "gpu:96GiB"};
  std::vector<uint64_t> computes;
  for (const uint64_t context : {4096u, 131072u}) {
    for (size_t stages = 2; stages <= 3; ++stages) {
      SCOPED_TRACE(testing::Message() << context << " tokens, " << stages << " stages");
      Request request;
      request.n_context = context;
      request.n_ubatch = 512;
      request.shares.assign(stages, 1);
      const std::vector<std::string> devices(cards.begin(), cards.begin() + stages);
      request.copies = 1;
      const Plan one = plan_of(spec, devices, request);
      request.copies = 4;
      const Plan four = plan_of(spec, devices, request);
      EXPECT_EQ(one.pipeline.stages, stages);
      EXPECT_EQ(four.pipeline.copies, 4u);
      // Tokens of a micro-batch, width, bytes of a float.
      const uint64_t activation = 512 * 8192 * 4;
      EXPECT_EQ(four.bytes().total() - one.bytes().total(), (stages - 1) * 3 * activation);
      EXPECT_EQ(four.pipeline.bytes, (stages - 1) * 3 * activation);
      for (size_t d = 0; d < stages; ++d) {
        const DeviceBytes& a = one.devices[d].bytes;
        const DeviceBytes& b = four.devices[d].bytes;
        EXPECT_EQ(b.boundary - a.boundary, (d > 0 ? 3 : 0) * activation);
        EXPECT_EQ(a.total() - a.boundary, b.total() - b.boundary);
        computes.push_back(b.compute());
      }
    }
  }
  // The same at 4 k and at 128 k.
  const size_t half = computes.size() / 2;
  EXPECT_EQ(std::vector(computes.begin(), computes.begin() + half),
            std::vector(computes.begin() + half, computes.end()));
}

// Where all copies do not fit, as many as there is room for; who asks for more is refused.
TEST(PlanMemory, CopiesThatNobodyAskedForGiveWay) {
  const model::ModelSpec spec = test::spec_of("llama-3.1-70b", "q4_k_m");
  Request request;
  request.n_context = 4096;
  request.n_ubatch = 512;
  request.shares = {1, 1};
  request.copies = 1;
  const Plan one = plan_of(spec, {"gpu:96GiB", "gpu:96GiB"}, request);
  const uint64_t activation = 512 * 8192 * 4;
  for (uint32_t copies = 1; copies <= 4; ++copies) {
    SCOPED_TRACE(copies);
    // Exactly room for so many.
    auto devices = test::described({"gpu:96GiB", "gpu:96GiB"});
    for (size_t d = 0; d < 2; ++d) {
      devices[d].info.budget_bytes = devices[d].info.most_bytes =
          one.devices[d].bytes.total() + d * (copies - 1) * activation;
    }
    request.copies.reset();
    const Plan chosen = make(spec, devices, request);
    EXPECT_EQ(chosen.pipeline.copies, std::min(copies, 3u));
    EXPECT_EQ(chosen.pipeline.scarce, copies < 3);
    const std::string text = pipeline_text(chosen, request);
    EXPECT_EQ(text.find("more do not fit") != std::string::npos, copies < 3) << text;
    request.copies = copies + 1;
    EXPECT_THROW(make(spec, devices, request), Refusal);
    // A byte less, and no number of copies fits.
    if (copies > 1) continue;
    request.copies.reset();
    try {
      devices[1].info.budget_bytes -= 1;
      make(spec, devices, request);
      FAIL();
    } catch (const Refusal& refusal) {
      const auto& lacks = refusal.shortfalls();
      ASSERT_EQ(lacks.size(), 2u);
      EXPECT_EQ(lacks[1].needed - lacks[1].budget, 1u);  // of one copy
    }
  }
}

// Not even where the copies are not all that is missing: with one, the first device may be left
// out.
TEST(PlanMemory, WhatFitsWithOneCopyFits) {
  const model::ModelSpec spec = test::spec_of("llama-1b", "q4_k_m");
  Request request;
  request.n_context = 4096;
  size_t fitting = 0, refused = 0;
  for (uint64_t first = 16; first <= 512; first += 16) {
    for (const uint64_t second : {500, 600, 700, 800}) {
      const std::vector<std::string> words{"gpu:" + std::to_string(first) + "MiB",
                                           "gpu:" + std::to_string(second) + "MiB"};
      const auto fits = [&] {
        try {
          plan_of(spec, words, request);
          return true;
        } catch (const Refusal&) {
          return false;
        }
      };
      request.copies.reset();
      const bool chosen = fits();
      request.copies = 1;
      EXPECT_EQ(chosen, fits()) << words[0] << " " << words[1];
      ++(chosen ? fitting : refused);
    }
  }
  EXPECT_GT(fitting, 0u);
  EXPECT_GT(refused, 0u);
}

TEST(PlanMemory, ComputeMemoryIsBoundedAtAnyContext) {
  for (const auto& [shape, limit] : {std::pair{"llama-1b", 40}, {"llama-3.1-70b", 120}}) {
    const model::ModelSpec spec = test::spec_of(shape, "q4_k_m");
    for (const uint64_t context : {4096u, 131072u, 1048576u}) {
      for (const Split split : {Split::none, Split::layer, Split::tensor}) {
        Request request;
        request.n_context = context;
        request.n_ubatch = 512;
        request.copies = 1;
        request.split = split;
        for (const auto& devices :
             {std::vector<std::string>{"gpu:900GiB", "gpu:900GiB"}, {"gpu:900GiB", "cpu:900GiB"}}) {
          for (const DevicePlan& device : plan_of(spec, devices, request).devices) {
            EXPECT_LE(static_cast<double>(device.bytes.compute()) / 1048576, limit)
                << shape << " " << context << " " << device.name;
          }
        }
      }
    }
  }
}

// Each member of a group has its share of the work, not the whole of it.
TEST(PlanMemory, ShardsShareWeightsCacheAndActivations) {
  const model::ModelSpec spec = test::spec_of("llama-3.1-70b", "q4_k_m");
  Request request;
  request.n_context = 8192;
  request.split = Split::none;
  const DeviceBytes whole = plan_of(spec, {"gpu:900GiB"}, request).devices[0].bytes;
  request.split = Split::tensor;
  request.shares = {1, 1, 1, 1};
  const Plan plan =
      plan_of(spec, {"gpu:900GiB", "gpu:900GiB", "gpu:900GiB", "gpu:900GiB"}, request);
  for (const DevicePlan& device : plan.devices) {
    EXPECT_EQ(device.bytes.kv, whole.kv / 4);
    EXPECT_NEAR(static_cast<double>(device.bytes.weights), static_cast<double>(whole.weights) / 4,
                0.01 * static_cast<double>(whole.weights) / 4);
    // The residual stream is everybody's.
    const uint64_t residual = 512 * 8192 * 4;
    EXPECT_LE(device.bytes.activations, (whole.activations - residual) / 4 + 3 * residual);
  }
}

TEST(Refusals, EachSuggestionFits) {
  std::mt19937 random(11);
  const auto pick = [&](auto list) { return *(list.begin() + random() % list.size()); };
  std::vector<model::ModelSpec> specs;
  for (const char* shape : {"llama-1b", "llama-3-8b", "moe-1.8b", "qwen3-30b-a3b"}) {
    specs.push_back(test::spec_of(shape, "q4_k_m"));
  }
  int refused = 0, suggested = 0;
  for (int i = 0; i < 150; ++i) {
    const model::ModelSpec& spec = specs[random() % specs.size()];
    std::vector<std::string> devices;
    const int n = 1 + static_cast<int>(random() % 3);
    for (int d = 0; d < n; ++d) {
      const bool host = d > 0 && d + 1 == n && random() % 2 == 0;
      devices.push_back((host ? "cpu:" : "gpu:") + std::to_string(200 + random() % 8000) +
                        "MiB:" + (host ? "50" : "400") + "GB/s");
    }
    Request request;
    if (random() % 4 > 0)
      request.n_context = pick(std::initializer_list<uint64_t>{512, 8192, 65536});
    request.n_sequences = pick(std::initializer_list<uint32_t>{1, 4});
    request.n_ubatch = pick(std::initializer_list<uint32_t>{64, 512});
    request.split = pick(std::initializer_list<Split>{Split::layer, Split::layer, Split::tensor});
    if (random() % 4 == 0) request.shares.assign(devices.size(), 1);
    if (random() % 4 == 0) request.copies = 4;
    const bool host = devices.back().starts_with("cpu");
    if (host && random() % 3 == 0) request.device_layers = random() % 40;
    try {
      plan_of(spec, devices, request);
      continue;
    } catch (const Refusal& refusal) {
      ++refused;
      EXPECT_LE(refusal.suggestions().size(), 3u);
      ASSERT_EQ(refusal.shortfalls().size(), devices.size());
      bool lacks = false;
      for (const Refusal::Shortfall& s : refusal.shortfalls()) lacks |= s.needed > s.budget;
      EXPECT_TRUE(lacks) << refusal.what();
      for (const std::string& flags : refusal.suggestions()) {
        ++suggested;
        Request changed = request;
        test::apply_flags(flags, changed);
        EXPECT_NO_THROW(plan_of(spec, devices, changed)) << flags << "\n" << refusal.what();
      }
    }
  }
  EXPECT_GT(refused, 20);
  EXPECT_GT(suggested, 20);
}

// Needed is what a device would have to have, to the byte.
TEST(Refusals, ShortfallsAddUp) {
  const model::ModelSpec spec = test::spec_of("llama-3-8b", "q4_k_m");
  for (const size_t n : {1, 2, 3}) {
    Request request;
    request.n_context = 32768;
    request.shares.assign(n, 1);
    // Copies that nobody asked for are not what is short.
    request.copies = 1;
    const Plan wanted = plan_of(spec, std::vector<std::string>(n, "gpu:900GiB"), request);
    request.copies.reset();
    try {
      plan_of(spec, std::vector<std::string>(n, "gpu:2GiB"), request);
      FAIL();
    } catch (const Refusal& refusal) {
      ASSERT_EQ(refusal.shortfalls().size(), n);
      for (size_t d = 0; d < n; ++d) {
        EXPECT_EQ(refusal.shortfalls()[d].needed, wanted.devices[d].bytes.total());
        EXPECT_EQ(refusal.shortfalls()[d].budget, uint64_t{2} << 30);
      }
    }
  }
}

TEST(Refusals, WithoutMainMemoryItIsProposed) {
  const model::ModelSpec spec = test::spec_of("llama-3.1-70b", "q4_k_m");
  try {
    plan_of(spec, {"gpu:24GiB"}, {});
    FAIL();
  } catch (const Refusal& refusal) {
    EXPECT_TRUE(refusal.suggestions().empty());
    EXPECT_NE(std::string(refusal.what()).find("add main memory to -dev"), std::string::npos)
        << refusal.what();
  }
}

// Where no flag that could be added helps, but one that is there is in the way.
TEST(Refusals, SayWhichOptionIsInTheWay) {
  const model::ModelSpec spec = test::spec_of("moe-1.8b", "q4_k_m");
  const auto refusal = [&](const Request& request, std::vector<std::string> devices) {
    try {
      plan_of(spec, devices, request);
    } catch (const Refusal& error) {
      return std::string(error.what());
    }
    return std::string("fits");
  };
  Request request;
  request.n_context = 4096;
  EXPECT_EQ(refusal(request, {"gpu:1GiB", "gpu:1GiB", "cpu:8GiB"}), "fits");
  request.rules = {{".*", "gpu0"}};
  const std::string rules = refusal(request, {"gpu:1GiB", "gpu:1GiB", "cpu:8GiB"});
  EXPECT_NE(rules.find("\nwithout -ot it would fit"), std::string::npos) << rules;
  request.rules.clear();
  request.host_expert_layers = 16;
  const std::string experts = refusal(request, {"gpu:4GiB", "cpu:256MiB"});
  EXPECT_NE(experts.find("\nwithout -ncmoe or -cmoe it would fit"), std::string::npos) << experts;
}

// What is said to be faster is, by as much as it says.
TEST(Alternatives, AreFasterThanThePlan) {
  const model::ModelSpec spec = test::spec_of("llama-3.1-70b", "q4_k_m");
  const std::vector<std::string> words{"gpu:12GiB:360GB/s:35TFLOPS", "gpu:12GiB:360GB/s:35TFLOPS",
                                       "cpu:64GiB:50GB/s"};
  const auto devices = test::described(words);
  const Plan plan = make(spec, devices, {});
  ASSERT_TRUE(plan.context_chosen);
  const auto alternatives = faster_alternatives(spec, devices, {}, plan);
  ASSERT_FALSE(alternatives.empty());
  for (const Alternative& a : alternatives) {
    Request request;
    request.n_context = plan.n_context;
    test::apply_flags(a.flags, request);
    const Plan other = make(spec, devices, request);
    EXPECT_EQ(other.predicted.decode_tokens_per_second, a.predicted.decode_tokens_per_second);
    EXPECT_GT(a.predicted.decode_tokens_per_second, 1.1 * plan.predicted.decode_tokens_per_second);
    size_t halves = 0;
    for (size_t d = 0; d < 2; ++d) {
      halves += other.devices[d].attention_blocks.size() + other.devices[d].ffn_blocks.size();
    }
    EXPECT_EQ(halves, a.card_halves);
    EXPECT_GT(a.card_halves, a.card_halves_now);
  }
  // Nothing to gain where all is on cards, or where the user chose the context.
  const auto large = test::described({"gpu:96GiB:360GB/s", "cpu:64GiB:50GB/s"});
  EXPECT_TRUE(faster_alternatives(spec, large, {}, make(spec, large, {})).empty());
}

}  // namespace
}  // namespace strata::plan
