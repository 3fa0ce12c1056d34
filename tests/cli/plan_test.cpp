// strata plan as a user sees it: flags that give the plan again, headers, refusals.
#include <gtest/gtest.h>

#include <fstream>

#include "base/json.h"
#include "gguf/writer.h"
#include "model/synth.h"
#include "run_binary.h"

namespace strata::test {
namespace {

constexpr const char* k_cards =
    "gpu:12GiB:360GB/s:35TFLOPS,gpu:12GiB:360GB/s:35TFLOPS,cpu:64GiB:50GB/s";

const Json& at(const Json& object, const char* key) {
  static const Json none;
  const Json* found = object.find(key);
  EXPECT_NE(found, nullptr) << key;
  return found == nullptr ? none : *found;
}

// Through a shell, as somebody would paste it.
RunResult paste(const std::string& line) {
  return run_program({"/bin/sh", "-c", std::string(STRATA_BINARY) + " plan " + line});
}

TEST(PlanVerb, ItsFlagsGiveThePlanAgain) {
  const std::string cards = " -dev '" + std::string(k_cards) + "'";
  for (const std::string& line : {
           "--shape llama-3.1-70b" + cards,
           "--shape llama-3.1-70b -c 8192 -np 4" + cards,
           "--shape llama-3.1-70b -ngl 20 -c 4096" + cards,
           "--shape llama-3-8b -sm tensor -c 4096" + cards,
           "--shape llama-3-8b -sm none -mg 1" + cards,
           "--shape llama-3-8b -nkvo -ctk q8_0 -ctv q8_0 -ub 128" + cards,
           "--shape llama-3-8b -ts 3,1,0 --pipeline-copies 2" + cards,
           "--shape qwen3-30b-a3b" + cards,
           "--shape mixtral-8x7b -ncmoe 16" + cards,
           "--shape mixtral-8x7b" + cards,
           "--shape mixtral-8x7b -cmoe" + cards,
           "--shape moe-1.8b -ot 'blk\\.[0-9]\\.ffn_.*_exps=cpu' -ot \"it's=gpu0\"" + cards,
           "--shape llama-1b --memory 'gpu0=1GiB,gpu1=2GiB'" + cards,
           std::string("--shape llama-1b -tp 2 -dev "
                       "'gpu:8GiB:400GB/s,gpu:8GiB:200GB/s,gpu:8GiB:300GB/s,gpu:8GiB:100GB/s'"),
           std::string("--shape llama-1b -c 512 -dev cpu:0,cpu:1/isa=generic"),
       }) {
    SCOPED_TRACE(line);
    const std::string shape = line.substr(0, line.find(' ', line.find(' ') + 1));
    const RunResult first = paste(line + " -o json");
    ASSERT_EQ(first.status, 0) << first.err;
    const Json plan = Json::parse(first.out);
    const std::string flags = at(plan, "flags").as_string();
    const RunResult second = paste(shape + " " + flags + " -o json");
    ASSERT_EQ(second.status, 0) << flags << "\n" << second.err;
    const Json again = Json::parse(second.out);
    for (const char* key : {"context", "n_ubatch", "n_batch", "split"}) {
      EXPECT_EQ(at(plan, key).dump(), at(again, key).dump()) << key << ": " << flags;
    }
    for (const char* key : {"stages", "copies", "extra_bytes"}) {
      EXPECT_EQ(at(at(plan, "pipeline"), key).dump(), at(at(again, "pipeline"), key).dump()) << key;
    }
    const Json::Array& devices = at(plan, "devices").as_array();
    const Json::Array& others = at(again, "devices").as_array();
    ASSERT_EQ(devices.size(), others.size());
    // All but the time that was measured, which may come and go.
    for (size_t d = 0; d < devices.size(); ++d) {
      for (const auto& [key, value] : devices[d].as_object()) {
        if (key.ends_with("_seconds")) continue;
        // Flags have six digits of a share.
        if (key == "share") {
          EXPECT_NEAR(value.as_real(), at(others[d], "share").as_real(), 1e-6) << flags;
          continue;
        }
        EXPECT_EQ(value.dump(), at(others[d], key.c_str()).dump())
            << at(devices[d], "device").as_string() << ", " << key << ": " << flags;
      }
    }
    EXPECT_EQ(at(again, "flags").as_string(), flags);
  }
}

TEST(PlanVerb, TheTableSaysHowFullEachDeviceIs) {
  const RunResult result = paste("--shape llama-3.1-70b -dev '" + std::string(k_cards) + "'");
  ASSERT_EQ(result.status, 0) << result.err;
  for (const char* part :
       {"reserved", "free", "full", "491.5 MiB", "12.00 GiB", "faster    -c 8192",
        "layers on the cards", "again     -dev 'gpu:12GiB"}) {
    EXPECT_NE(result.out.find(part), std::string::npos) << part << "\n" << result.out;
  }
}

TEST(PlanVerb, SuggestionsCanBePasted) {
  const std::string line =
      "--shape llama-3-8b -c 8192 -dev 'gpu:5GiB:360GB/s,gpu:1GiB:360GB/s' -o json ";
  const RunResult refused = paste(line);
  ASSERT_EQ(refused.status, 3) << refused.err;
  const Json answer = Json::parse(refused.out);
  EXPECT_FALSE(at(answer, "fits").as_bool());
  const Json::Array& suggestions = at(answer, "suggestions").as_array();
  ASSERT_FALSE(suggestions.empty()) << refused.out;
  for (const Json& suggestion : suggestions) {
    const std::string& flags = suggestion.as_string();
    EXPECT_EQ(paste(line + flags).status, 0) << flags;
    // In text, each on a line of its own.
    const RunResult text = paste(line + "-o text");
    EXPECT_NE(text.err.find("\n  " + flags + "\n"), std::string::npos) << text.err;
  }
}

// The plan of a model of which only the first file is here is that of the whole.
TEST(PlanVerb, HeadersAndFirstFiles) {
  const model::SyntheticModel model(model::find_shape("llama-1b"), model::find_mixture("q4_k_m"));
  const auto& tensors = model.tensors();
  const TemporaryFolder folder;
  const size_t cut = tensors.size() / 3;
  const size_t begins[] = {0, cut, 2 * cut, tensors.size()};
  for (uint32_t i = 0; i < 3; ++i) {
    gguf::Metadata metadata;
    if (i == 0) metadata = model.metadata();
    metadata.set("split.no", static_cast<uint16_t>(i));
    metadata.set("split.count", uint16_t{3});
    metadata.set("split.tensors.count", static_cast<int32_t>(tensors.size()));
    const auto part = std::span(tensors).subspan(begins[i], begins[i + 1] - begins[i]);
    folder.write(gguf::split_name("m", i, 3), gguf::encode_header(metadata, part));
  }
  folder.write("whole.gguf", gguf::encode_header(model.metadata(), tensors));
  const std::string options = " -dev 'gpu:1GiB:300GB/s,cpu:4GiB:50GB/s' -o json";
  const RunResult whole = paste("-m " + folder.path("whole.gguf") + options);
  ASSERT_EQ(whole.status, 0) << whole.err;
  const Json wanted = Json::parse(whole.out);
  const std::string first = folder.path(gguf::split_name("m", 0, 3));
  const auto expect_same = [&](bool derived) {
    const RunResult result = paste("-m " + first + options);
    ASSERT_EQ(result.status, 0) << result.err;
    const Json got = Json::parse(result.out);
    EXPECT_EQ(at(got, "devices").dump(2), at(wanted, "devices").dump(2));
    EXPECT_EQ(at(got, "flags").as_string(), at(wanted, "flags").as_string());
    const std::string said = std::to_string(tensors.size() - cut) + " tensors were derived";
    EXPECT_EQ(result.out.find(said) != std::string::npos, derived) << result.out;
  };
  expect_same(false);
  std::filesystem::remove(folder.path(gguf::split_name("m", 1, 3)));
  std::filesystem::remove(folder.path(gguf::split_name("m", 2, 3)));
  expect_same(true);
  // To run it takes all of them, with their data.
  const RunResult run = run_strata({"run", "-m", first, "-p", "x"});
  EXPECT_EQ(run.status, 1);
  EXPECT_NE(run.err.find(first), std::string::npos) << run.err;
}

}  // namespace
}  // namespace strata::test
