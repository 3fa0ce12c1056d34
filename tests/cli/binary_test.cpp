// The binary from outside: what it prints, what it says when something is wrong, how it ends.
#include <gtest/gtest.h>

#include <fstream>

#include "base/file.h"
#include "base/json.h"
#include "gguf/writer.h"
#include "run_binary.h"

namespace strata {
namespace {

using test::expect_error;
using test::read_back;
using test::run_program;
using test::run_strata;
using test::RunOptions;
using test::RunResult;
using test::shared_path;
using test::TemporaryFolder;

using Words = std::vector<std::string>;

std::string story_model() { return shared_path("models/stories260K-f32.gguf"); }

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A small file whose content is known: three tensors, 2 x 3 and 4 of F32, 32 x 2 of F16.
std::string write_small_file(const TemporaryFolder& folder, const std::string& name = "a.gguf") {
  gguf::Metadata metadata;
  metadata.set("general.architecture", gguf::Value(std::string("llama")));
  metadata.set("general.name", gguf::Value(std::string("smäll\nname")));
  metadata.set("some.count", gguf::Value(uint32_t{7}));
  metadata.set("some.big", gguf::Value(uint64_t{9007199254740993u}));
  metadata.set("some.flag", gguf::Value(true));
  metadata.set("some.list", gguf::Value(gguf::Array(std::vector<int32_t>{1, -2, 3})));
  const std::string path = folder.path(name);
  gguf::Writer writer(path, metadata,
                      {{"first.weight", {2, 3}, 0}, {"second", {4}, 0}, {"third", {32, 2}, 1}});
  for (size_t i = 0; i < 3; ++i) {
    writer.write(std::vector<std::byte>(writer.tensor_bytes(i)));
  }
  writer.close();
  return path;
}

// ---- Without a model

TEST(Binary, AloneItShowsTheFirstSteps) {
  const RunResult result = run_strata({});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.err, "");
  EXPECT_TRUE(contains(result.out, "strata run -m")) << result.out;
  EXPECT_TRUE(contains(result.out, "strata chat -m")) << result.out;
  EXPECT_LT(std::count(result.out.begin(), result.out.end(), '\n'), 12);
}

TEST(Binary, VersionAndHelp) {
  const RunResult version = run_strata({"--version"});
  EXPECT_EQ(version.status, 0);
  EXPECT_TRUE(version.out.starts_with("strata 0.")) << version.out;
  for (const Words& words : {Words{"help"}, Words{"--help"}, Words{"-h"}}) {
    const RunResult help = run_strata(words);
    EXPECT_EQ(help.status, 0);
    EXPECT_TRUE(contains(help.out, "Verbs:"));
  }
  EXPECT_EQ(run_strata({"version"}).out, version.out);
  expect_error(run_strata({"version", "please"}), 2, {"'please'", "strata version"});
  const RunResult of_run = run_strata({"help", "run"});
  EXPECT_EQ(of_run.status, 0);
  EXPECT_TRUE(contains(of_run.out, "--ctx-size N"));
  EXPECT_EQ(run_strata({"run", "--help"}).out, of_run.out);
  EXPECT_EQ(run_strata({"run", "--nonsense", "-h"}).out, of_run.out);
}

TEST(Binary, WrongUsageIsOneLineAndStatusTwo) {
  struct Case {
    Words words;
    Words parts;
  };
  const Case cases[] = {
      {{"rnu"}, {"unknown verb 'rnu'", "did you mean 'run'?"}},
      {{"qqqqqqq"}, {"unknown verb 'qqqqqqq'", "run, chat"}},
      {{"-m", "x.gguf"}, {"a verb comes first"}},
      {{"help", "rnu"}, {"did you mean 'run'?"}},
      {{"run", "-c", "0", "-m", "x"}, {"-c 0", "from 1 to", "auto"}},
      {{"run", "-m", "x", "--tempp", "1"}, {"--tempp", "did you mean --temp?"}},
      {{"run", "-m"}, {"-m needs a value"}},
      {{"run", "-p", "x"}, {"no model given", "-m FILE", "STRATA_MODEL"}},
      {{"inspect"}, {"no file given", "strata inspect FILE"}},
      {{"tokenize", "-p", "x"}, {"no model given"}},
      {{"template"}, {"no template given", "--template"}},
      {{"completion"}, {"bash, zsh or fish"}},
      {{"completion", "tcsh"}, {"'tcsh'", "bash, zsh and fish"}},
      {{"run", "-m", "x", "-p", "a", "-f", "b"}, {"exclude each other"}},
      {{"run", "--config", "/dev/null", "-m", "x", "-t", "zero"},
       {"-t zero", "not a whole number"}},
      {{"inspect", "a.gguf", "b.gguf"}, {"one word too many"}},
      {{"bench", "-m", "x", "--layers", "3"}, {"-m and a shape", "--layers", "exclude each other"}},
      {{"bench", "--shape", "llama-1b", "--experts-used", "5"}, {"--experts-used 5", "--experts"}},
  };
  for (const Case& c : cases) expect_error(run_strata(c.words), 2, c.parts);
}

TEST(Binary, FilesThatCannotBeRead) {
  const TemporaryFolder folder;
  const std::string text = folder.write("notes.gguf", "these are no weights\n");
  const std::string empty = folder.write("empty.gguf", "");
  const std::string missing = folder.path("missing.gguf");
  const std::string tokens = folder.write("tokens.txt", "1 2 3");
  for (const Words& verb :
       {Words{"inspect"}, Words{"tokenize", "-p", "x", "-m"}, Words{"run", "-p", "x", "-m"},
        Words{"template", "--input", "/dev/null", "-m"}, Words{"perplexity", "-p", "x", "-m"},
        Words{"logits", "--tokens-file", tokens, "-o", folder.path("out"), "-m"}}) {
    const auto with = [&](const std::string& path) {
      Words words = verb;
      words.push_back(path);
      return run_strata(words);
    };
    expect_error(with(text), 1, {"notes.gguf", "GGUF"});
    expect_error(with(empty), 1, {"empty.gguf"});
    expect_error(with(missing), 1, {"missing.gguf", "No such file", "check the path"});
    expect_error(with(folder.path()), 1, {folder.path(), "folder"});
  }
  EXPECT_FALSE(std::filesystem::exists(folder.path("out")));
}

TEST(Binary, TruncatedModels) {
  const TemporaryFolder folder;
  const std::string path = write_small_file(folder);
  const std::string bytes = read_back(path);
  const std::string cut = folder.write("cut.gguf", bytes.substr(0, bytes.size() - 64));
  expect_error(run_strata({"run", "-m", cut, "-p", "x"}), 1, {"cut.gguf", "third"});
  const std::string inside = folder.write("header.gguf", bytes.substr(0, 60));
  expect_error(run_strata({"run", "-m", inside, "-p", "x"}), 1, {"header.gguf", "byte"});
  expect_error(run_strata({"inspect", inside}), 1, {"header.gguf", "byte"});
  // inspect shows what a cut file still says.
  const RunResult result = run_strata({"inspect", cut});
  EXPECT_EQ(result.status, 0);
  EXPECT_TRUE(contains(result.out, "third"));
  EXPECT_EQ(result.err,
            "warning: the file is cut short: the data of 1 of its 3 tensors is missing\n");
}

TEST(Binary, EnvironmentAndConfigFile) {
  const TemporaryFolder folder;
  const std::string path = write_small_file(folder);
  RunOptions options;
  options.environment["STRATA_MODEL"] = path;
  EXPECT_TRUE(contains(run_strata({"inspect"}, options).out, "some.count"));
  options.environment["STRATA_OUTPUT"] = "json";
  EXPECT_TRUE(run_strata({"inspect"}, options).out.starts_with("{"));
  EXPECT_FALSE(run_strata({"inspect", "-o", "text"}, options).out.starts_with("{"));
  options.environment["STRATA_OUTPUT"] = "xml";
  expect_error(run_strata({"inspect"}, options), 2, {"STRATA_OUTPUT=xml", "text and json"});

  RunOptions config;
  config.environment["XDG_CONFIG_HOME"] = folder.path("config");
  folder.write("config/strata/config.ini", "model = " + path + "\n[inspect]\noutput = json\n");
  EXPECT_TRUE(run_strata({"inspect"}, config).out.starts_with("{"));
  config.environment["STRATA_OUTPUT"] = "text";
  EXPECT_FALSE(run_strata({"inspect"}, config).out.starts_with("{"));
  folder.write("config/strata/config.ini", "mdoel = x\n");
  expect_error(run_strata({"inspect"}, config), 2,
               {"config.ini:1", "unknown key 'mdoel'", "did you mean 'model'?"});
  expect_error(run_strata({"inspect", "--config", folder.path("none.ini")}), 1, {"none.ini"});
}

TEST(Binary, FullDiskAndClosedPipe) {
  RunOptions full;
  full.output_path = "/dev/full";
  const RunResult result = run_strata({"help", "run"}, full);
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.err,
            "error: cannot write standard output: No space left on device; free some space or "
            "write elsewhere\n");
  const std::string command =
      std::string(STRATA_BINARY) + " completion bash | head -n 1; echo ${PIPESTATUS[0]} >&2";
  const RunResult piped = run_program({"/bin/bash", "--norc", "-c", command});
  // Whether it ended before or after head left, it said nothing.
  EXPECT_TRUE(piped.err == "0\n" || piped.err == "141\n") << piped.err;
}

