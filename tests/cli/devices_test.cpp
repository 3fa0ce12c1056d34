// Several devices as users ask for them, through the binary.
#include <sched.h>

#include <set>

#include "base/json.h"
#include "run_binary.h"

namespace strata::test {
namespace {

using Words = std::vector<std::string>;

bool have_two_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 && CPU_ISSET(0, &set) && CPU_ISSET(1, &set);
}

#define STRATA_NEED_TWO_CORES() \
  if (!have_two_cores()) GTEST_SKIP() << "skipped: cores 0 and 1 are not both there"

RunResult generate(const std::string& model, const Words& more, const RunOptions& options = {}) {
  Words words{
      "run",    "-m", source_path("models/" + model), "-p", "The sun rises in the", "-n", "12",
      "--temp", "0"};
  words.insert(words.end(), more.begin(), more.end());
  return run_strata(words, options);
}

constexpr const char* k_dense = "demo-q8_0.gguf";
constexpr const char* k_mixture = "demo-moe-q8_0.gguf";

void expect_said(const RunResult& run, const std::string& part) {
  EXPECT_NE(run.err.find(part), std::string::npos) << "'" << part << "' is not in: " << run.err;
}

TEST(DevicesCommand, TensorParallelAsInTheGuides) {
  STRATA_NEED_TWO_CORES();
  const RunResult one = generate(k_dense, {"-dev", "cpu:0"});
  ASSERT_EQ(one.status, 0) << one.err;
  for (const Words& flags :
       {Words{"-tp", "2", "-ngl", "99", "-c", "8192", "--tensor-split", "50,50"},
        Words{"-tp", "2", "--tensor-split", "70,30"}, Words{"-sm", "tensor"},
        Words{"-tp", "2", "--split-mode", "tensor"}}) {
    Words words{"-dev", "cpu:0,cpu:1", "--audit-memory"};
    words.insert(words.end(), flags.begin(), flags.end());
    const RunResult two = generate(k_dense, words);
    ASSERT_EQ(two.status, 0) << two.err;
    // A trained model is sure enough of these words that the order of a sum does not matter.
    EXPECT_EQ(two.out, one.out) << flags[0] << " " << flags[1];
    expect_said(two, "cpu:0: weights");
    expect_said(two, "cpu:1: weights");
  }
}

TEST(DevicesCommand, StagesGiveTheSameText) {
  STRATA_NEED_TWO_CORES();
  for (const char* model : {k_dense, k_mixture}) {
    const RunResult one = generate(model, {"-dev", "cpu:0"});
    ASSERT_EQ(one.status, 0) << one.err;
    for (const Words& flags :
         {Words{"-sm", "layer"}, Words{"-ts", "70,30"}, Words{"--pipeline-copies", "4"},
          Words{"-ot", "blk\\.[0-9]\\.ffn_.*=cpu:1"}, Words{"-nkvo", "-ts", "1,1"}}) {
      Words words{"-dev", "cpu:0,cpu:1", "--audit-memory"};
      words.insert(words.end(), flags.begin(), flags.end());
      const RunResult two = generate(model, words);
      ASSERT_EQ(two.status, 0) << two.err;
      EXPECT_EQ(two.out, one.out) << model << " " << flags[0] << " " << flags[1];
    }
  }
}

TEST(DevicesCommand, RowIsTensor) {
  STRATA_NEED_TWO_CORES();
  const RunResult run = generate(k_dense, {"-dev", "cpu:0,cpu:1", "--split-mode", "row"});
  ASSERT_EQ(run.status, 0) << run.err;
  expect_said(run, "-sm row is another word for -sm tensor");
}

TEST(DevicesCommand, TwoWordsThatContradictEachOther) {
  const RunResult run =
      generate(k_dense, {"-tp", "3", "--tensor-split", "45,45,10", "--split-mode", "layer"});
  expect_error(run, 2,
               {"-tp 3", "-sm layer", "contradict", "-sm tensor", "whole layers", "names 1 device",
                "needs 3"});
  const RunResult none = generate(k_dense, {"-tp", "2", "-sm", "none"});
  expect_error(none, 2, {"-tp 2", "-sm none", "contradict"});
  // Too few devices for the group.
  const RunResult few = generate(k_dense, {"-tp", "3", "-ts", "45,45,10"});
  EXPECT_EQ(few.status, 2);
  // A group of one is no group.
  EXPECT_EQ(generate(k_dense, {"-tp", "1", "-sm", "layer"}).status, 0);
}

TEST(DevicesCommand, AFlagBeatsTheEnvironmentThatContradictsIt) {
  RunOptions options;
  options.environment["STRATA_SPLIT_MODE"] = "layer";
  const Words words{"run",
                    "-m",
                    test::source_path("models/demo-q8_0.gguf"),
                    "-dev",
                    "cpu:0,cpu:1",
                    "-p",
                    "hi",
                    "-n",
                    "2",
                    "-tp",
                    "2"};
  const RunResult run = run_strata(words, options);
  EXPECT_EQ(run.status, 0) << run.err;
}

TEST(DevicesCommand, ExpertsWhereTheyAreSent) {
  STRATA_NEED_TWO_CORES();
  const RunResult one = generate(k_mixture, {"-dev", "cpu:0"});
  ASSERT_EQ(one.status, 0) << one.err;
  for (const Words& flags :
       {Words{"-ot", "blk\\.[0-9]\\.ffn_.*_exps=cpu:1"}, Words{"--n-cpu-moe", "4"},
        Words{"--cpu-moe"}, Words{"-ot", "ffn_.*_exps=CPU", "-ts", "1,0"}}) {
    Words words{"-dev", "cpu:0,cpu:1", "--audit-memory"};
    words.insert(words.end(), flags.begin(), flags.end());
    const RunResult two = generate(k_mixture, words);
    ASSERT_EQ(two.status, 0) << two.err;
    EXPECT_EQ(two.out, one.out) << flags[0];
    EXPECT_EQ(two.err.find("matches no tensor"), std::string::npos) << two.err;
  }
}

TEST(DevicesCommand, ARuleThatMatchesNothingShowsTheNearestNames) {
  STRATA_NEED_TWO_CORES();
  const RunResult run =
      generate(k_mixture, {"-dev", "cpu:0,cpu:1", "-ot", "blk\\..*\\.fnf_gate_exps=cpu:1"});
  ASSERT_EQ(run.status, 0) << run.err;
  expect_said(run, "matches no tensor");
  expect_said(run, "ffn_gate_exps");
  // What cannot be meant is no warning.
  expect_error(generate(k_dense, {"-ot", "ffn_(=cpu"}), 2, {"-ot", "ffn_("});
  expect_error(generate(k_dense, {"-ot", "ffn_=vulkan7"}), 2, {"vulkan7", "cpu"});
  expect_error(generate(k_dense, {"-ot", "ffn_"}), 2, {"PATTERN=DEVICE"});
}

TEST(DevicesCommand, PipelineCopies) {
  for (const char* count : {"0", "-1", "65", "many"}) {
    const RunResult run = generate(k_dense, {"--pipeline-copies", count});
    expect_error(run, 2, {"--pipeline-copies", count, "1"});
  }
  STRATA_NEED_TWO_CORES();
  RunOptions options;
  options.environment["STRATA_PIPELINE_COPIES"] = "2";
  const RunResult two = generate(k_dense, {"-dev", "cpu:0,cpu:1", "-ts", "1,1"}, options);
  ASSERT_EQ(two.status, 0) << two.err;
  expect_said(two, "copies=2 (asked for)");
  const RunResult flag =
      generate(k_dense, {"-dev", "cpu:0,cpu:1", "-ts", "1,1", "--pipeline-copies", "3"}, options);
  ASSERT_EQ(flag.status, 0) << flag.err;
  expect_said(flag, "copies=3 (asked for)");
  EXPECT_EQ(flag.out, two.out);
  options.environment["STRATA_PIPELINE_COPIES"] = "0";
  expect_error(generate(k_dense, {}, options), 2, {"STRATA_PIPELINE_COPIES", "0"});
}

Json parse(const std::string& text) {
  try {
    return Json::parse(text);
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what() << " in: " << text;
    return {};
  }
}

TEST(DevicesCommand, PlanAsJson) {
  const RunResult run =
      run_strata({"plan", "-m", source_path(std::string("models/") + k_mixture), "-dev",
                  "gpu:1GiB:500GB/s:40TFLOPS,cpu:8GiB:40GB/s", "-o", "json"});
  ASSERT_EQ(run.status, 0) << run.err;
  const Json plan = parse(run.out);
  EXPECT_TRUE(plan.find("fits")->as_bool());
  const auto& devices = plan.find("devices")->as_array();
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0].find("device")->as_string(), "gpu");
  for (const Json& device : devices) {
    int64_t sum = 0;
    for (const char* part : {"weights", "kv", "activations", "boundary", "logits", "scratch"}) {
      sum += device.find(part)->as_int();
    }
    EXPECT_EQ(sum, device.find("total")->as_int());
    EXPECT_LE(sum, device.find("budget")->as_int());
  }
  EXPECT_GT(plan.find("decode_per_second")->as_real(), 0);
  EXPECT_NE(plan.find("flags")->as_string().find("-dev 'gpu:1GiB"), std::string::npos);
}

