// Descriptions: words become bytes and speeds by the units they name; what makes no sense is said.
#include "device/description.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "device/registry.h"

namespace strata::device {
namespace {

std::string refusal(std::string_view word) {
  try {
    described_device(word, 0);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::usage) << word;
    return error.what();
  }
  return "";
}

TEST(Description, WordsAreToldFromNames) {
  for (const char* word :
       {"gpu:24GiB", "gpu:24GiB:936GB/s:71TFLOPS", "cpu:64GiB", "cpu:64GiB:50GB/s", "gpu:0.5TiB",
        "gpu0:12G", "rtx-3090:24gib", "gpu:24GiB:nonsense"}) {
    EXPECT_TRUE(is_described(word)) << word;
  }
  for (const char* name : {"", "cpu", "cpu:", ":", "cpu:0", "cpu:0-3", "cpu:0,2", "cpu:numa0",
                           "cpu:1/isa=avx2", "cpu:0-3/threads=2", "vulkan0", "gpu:", "gpu:GiB"}) {
    EXPECT_FALSE(is_described(name)) << name;
  }
}

TEST(Description, SizesAndSpeedsHaveTheirUnits) {
  const Description card = described_device("gpu:24GiB:936GB/s:71TFLOPS", 1);
  EXPECT_FALSE(card.here);
  EXPECT_EQ(card.info.name, "gpu1");
  EXPECT_EQ(card.info.kind, "gpu");
  EXPECT_EQ(card.info.memory_bytes, uint64_t{24} << 30);
  EXPECT_EQ(card.info.budget_bytes, uint64_t{24} << 30);
  EXPECT_EQ(card.info.free_bytes, uint64_t{24} << 30);
  EXPECT_DOUBLE_EQ(card.profile.other_linear.bytes_per_second, 0.75 * 936e9);
  EXPECT_DOUBLE_EQ(card.profile.other_linear.operations_per_second, 0.5 * 71e12);
  EXPECT_TRUE(card.profile.known());
  EXPECT_FALSE(card.profile.measured);

  const auto memory = [](const char* word) { return described_device(word, 0).info.memory_bytes; };
  EXPECT_EQ(memory("gpu:12G"), uint64_t{12} << 30);
  EXPECT_EQ(memory("gpu:512M"), uint64_t{512} << 20);
  EXPECT_EQ(memory("gpu:1.5GiB"), uint64_t{1536} << 20);
  EXPECT_EQ(memory("gpu:16GB"), 16000000000u);
  EXPECT_EQ(memory("gpu:2048KiB"), uint64_t{2} << 20);
  EXPECT_EQ(memory("gpu:2tib"), uint64_t{2} << 40);
  const auto bandwidth = [](const char* word) {
    return described_device(word, 0).profile.other_linear.bytes_per_second / 0.75;
  };
  EXPECT_DOUBLE_EQ(bandwidth("gpu:1GiB:3.35TB/s"), 3.35e12);
  EXPECT_DOUBLE_EQ(bandwidth("gpu:1GiB:500MB/s"), 5e8);
  const auto rate = [](const char* word) {
    return described_device(word, 0).profile.other_linear.operations_per_second / 0.5;
  };
  EXPECT_DOUBLE_EQ(rate("gpu:1GiB:100GB/s:800GFLOPS"), 8e11);
  EXPECT_DOUBLE_EQ(rate("gpu:1GiB:100GB/s:40TOPS"), 4e13);
}

TEST(Description, WhatIsLeftOutIsDerived) {
  const Profile card = described_device("gpu:12GiB", 0).profile;
  EXPECT_DOUBLE_EQ(card.other_linear.bytes_per_second, 0.75 * 400e9);
  EXPECT_DOUBLE_EQ(card.other_linear.operations_per_second, 0.5 * 40 * 400e9);
  const Profile processor = described_device("cpu:64GiB:50GB/s", 0).profile;
  EXPECT_DOUBLE_EQ(processor.other_linear.bytes_per_second, 0.75 * 50e9);
  EXPECT_DOUBLE_EQ(processor.other_linear.operations_per_second, 0.5 * 10 * 50e9);
  EXPECT_LT(described_device("cpu:64GiB", 0).profile.other_linear.bytes_per_second,
            card.other_linear.bytes_per_second);
}

TEST(Description, AKindIsTheNameWithoutItsNumber) {
  const Description numbered = described_device("Vulkan12:8GiB", 3);
  EXPECT_EQ(numbered.info.name, "Vulkan12");
  EXPECT_EQ(numbered.info.kind, "vulkan");
  EXPECT_EQ(described_device("cpu:8GiB", 0).info.name, "cpu0");
  EXPECT_EQ(described_device("cpu:8GiB", 0).info.kind, "cpu");
}

TEST(Description, HostileWordsAreUsageErrorsThatNameThemAndGiveAnExample) {
  const std::string longest(100000, '9');
  for (const std::string& word : {std::string(""),
                                  std::string("gpu"),
                                  std::string("gpu:"),
                                  std::string(":24GiB"),
                                  std::string("gpu:24"),
                                  std::string("gpu:GiB"),
                                  std::string("gpu:-24GiB"),
                                  std::string("gpu:+24GiB"),
                                  std::string("gpu:0GiB"),
                                  std::string("gpu:1.2.3GiB"),
                                  std::string("gpu:.GiB"),
                                  std::string("gpu:nanGiB"),
                                  std::string("gpu:infGiB"),
                                  std::string("gpu:1e3GiB"),
                                  std::string("gpu:0x10GiB"),
                                  std::string("gpu:24GiBs"),
                                  std::string("gpu:24 GiB"),
                                  std::string("gpu:24GB/s"),
                                  "gpu:" + longest + "GiB",
                                  std::string("gpu:99999999TiB"),
                                  "gpu:0." + longest + "KiB",
                                  std::string("gpu:24GiB:"),
                                  std::string("gpu:24GiB:936"),
                                  std::string("gpu:24GiB:936GiB"),
                                  std::string("gpu:24GiB:0GB/s"),
                                  "gpu:24GiB:" + longest + "GB/s",
                                  std::string("gpu:24GiB:936GB/s:"),
                                  std::string("gpu:24GiB:936GB/s:71"),
                                  std::string("gpu:24GiB:936GB/s:0TOPS"),
                                  std::string("gpu:24GiB:936GB/s:71TFLOPS:1"),
                                  std::string("g\x01pu:24GiB"),
                                  std::string("24:24GiB"),
                                  std::string("g pu:24GiB"),
                                  std::string(1000, 'g') + ":24GiB",
                                  std::string("gpu:24GiB\0", 10)}) {
    const std::string message = refusal(word);
    EXPECT_NE(message.find("gpu:24GiB:936GB/s:71TFLOPS"), std::string::npos) << word << message;
    EXPECT_LT(message.size(), 400u);
  }
  EXPECT_NE(refusal("gpu:24GiB:fast").find("'fast'"), std::string::npos);
}

TEST(Description, BytesOfThings) {
  const Description card = described_device("gpu:24GiB", 0);
  // 100 rows of 34 bytes: 3400, up to 3456, and 64.
  EXPECT_EQ(card.weight_bytes({"w", ElementType::q8_0, {32, 100, 1}}), 3520u);
  EXPECT_EQ(card.weight_bytes({"w", ElementType::f32, {16, 1, 1}}), 128u);

  // What it keeps for a program is what a CPU device of one thread keeps.
  Program program;
  program.weights.push_back({"table", ElementType::q8_0, {64, 32, 1}});
  program.weights.push_back({"matrix", ElementType::q8_0, {64, 96, 1}});
  program.values.push_back({"x", 64});
  program.values.push_back({"y", 96});
  program.ops.push_back(Embed{0, 0});
  program.ops.push_back(Linear{0, 1, k_none, 1});
  const auto one = open_device({"cpu", 1, 0});
  const Description here = describe(*one);
  EXPECT_TRUE(here.here);
  EXPECT_FALSE(here.profile.known());
  EXPECT_EQ(here.info.name, "cpu");
  EXPECT_EQ(here.weight_bytes(program.weights[1]), one->weight_bytes(program.weights[1]));
  EXPECT_EQ(here.activation_bytes(program, 32, 16), one->activation_bytes(program, 32, 16));
  EXPECT_EQ(card.activation_bytes(program, 32, 16), one->activation_bytes(program, 32, 16));
  EXPECT_EQ(card.scratch_bytes(program, 32, 16), one->scratch_bytes(program, 32, 16));
  EXPECT_EQ(here.scratch_bytes(program, 32, 16), one->scratch_bytes(program, 32, 16));
}

}  // namespace
}  // namespace strata::device