TEST(Binary, ClosedStreams) {
  const TemporaryFolder folder;
  const std::string model = write_small_file(folder);
  const auto shell = [&](const std::string& command) {
    return run_program({"/bin/bash", "--norc", "-c", std::string(STRATA_BINARY) + " " + command});
  };
  const RunResult out = shell("inspect " + model + " >&-");
  EXPECT_EQ(out.status, 1);
  EXPECT_TRUE(contains(out.err, "cannot write standard output")) << out.err;
  EXPECT_EQ(shell("inspect " + model + " 2>&-").status, 0);
  const std::string jinja = folder.write("good.jinja", "x");
  const std::string demo = test::source_path("models/demo-q8_0.gguf");
  for (const std::string& verb :
       {"template --template " + jinja, "run -m " + demo, "run -f - -m " + demo,
        "tokenize -m " + demo, "perplexity -m " + demo,
        "logits --tokens-file - -o " + folder.path("l") + " -m " + demo}) {
    expect_error(shell(verb + " <&-"), 1, {"cannot read standard input: it is closed", "-f"});
  }
  expect_error(shell("run -m " + demo + " <" + folder.path()), 1,
               {"cannot read standard input: Is a directory"});
}

// ---- inspect

TEST(Inspect, ShowsWhatWasWritten) {
  const TemporaryFolder folder;
  const RunResult result = run_strata({"inspect", write_small_file(folder)});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.err, "");
  for (const char* part :
       {"GGUF version 3", "family llama", "74 parameters", "Metadata (6)", "general.architecture",
        "\"llama\"", "some.count", "u32", "Tensors (3)", "first.weight", "2 x 3", "24 B", "32 x 2",
        "128 B", "f16", "Totals by type"}) {
    EXPECT_TRUE(contains(result.out, part)) << part << " is not in:\n" << result.out;
  }
  // 10 weights of 32 bits and 64 of 16 are 18.16 bits per weight.
  EXPECT_TRUE(contains(result.out, "18.16")) << result.out;
  EXPECT_FALSE(contains(result.out, "smäll\nname"));  // one line per key
}

