// Placement rules: which halves of layers go where.
#include "plan/rules.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "described.h"

namespace strata::plan {
namespace {

const std::vector<device::Description>& two_cards() {
  static const auto devices = test::described({"gpu:24GiB", "gpu:24GiB", "cpu:64GiB"});
  return devices;
}
constexpr uint32_t k_cpu = 2;

// 16 layers of experts.
const model::ModelSpec& mixture() {
  static const model::ModelSpec spec = test::spec_of("moe-1.8b", "q4_k_m");
  return spec;
}

Overrides apply(const std::vector<Rule>& rules, const model::ModelSpec& spec = mixture()) {
  Request request;
  request.rules = rules;
  return apply_rules(spec, two_cards(), request);
}

bool mentions(const std::vector<std::string>& lines, const std::string& part) {
  for (const std::string& line : lines) {
    if (line.find(part) != std::string::npos) return true;
  }
  return false;
}

TEST(Rules, TheFirstThatMatchesCounts) {
  const Overrides out = apply({{R"(blk\.3\.ffn)", "gpu1"}, {"ffn", "cpu"}});
  for (uint32_t half = 0; half < 32; ++half) {
    if (half % 2 == 0) {
      EXPECT_EQ(out.halves[half], std::nullopt) << half;
    } else {
      EXPECT_EQ(out.halves[half], half == 7 ? 1 : k_cpu) << half;
    }
  }
  EXPECT_TRUE(out.warnings.empty());
  // The other way round the second never has its turn.
  const Overrides other = apply({{"ffn", "cpu"}, {R"(blk\.3\.ffn)", "gpu1"}});
  EXPECT_EQ(other.halves[7], k_cpu);
  EXPECT_TRUE(mentions(other.warnings, "matches no tensor"));
}

TEST(Rules, APatternMatchesAnywhereAndWhatItSays) {
  const Overrides out = apply({{R"(blk\.(1|12)\.attn_(q|k|v|output)\.)", "CPU"}});
  for (uint32_t half = 0; half < 32; ++half) {
    EXPECT_EQ(out.halves[half].has_value(), half == 2 || half == 24) << half;
  }
  EXPECT_EQ(out.halves[24], k_cpu);
}

TEST(Rules, AHalfGoesWhereMostOfItsBytesGo) {
  // Gate and up are more than down: down goes along, and that is said.
  const Overrides most = apply({{"ffn_(gate|up)_exps", "cpu"}});
  EXPECT_EQ(most.halves[1], k_cpu);
  EXPECT_TRUE(mentions(most.notes, "goes along with the larger part"));
  EXPECT_TRUE(most.warnings.empty());
  // Up alone is less: it stays, and that is a warning.
  const Overrides least = apply({{"ffn_up_exps", "cpu"}});
  EXPECT_EQ(least.halves[1], std::nullopt);
  EXPECT_TRUE(mentions(least.warnings, "ffn_up_exps"));
}

TEST(Rules, TablesHaveTheirOwnPlace) {
  const Overrides out = apply({{"token_embd", "gpu1"}, {"^output", "gpu0"}});
  EXPECT_EQ(out.embedding, 1u);
  EXPECT_EQ(out.head, 0u);
  // A tied head is the embedding's tensor, and goes where that is sent.
  const model::ModelSpec tied = test::spec_of("qwen3-0.6b", "q8_0");
  for (const char* pattern : {"token_embd", ".*"}) {
    const Overrides sent = apply({{pattern, "gpu1"}}, tied);
    EXPECT_EQ(sent.embedding, 1u);
    EXPECT_EQ(sent.head, 1u);
    EXPECT_TRUE(mentions(sent.notes, "goes along to gpu1"));
  }
  EXPECT_EQ(apply({{"ffn", "gpu1"}}, tied).head, std::nullopt);
}

TEST(Rules, WhatMatchesNothingNamesTheNearest) {
  for (const auto& [pattern, near] : {std::pair{"ffn_dwon_exps", "ffn_down_exps"},
                                      {R"(blk\..*\.attn_outptu)", "attn_output"},
                                      {R"(blk\.[0-7]\.ffn_.*_expz)", "ffn_up_exps"}}) {
    const Overrides out = apply({{pattern, "cpu"}});
    EXPECT_TRUE(mentions(out.warnings, pattern));
    EXPECT_TRUE(mentions(out.warnings, near)) << out.warnings[0];
  }
}

TEST(Rules, ExpertsAreTakenEvenlyOverAllLayers) {
  for (uint32_t n = 0; n <= 20; ++n) {
    Request request;
    request.host_expert_layers = n;
    const Overrides out = apply_rules(mixture(), two_cards(), request);
    std::vector<int> taken;
    for (uint32_t layer = 0; layer < 16; ++layer) {
      EXPECT_FALSE(out.halves[2 * layer].has_value());
      taken.push_back(out.halves[2 * layer + 1] == k_cpu);
    }
    // Any run of layers, as a device has one, gives its part of them, up to one.
    for (uint32_t begin = 0; begin < 16; ++begin) {
      int count = 0;
      for (uint32_t end = begin; end < 16; ++end) {
        count += taken[end];
        const double part = std::min(n, 16u) * (end + 1 - begin) / 16.0;
        EXPECT_LE(std::abs(count - part), 1.0) << n << ": " << begin << " to " << end;
      }
    }
  }
  const model::ModelSpec dense = test::spec_of("llama-1b", "q8_0");
  Request request;
  request.host_expert_layers = 4;
  EXPECT_TRUE(mentions(apply_rules(dense, two_cards(), request).warnings, "no experts"));
}

TEST(Rules, LayersOnTheHost) {
  Request request;
  request.device_layers = 10;
  const Overrides out = apply_rules(mixture(), two_cards(), request);
  for (uint32_t half = 0; half < 32; ++half) {
    EXPECT_EQ(out.halves[half].has_value(), half < 12) << half;
  }
  EXPECT_EQ(out.first_half, 12u);
  EXPECT_EQ(out.head, std::nullopt);
  // A card without layers has no head either; a rule may send it there.
  request.device_layers = 0;
  EXPECT_EQ(apply_rules(mixture(), two_cards(), request).head, k_cpu);
  request.rules = {{"^output", "gpu1"}};
  EXPECT_EQ(apply_rules(mixture(), two_cards(), request).head, 1u);
  request.rules.clear();
  request.device_layers = 99;
  for (const auto& half : apply_rules(mixture(), two_cards(), request).halves) {
    EXPECT_FALSE(half.has_value());
  }
}

TEST(Rules, OneTensorElsewhereIsSaidOfOne) {
  const Overrides one = apply({{R"(blk\.0\.attn_q\.)", "gpu1"}});
  ASSERT_EQ(one.warnings.size(), 1u);
  EXPECT_TRUE(mentions(one.warnings, "blk.0.attn_q.weight is not where its rule says"))
      << one.warnings[0];
  const Overrides three = apply({{R"(blk\.[0-2]\.attn_q\.)", "gpu1"}});
  EXPECT_TRUE(mentions(three.warnings, "parts of 2 more halves of layers are not"))
      << three.warnings[0];
}

TEST(Rules, MainMemoryIsTheLastCpuDevice) {
  auto devices = test::described({"cpu:8GiB", "gpu:24GiB", "cpu:8GiB"});
  devices[0].info.name = "cpu:0";
  devices[2].info.name = "cpu:1";
  EXPECT_EQ(host_of(devices), 2u);
  EXPECT_EQ(device_named(devices, "CPU", "-ot"), 2u);
  EXPECT_EQ(device_named(devices, "cpu:0", "-ot"), 0u);
  EXPECT_EQ(device_named(devices, "GPU1", "-ot"), 1u);
  EXPECT_EQ(host_of(test::described({"gpu:24GiB"})), std::nullopt);
}

void expect_usage(const Request& request, const std::vector<device::Description>& devices,
                  const std::string& part) {
  try {
    apply_rules(mixture(), devices, request);
    FAIL() << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::usage);
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(Rules, Contradictions) {
  Request request;
  request.rules = {{"ffn", "gpu7"}};
  expect_usage(request, two_cards(), "gpu0, gpu1 and cpu");
  request.rules = {{"ffn(", "cpu"}};
  expect_usage(request, two_cards(), "ffn(");
  const auto cards = test::described({"gpu:24GiB", "gpu:24GiB"});
  request.rules = {{"ffn", "cpu"}};
  expect_usage(request, cards, "gpu0 and gpu1");
  request.rules.clear();
  request.host_expert_layers = 4;
  expect_usage(request, cards, "add cpu to -dev");
  request.host_expert_layers.reset();
  request.device_layers = 4;
  expect_usage(request, cards, "add cpu to -dev");
}

}  // namespace
}  // namespace strata::plan