// The words of a command line whose quotes hold no space.
Words words_of(const std::string& line) {
  Words out;
  std::istringstream in(line);
  for (std::string word; in >> word;) {
    if (word.size() > 1 && word.front() == '\'' && word.back() == '\'') {
      word = word.substr(1, word.size() - 2);
    }
    out.push_back(word);
  }
  return out;
}

TEST(DevicesCommand, PlanThatDoesNotFit) {
  const Words words{"plan", "--shape", "llama-3.1-8b", "--type",          "q4_k_m",
                    "-c",   "131072",  "-dev",         "gpu:8GiB:300GB/s"};
  const RunResult text = run_strata(words);
  EXPECT_EQ(text.status, 3);
  EXPECT_EQ(text.out, "");
  for (const char* part : {"error: the model does not fit", "gpu: ", "GiB short", "would fit"}) {
    expect_said(text, part);
  }
  Words json = words;
  json.insert(json.end(), {"-o", "json"});
  const RunResult refused = run_strata(json);
  EXPECT_EQ(refused.status, 3);
  const Json out = parse(refused.out);
  EXPECT_FALSE(out.find("fits")->as_bool());
  EXPECT_GT(out.find("devices")->as_array()[0].find("short")->as_int(), 0);
  const auto& suggestions = out.find("suggestions")->as_array();
  ASSERT_FALSE(suggestions.empty());
  // Each fits when it is pasted behind the rest.
  for (const Json& suggestion : suggestions) {
    Words again = words;
    for (const std::string& word : words_of(suggestion.as_string())) again.push_back(word);
    const RunResult fits = run_strata(again);
    EXPECT_EQ(fits.status, 0) << suggestion.as_string() << ": " << fits.err;
  }
  // Nor does it run here.
  const RunResult run = generate(k_dense, {"--memory", "cpu=1MiB"});
  EXPECT_EQ(run.status, 3);
  expect_said(run, "does not fit");
  const RunResult described = generate(k_dense, {"-dev", "gpu:8GiB:300GB/s"});
  expect_error(described, 2, {"strata plan", "only described"});
}