TEST(Inspect, JsonIsExact) {
  const TemporaryFolder folder;
  const std::string path = write_small_file(folder);
  const Json json = Json::parse(run_strata({"inspect", path, "-o", "json"}).out);
  EXPECT_EQ(json.find("version")->as_int(), 3);
  EXPECT_EQ(json.find("bytes")->as_int(), static_cast<int64_t>(std::filesystem::file_size(path)));
  EXPECT_EQ(json.find("parameters")->as_int(), 74);
  EXPECT_EQ(json.find("tensor_bytes")->as_int(), 24 + 16 + 128);
  const Json& metadata = *json.find("metadata");
  EXPECT_EQ(metadata.find("general.name")->as_string(), "smäll\nname");
  EXPECT_EQ(metadata.find("some.big")->as_int(), 9007199254740993);
  EXPECT_TRUE(metadata.find("some.flag")->as_bool());
  EXPECT_EQ(metadata.find("some.list")->dump(), "[1,-2,3]");
  const Json& tensors = *json.find("tensors");
  ASSERT_EQ(tensors.as_array().size(), 3u);
  const Json& third = tensors.as_array()[2];
  EXPECT_EQ(third.find("name")->as_string(), "third");
  EXPECT_EQ(third.find("type")->as_string(), "f16");
  EXPECT_EQ(third.find("shape")->dump(), "[32,2]");
  EXPECT_EQ(third.find("bytes")->as_int(), 128);
  EXPECT_EQ(json.find("types")->find("f32")->find("bytes")->as_int(), 40);
  EXPECT_EQ(json.find("types")->find("f16")->find("tensors")->as_int(), 1);
}

