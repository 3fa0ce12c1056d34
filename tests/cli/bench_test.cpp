// strata bench through the binary, and its sums.
#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "run_binary.h"
#include "strata/bench_report.h"
#include "strata/options.h"

namespace strata::test {
namespace {

std::vector<std::string> tiny_bench(std::vector<std::string> more) {
  std::vector<std::string> words{"bench", "--layers",     "2",   "--width", "64", "--heads",
                                 "4",     "--vocab-size", "300", "--ffn",   "96", "--type",
                                 "q8_0",  "-t",           "1",   "-r",      "2"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::vector<std::string> lines(const std::string& text) { return app::split_words(text, '\n'); }

TEST(Bench, JsonOfAShapeWithoutAFile) {
  const RunResult run = run_strata(tiny_bench(
      {"-p", "40,8", "-n", "3", "-d", "0,33", "-npl", "1,4", "-ub", "16", "-o", "json"}));
  ASSERT_EQ(run.status, 0) << run.err;
  const Json list = Json::parse(run.out);
  // Two prompts and two numbers of sequences at two depths.
  ASSERT_EQ(list.as_array().size(), 8u);
  const char* tests[] = {"pp40", "pp8", "tg3", "tg3"};
  const int64_t sequences[] = {1, 1, 1, 4};
  for (size_t i = 0; i < 8; ++i) {
    const Json& one = list.as_array()[i];
    EXPECT_EQ(one.find("model")->as_string(), "llama");
    EXPECT_EQ(one.find("type")->as_string(), "q8_0");
    EXPECT_EQ(one.find("test")->as_string(), tests[i % 4]);
    EXPECT_EQ(one.find("sequences")->as_int(), sequences[i % 4]);
    EXPECT_EQ(one.find("depth")->as_int(), i < 4 ? 0 : 33);
    EXPECT_EQ(one.find("threads")->as_int(), 1);
    EXPECT_EQ(one.find("devices")->as_string(), "cpu");
    EXPECT_EQ(one.find("n_ubatch")->as_int(), 16);
    EXPECT_GT(one.find("tps")->as_real(), 0);
    EXPECT_GE(one.find("tps_stddev")->as_real(), 0);
    EXPECT_GT(one.find("bandwidth_share")->as_real(), 0);
    EXPECT_GT(one.find("compute_share")->as_real(), 0);
    EXPECT_EQ(one.find("samples")->as_array().size(), 2u);
    EXPECT_NE(one.find("joules_per_token"), nullptr);
  }
}

TEST(Bench, MarkdownAndCsvOfAFile) {
  const std::vector<std::string> base{"bench", "-m",   source_path("models/demo-q8_0.gguf"),
                                      "-p",    "8",    "-n",
                                      "2",     "-r",   "1",
                                      "-t",    "1,2",  "-ctk",
                                      "q8_0",  "-dev", "cpu/threads=2"};
  const RunResult md = run_strata(base);
  ASSERT_EQ(md.status, 0) << md.err;
  const auto table = lines(md.out);
  ASSERT_EQ(table.size(), 6u) << md.out;
  for (const std::string& line : table) {
    EXPECT_EQ(std::count(line.begin(), line.end(), '|'), 12) << line;
  }
  EXPECT_NE(table[2].find("| demo-q8_0 | q8_0 |"), std::string::npos) << table[2];
  EXPECT_NE(table[5].find("| 2 | tg2 | 0 | 1 |"), std::string::npos) << table[5];

  auto words = base;
  words.insert(words.end(), {"-o", "csv"});
  const RunResult csv = run_strata(words);
  ASSERT_EQ(csv.status, 0) << csv.err;
  const auto rows = lines(csv.out);
  ASSERT_EQ(rows.size(), 5u);
  const auto commas = std::count(rows[0].begin(), rows[0].end(), ',');
  for (const std::string& row : rows) EXPECT_EQ(std::count(row.begin(), row.end(), ','), commas);
  EXPECT_EQ(rows[0].find("model,type,"), 0u) << rows[0];
  EXPECT_EQ(rows[1].find("\"demo-q8_0\",\"q8_0\","), 0u) << rows[1];
}

// Numbers of threads above what a device has are that one number; a file has its own shape.
TEST(Bench, WhatChangesNothingIsToldAndNotRepeated) {
  const RunResult run =
      run_strata({"bench", "-m", source_path("models/demo-q8_0.gguf"), "-dev", "cpu/threads=2",
                  "-t", "1,2,5", "-p", "8", "-n", "0", "-r", "1", "--type", "q4_0", "-o", "json"});
  ASSERT_EQ(run.status, 0) << run.err;
  const Json list = Json::parse(run.out);
  ASSERT_EQ(list.as_array().size(), 2u);
  EXPECT_EQ(list.as_array()[0].find("threads")->as_int(), 1);
  EXPECT_EQ(list.as_array()[1].find("threads")->as_int(), 2);
  EXPECT_EQ(list.as_array()[0].find("type")->as_string(), "q8_0");
  EXPECT_NE(run.err.find("--type changes nothing"), std::string::npos) << run.err;
}

TEST(BenchReport, ANameDoesNotEndACellOrTheRow) {
  app::BenchResult result;
  result.model = "a|b\nc";
  result.type = "q8_0";
  const std::string row = app::md_row(result);
  EXPECT_NE(row.find("a\\|b"), std::string::npos) << row;
  EXPECT_EQ(std::count(row.begin(), row.end(), '\n'), 1) << row;
  EXPECT_EQ(std::count(row.begin(), row.end(), '|'), 13) << row;
}

TEST(Bench, WrongUsage) {
  const auto error = [](const std::vector<std::string>& words, int status = 2) {
    const RunResult result = run_strata(words);
    EXPECT_EQ(result.status, status) << result.err;
    EXPECT_EQ(result.out, "");
    return result.err;
  };
  const auto has = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(error({"bench"}), "-m FILE or --shape");
  has(error(tiny_bench({"-m", source_path("models/demo-q8_0.gguf")})), "exclude");
  has(error(tiny_bench({"-p", "12,x"})), "'x'");
  has(error(tiny_bench({"-p", ""})), "-p");
  has(error(tiny_bench({"-n", "4,"})), "-n");
  has(error(tiny_bench({"-d", "-5"})), "-d");
  has(error(tiny_bench({"-npl", "0"})), "-npl");
  has(error(tiny_bench({"-t", "0"})), "-t");
  has(error(tiny_bench({"-p", "0", "-n", "0"})), "nothing");
  has(error(tiny_bench({"-ctk", "q9"})), "q9");
  has(error(tiny_bench({"-dev", "gpu7"})), "gpu7");
  has(error(tiny_bench({"-o", "xml"})), "json");
  has(error(tiny_bench({"-d", "16000000", "-npl", "4096"}), 2), "context");
}

TEST(BenchReport, MeansDeviationsAndShares) {
  app::BenchResult result;
  result.count = 10;
  result.sequences = 4;
  result.seconds = {1, 2};  // 40 and 20 tokens/s
  result.bytes = 300;
  result.operations = 600;
  result.peak_bytes_per_second = 450;
  result.peak_operations_per_second = 900;
  EXPECT_EQ(result.test(), "tg10");
  EXPECT_DOUBLE_EQ(result.tokens_per_second(), 30);
  EXPECT_DOUBLE_EQ(result.tokens_per_second_deviation(), std::sqrt(200.0));
  // At 30 tokens/s, 40 tokens take 4/3 s.
  EXPECT_DOUBLE_EQ(*result.bandwidth_share(), 0.5);
  EXPECT_DOUBLE_EQ(*result.compute_share(), 0.5);
  EXPECT_FALSE(result.joules_per_token().has_value());
  result.joules = 160;
  EXPECT_DOUBLE_EQ(*result.joules_per_token(), 2);
  result.peak_bytes_per_second = 0;
  EXPECT_FALSE(result.bandwidth_share().has_value());
  EXPECT_TRUE(app::to_json(result).find("bandwidth_share")->is_null());
}

}  // namespace
}  // namespace strata::test