TEST(DevicesCommand, TheFlagsOfAPlanGiveItAgain) {
  for (const Words& flags : {Words{"-sm", "layer"}, Words{"-sm", "tensor"},
                             Words{"-tp", "2", "-ts", "70,30"}, Words{"-ngl", "2", "-np", "3"}}) {
    Words words{"plan",
                "-m",
                source_path(std::string("models/") + k_dense),
                "-dev",
                "gpu:1GiB:500GB/s:40TFLOPS,cpu:8GiB:40GB/s",
                "-o",
                "json"};
    words.insert(words.end(), flags.begin(), flags.end());
    const RunResult first = run_strata(words);
    ASSERT_EQ(first.status, 0) << first.err;
    const Json plan = parse(first.out);
    Words again{"plan", "-m", source_path(std::string("models/") + k_dense), "-o", "json"};
    for (const std::string& word : words_of(plan.find("flags")->as_string())) {
      again.push_back(word);
    }
    const RunResult second = run_strata(again);
    ASSERT_EQ(second.status, 0) << second.err;
    const Json other = parse(second.out);
    for (size_t d = 0; d < 2; ++d) {
      for (const char* part : {"weights", "kv", "compute"}) {
        EXPECT_EQ(other.find("devices")->as_array()[d].find(part)->as_int(),
                  plan.find("devices")->as_array()[d].find(part)->as_int())
            << plan.find("flags")->as_string();
      }
    }
  }
}