TEST(Inspect, HeaderOnlyFiles) {
  const TemporaryFolder folder;
  const std::string path = write_small_file(folder);
  const Json json = Json::parse(run_strata({"inspect", path, "-o", "json"}).out);
  const auto header =
      static_cast<size_t>(json.find("files")->as_array()[0].find("data_offset")->as_int());
  const std::string only = folder.write("header.gguf", read_back(path).substr(0, header));
  const RunResult result = run_strata({"inspect", only});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_TRUE(contains(result.out, "header only")) << result.out;
  EXPECT_TRUE(contains(result.out, "first.weight"));
}

TEST(Inspect, SplitFiles) {
  const TemporaryFolder folder;
  for (uint32_t i = 0; i < 2; ++i) {
    gguf::Metadata metadata;
    if (i == 0) metadata.set("general.architecture", gguf::Value(std::string("llama")));
    metadata.set("split.no", gguf::Value(static_cast<uint16_t>(i)));
    metadata.set("split.count", gguf::Value(uint16_t{2}));
    metadata.set("split.tensors.count", gguf::Value(int32_t{2}));
    gguf::Writer writer(folder.path(gguf::split_name("m", i, 2)), metadata,
                        {{"t" + std::to_string(i), {8}, 0}});
    writer.write(std::vector<std::byte>(32));
    writer.close();
  }
  for (uint32_t i = 0; i < 2; ++i) {
    const RunResult result = run_strata({"inspect", folder.path(gguf::split_name("m", i, 2))});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_TRUE(contains(result.out, "in 2 files")) << result.out;
    EXPECT_TRUE(contains(result.out, "Tensors (2)"));
    EXPECT_TRUE(contains(result.out, "16 parameters"));
  }
}

// ---- tokenize

TEST(Tokenize, AgreesWithThePublishedVectors) {
  STRATA_NEED_SHARED();
  // .inp: texts, each followed by a line "__ggml_vocab_test__"; .out: their ids, a line each.
  const std::string separator = "\n__ggml_vocab_test__\n";
  std::string texts = read_back(shared_path("tokenizers/deepseek-coder.inp"));
  std::istringstream ids(read_back(shared_path("tokenizers/deepseek-coder.out")));
  const TemporaryFolder folder;
  int cases = 0;
  for (std::string line; std::getline(ids, line) && !texts.empty(); ++cases) {
    const size_t end = texts.find(separator);
    ASSERT_NE(end, std::string::npos);
    const std::string text = texts.substr(0, end);
    texts.erase(0, end + separator.size());
    RunOptions options;
    options.input = text;
    const RunResult result =
        cases % 2 == 0
            ? run_strata({"tokenize", "-m", shared_path("tokenizers/deepseek-coder.gguf"), "--ids",
                          "--no-bos"},
                         options)
            : run_strata({"tokenize", "-m", shared_path("tokenizers/deepseek-coder.gguf"), "--ids",
                          "--no-bos", "-f", folder.write("text", text)});
    EXPECT_EQ(result.status, 0) << result.err;
    std::string expected = line;
    expected.erase(0, expected.find_first_not_of(' '));
    EXPECT_EQ(result.out, expected + "\n") << text;
  }
  EXPECT_GT(cases, 40);
}

TEST(Tokenize, PiecesAndSwitches) {
  STRATA_NEED_SHARED();
  const std::string model = story_model();
  // <s> is token 1 of this vocabulary, written at the start as the model wants it.
  const RunResult pieces = run_strata({"tokenize", "-m", model, "-p", "Once upon"});
  EXPECT_TRUE(pieces.out.starts_with("  1 '<s>'\n")) << pieces.out;
  EXPECT_TRUE(contains(pieces.out, "' upon'\n"));
  const auto ids = [&](const Words& more) {
    Words words{"tokenize", "-m", model, "--ids"};
    words.insert(words.end(), more.begin(), more.end());
    return run_strata(words).out;
  };
  const std::string plain = ids({"-p", "Once upon"});
  EXPECT_TRUE(plain.starts_with("1 "));
  EXPECT_EQ("1 " + ids({"-p", "Once upon", "--no-bos"}), plain);
  EXPECT_EQ(ids({"-p", "<s>", "--no-bos"}), "1\n");
  EXPECT_NE(ids({"-p", "<s>", "--no-bos", "--no-special"}), "1\n");
  EXPECT_EQ(ids({"-p", "", "--no-bos"}), "\n");
  EXPECT_EQ(ids({"-p", ""}), "1\n");
  // Escapes of -p.
  RunOptions input;
  input.input = "a\nb";
  EXPECT_EQ(ids({"-p", "a\\nb"}), run_strata({"tokenize", "-m", model, "--ids"}, input).out);
}