TEST(DevicesCommand, SpeedsOfDevicesAsAModelUsesThem) {
  RunOptions options;
  const test::TemporaryFolder cache;
  options.environment["XDG_CACHE_HOME"] = cache.path();
  const RunResult none = run_strata({"devices", "-dev", "cpu:0", "--no-measure"}, options);
  EXPECT_EQ(none.status, 0) << none.err;
  const RunResult json =
      run_strata({"devices", "-dev", "cpu:0/isa=generic", "--no-measure", "-o", "json"}, options);
  const Json list = Json::parse(json.out);
  ASSERT_EQ(list.as_array().size(), 1u);
  EXPECT_EQ(list.as_array()[0].find("name")->as_string(), "cpu:0/isa=generic");
  EXPECT_EQ(list.as_array()[0].find("isa")->as_string(), "generic");
  expect_error(run_strata({"devices", "-dev", "gpu:24GiB"}, options), 2, {"only described"});
  expect_error(run_strata({"devices", "-dev", "cpu:0,cpu:0"}, options), 2, {"cpu:0"});
}

TEST(DevicesCommand, AllLayersAsLlamaCppSaysIt) {
  const Words plan{"plan", "--shape", "llama-1b",           "-c",
                   "4096", "-dev",    "gpu:24GiB,cpu:8GiB", "-ngl"};
  const auto layers = [&](const char* n) {
    Words words = plan;
    words.insert(words.end(), {n, "-o", "json"});
    const RunResult run = run_strata(words);
    EXPECT_EQ(run.status, 0) << run.err;
    return Json::parse(run.out).find("devices")->dump();
  };
  EXPECT_EQ(layers("all"), layers("22"));
  EXPECT_NE(layers("all"), layers("21"));
  Words wrong = plan;
  wrong.push_back("al");
  expect_error(run_strata(wrong), 2, {"-ngl al", "or all"});
}

TEST(DevicesCommand, TwoDevicesOfOneName) {
  expect_error(run_strata({"plan", "--shape", "llama-1b", "-dev", "cpu:8GiB,cpu"}), 2,
               {"two devices are called 'cpu'"});
}

TEST(DevicesCommand, BenchTakesTheFlagsOfAPlan) {
  const RunResult bench =
      run_strata({"bench", "-m", test::source_path("models/demo-q8_0.gguf"), "-c", "512", "-b",
                  "2048", "-ub", "512", "-p", "8", "-n", "2", "-r", "1"});
  EXPECT_EQ(bench.status, 0) << bench.err;
}