TEST(Tokenize, PathsAndVocabulariesThatDoNotWork) {
  const TemporaryFolder folder;
  const std::string path = write_small_file(folder);
  expect_error(run_strata({"tokenize", "-m", path, "-p", "x"}), 1, {"tokenizer.ggml.model"});
  STRATA_NEED_SHARED();
  expect_error(run_strata({"tokenize", "-m", story_model(), "-f", folder.path("none.txt")}), 1,
               {"none.txt", "No such file"});
}

TEST(Tokenize, WordPiecesAreShownAsStored) {
  STRATA_NEED_SHARED();
  // BERT's own vocabulary has embedding as em + bed + ding; a word's beginning bears the mark.
  EXPECT_EQ(run_strata({"tokenize", "-m", shared_path("tokenizers/bert-bge.gguf"), "-p",
                        "Hello embedding"})
                .out,
            "  101 '[CLS]'\n 7592 '\u2581hello'\n 7861 '\u2581em'\n 8270 'bed'\n"
            " 4667 'ding'\n  102 '[SEP]'\n");
}

// ---- template

TEST(Template, RendersPublishedTemplates) {
  STRATA_NEED_SHARED();
  const TemporaryFolder folder;
  const std::string name = "templates/Qwen-Qwen2.5-7B-Instruct";
  const Json cases = Json::parse(read_back(shared_path(name + ".json")));
  int count = 0;
  for (const auto& [key, entry] : cases.as_object()) {
    const Json* input = entry.find("input");
    const Json* output = entry.find("output");
    if (input == nullptr || output == nullptr || !output->is_string()) continue;
    const Words words{"template", "--template", shared_path(name + ".jinja")};
    Words with_file = words;
    with_file.insert(with_file.end(), {"--input", folder.write("in.json", input->dump())});
    EXPECT_EQ(run_strata(with_file).out, output->as_string()) << key;
    RunOptions options;
    options.input = input->dump();
    EXPECT_EQ(run_strata(words, options).out, output->as_string()) << key;
    ++count;
  }
  EXPECT_GE(count, 3);
}

TEST(Template, Errors) {
  const TemporaryFolder folder;
  const std::string good = folder.write("good.jinja", "{{ messages[0].content }}|{{ bos_token }}");
  const std::string bad = folder.write("bad.jinja", "line\n{% if %}");
  const std::string raises = folder.write("raises.jinja", "{{ raise_exception('no roles') }}");
  const std::string input = folder.write("in.json", R"({"messages": [{"content": "hi"}]})");
  const RunResult result = run_strata({"template", "--template", good, "--input", input});
  EXPECT_EQ(result.out, "hi|") << result.err;
  expect_error(run_strata({"template", "--template", bad, "--input", input}), 1,
               {"bad.jinja", "2"});
  expect_error(run_strata({"template", "--template", raises, "--input", input}), 1, {"no roles"});
  const std::string list = folder.write("list.json", "[1]");
  expect_error(run_strata({"template", "--template", good, "--input", list}), 1,
               {"list.json", "array", "object"});
  expect_error(run_strata({"template", "--template", good}), 1,
               {"standard input was empty", "\"messages\"", "--input FILE"});
  RunOptions blank;
  blank.input = " \n\n";
  expect_error(run_strata({"template", "--template", good}, blank), 1,
               {"standard input was empty"});
  expect_error(run_strata({"template", "--template", good, "--input", folder.write("no.json", "")}),
               1, {"no.json was empty", "\"messages\""});
  const std::string broken = folder.write("broken.json", "{\"messages\": [");
  expect_error(run_strata({"template", "--template", good, "--input", broken}), 1,
               {"broken.json", "byte"});
  expect_error(run_strata({"template", "--template", folder.path("none"), "--input", input}), 1,
               {"No such file"});
  expect_error(run_strata({"template", "-m", write_small_file(folder), "--input", input}), 1,
               {"a.gguf", "no chat template"});
}

// ---- Verbs that compute: how they end