TEST(DevicesCommand, EachDeviceSaysWhatItsTimeWasSpentOn) {
  STRATA_NEED_TWO_CORES();
  const RunResult run = generate(k_dense, {"-dev", "cpu:0,cpu:1", "--verbose"});
  ASSERT_EQ(run.status, 0) << run.err;
  expect_said(run, "; cpu:0 busy ");  // of a step
  for (const char* device : {"cpu:0", "cpu:1"}) {
    const size_t at = run.err.rfind(std::string(device) + ": busy ");  // of the whole
    ASSERT_NE(at, std::string::npos) << run.err;
    const std::string line = run.err.substr(at, run.err.find('\n', at) - at);
    EXPECT_NE(line.find(", copying "), std::string::npos) << line;
    EXPECT_NE(line.find(", waiting "), std::string::npos) << line;
  }
  const RunResult bench =
      run_strata({"bench", "-m", test::source_path("models/demo-q8_0.gguf"), "-dev", "cpu:0,cpu:1",
                  "-p", "8", "-n", "2", "-r", "1", "-o", "json"});
  ASSERT_EQ(bench.status, 0) << bench.err;
  const Json tests = Json::parse(bench.out);
  for (const Json& test : tests.as_array()) {
    ASSERT_EQ(test.find("device_use")->as_array().size(), 2u);
    for (const Json& use : test.find("device_use")->as_array()) {
      EXPECT_GT(use.find("busy_seconds")->as_real(), 0);
      EXPECT_GE(use.find("copy_seconds")->as_real(), 0);
      EXPECT_GE(use.find("wait_seconds")->as_real(), 0);
    }
  }
}

TEST(DevicesCommand, ATraceThatCannotBeWrittenIsAnError) {
  const RunResult run = run_strata({"run", "-m", test::source_path("models/demo-q8_0.gguf"), "-p",
                                    "hi", "-n", "2", "--trace", "/dev/full"});
  EXPECT_EQ(run.status, 1);
  EXPECT_NE(run.err.find("/dev/full"), std::string::npos) << run.err;
}

TEST(DevicesCommand, TraceHasARowForEachDeviceAndLane) {
  STRATA_NEED_TWO_CORES();
  const TemporaryFolder folder;
  const std::string path = folder.path("trace.json");
  Words words{"-dev", "cpu:0,cpu:1", "-ts", "1,1",     "--pipeline-copies",
              "2",    "-ub",         "8",   "--trace", path};
  const RunResult run = generate(k_dense, words);
  ASSERT_EQ(run.status, 0) << run.err;
  const Json trace = parse(read_back(path));
  const auto& events = trace.find("traceEvents")->as_array();
  std::set<std::string> devices;
  std::set<std::pair<int64_t, int64_t>> rows, used;
  int64_t tokens = 0;
  for (const Json& event : events) {
    const std::string kind = event.find("ph")->as_string();
    if (kind == "M") {
      const Json& args = *event.find("args");
      if (event.find("name")->as_string() == "process_name") {
        devices.insert(args.find("name")->as_string());
      } else {
        rows.emplace(event.find("pid")->as_int(), event.find("tid")->as_int());
      }
      continue;
    }
    ASSERT_EQ(kind, "X");
    EXPECT_GE(event.find("ts")->as_real(), 0);
    EXPECT_GE(event.find("dur")->as_real(), 0);
    used.emplace(event.find("pid")->as_int(), event.find("tid")->as_int());
    if (event.find("cat")->as_string() == "stage" && event.find("pid")->as_int() == 0) {
      tokens += event.find("args")->find("tokens")->as_int();
    }
  }
  EXPECT_EQ(devices, (std::set<std::string>{"cpu:0", "cpu:1"}));
  EXPECT_EQ(rows, used);
  EXPECT_GE(rows.size(), 2u);
  EXPECT_GT(tokens, 12);
  const RunResult bad = generate(k_dense, {"--trace", folder.path("no/such/trace.json")});
  expect_said(bad, "trace");
}

}  // namespace
}  // namespace strata::test