TEST(Compute, ErrorLines) {
  STRATA_NEED_SHARED();
  const TemporaryFolder folder;
  const std::string model = story_model();
  expect_error(run_strata({"run", "-m", model, "-p", "x", "-ctk", "q9"}), 2, {"-ctk", "q9"});
  expect_error(run_strata({"run", "-m", model, "-p", "x", "-ctv", "q9"}), 2, {"-ctv", "q9"});
  expect_error(run_strata({"run", "-m", model, "-p", "x", "-dev", "gpu9"}), 2, {"gpu9"});
  const std::string longer(4000, 'a');
  expect_error(run_strata({"run", "-m", model, "-p", longer, "-c", "16"}), 3,
               {"4001 tokens", "-c"});
  const std::string tokens = folder.write("tokens.txt", "1 403 407");
  expect_error(run_strata({"logits", "-m", model, "--tokens-file", tokens, "-o", "/dev/full"}), 1,
               {"/dev/full", "No space left"});
  expect_error(
      run_strata({"logits", "-m", model, "--tokens-file", tokens, "-o", folder.path("no/x")}), 1,
      {"no/x", "No such file"});
  expect_error(run_strata({"logits", "-m", model, "--tokens-file", folder.write("bad", "1 x"), "-o",
                           folder.path("y")}),
               1, {"bad"});
  // Before the prompt is shown.
  expect_error(run_strata({"run", "-m", model, "-p", "x", "-l", "999999+1"}), 2,
               {"-l", "999999", "0 to 511"});
  expect_error(run_strata({"run", "-m", model, "-p", "x", "-l", "512+1"}), 2, {"-l", "512"});
  expect_error(run_strata({"run", "-m", model, "-p", "x", "-ub", "65537"}), 2,
               {"-ub 65537", "from 1 to 65536"});
  EXPECT_EQ(run_strata({"run", "-m", model, "-p", "x", "-n", "1", "-ub", "65536"}).status, 0);
}

TEST(Compute, SwitchesFromTheEnvironmentCanBeTurnedOff) {
  STRATA_NEED_SHARED();
  const Words words{"run", "-m", story_model(), "-p", "Once", "-n", "4", "--temp", "0"};
  RunOptions options;
  const std::string shown = run_strata(words).out;
  options.environment["STRATA_DISPLAY_PROMPT"] = "0";
  const std::string hidden = run_strata(words, options).out;
  EXPECT_EQ("Once" + hidden, shown);
  Words again = words;
  again.push_back("--display-prompt=yes");
  EXPECT_EQ(run_strata(again, options).out, shown);
  options.environment["STRATA_IGNORE_EOS"] = "sometimes";
  expect_error(run_strata(words, options), 2,
               {"STRATA_IGNORE_EOS=sometimes", "neither yes nor no"});
}

TEST(Compute, AutomaticContextDoesNotFollowAnyClaim) {
  // The demo model, claiming a context of two billion tokens.
  const TemporaryFolder folder;
  std::string bytes = read_back(test::source_path("models/demo-q8_0.gguf"));
  const std::string key = "llama.context_length";
  const size_t value = bytes.find(key) + key.size() + 4;  // after the value's type
  ASSERT_LT(value, bytes.size());
  bytes.replace(value, 4, "\xff\xff\xff\x7f");
  const std::string path = folder.write("claim.gguf", bytes);
  const RunResult result = run_strata({"run", "-m", path, "-p", "x", "-n", "1", "-v"});
  EXPECT_EQ(result.status, 0) << result.err;
  const std::string name = ", context ";
  const size_t at = result.err.find(name);
  ASSERT_NE(at, std::string::npos) << result.err;
  const long context = std::stol(result.err.substr(at + name.size()));
  EXPECT_GT(context, 512);
  EXPECT_LE(context, 1048576);
}

TEST(Compute, SameSeedSameText) {
  STRATA_NEED_SHARED();
  const auto text = [&](const std::string& seed) {
    return run_strata({"run", "-m", story_model(), "-p", "Once", "-n", "40", "-s", seed}).out;
  };
  const std::string first = text("7");
  EXPECT_GT(first.size(), 40u);
  EXPECT_EQ(text("7"), first);
  EXPECT_NE(text("8"), first);
}

TEST(Compute, StopStringsAndBans) {
  STRATA_NEED_SHARED();
  const Words base{"run", "-m", story_model(), "-p", "Once upon a time",
                   "-n",  "60", "--temp",      "0",  "--no-display-prompt"};
  const std::string whole = run_strata(base).out;
  const size_t at = whole.find("girl");
  ASSERT_NE(at, std::string::npos) << whole;
  Words stopped = base;
  stopped.insert(stopped.end(), {"-r", "girl"});
  EXPECT_EQ(run_strata(stopped).out, whole.substr(0, at) + "\n");
}

}  // namespace
}  // namespace strata
