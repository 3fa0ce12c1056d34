// Sets of split files: any of them opens the verified whole.
#include <sys/stat.h>

#include <filesystem>
#include <functional>

#include "bytes.h"
#include "gguf/writer.h"
#include "watchdog.h"

namespace strata::gguf {
namespace {

namespace fs = std::filesystem;
using test::Folder;

struct ShardSpec {
  uint16_t no = 0;
  uint16_t count = 3;
  int32_t total = 4;
  std::vector<std::string> tensors;  // of 8 floats; filled with the bytes of the name's last letter
  bool model_keys = false;
  std::string model = "one";
  bool split_keys = true;
};

void write_shard(const std::string& path, const ShardSpec& spec) {
  Metadata metadata;
  if (spec.model_keys) metadata.set("general.name", spec.model);
  if (spec.split_keys) {
    metadata.set("split.no", spec.no);
    metadata.set("split.count", spec.count);
    metadata.set("split.tensors.count", spec.total);
  }
  std::vector<TensorSpec> tensors;
  for (const std::string& name : spec.tensors) tensors.push_back({name, {8}, 0});
  Writer writer(path, metadata, tensors);
  for (const std::string& name : spec.tensors) {
    writer.write(test::as_bytes(std::string(32, name.back())));
  }
  writer.close();
}

// The set of three files: metadata only, one tensor, three tensors.
std::vector<ShardSpec> good_set() {
  return {{0, 3, 4, {}, true, "one", true},
          {1, 3, 4, {"w.a"}, false, "one", true},
          {2, 3, 4, {"w.b", "w.c", "w.d"}, false, "one", true}};
}

std::string name_of(const Folder& folder, uint32_t index) {
  return split_name(folder / "model", index, 3);
}

void write_set(const Folder& folder, const std::vector<ShardSpec>& set) {
  for (uint32_t i = 0; i < set.size(); ++i) write_shard(name_of(folder, i), set[i]);
}

// Opening the shard fails, with all of these words in one line.
void expect_refused(const std::string& path, const std::vector<std::string>& parts,
                    ErrorCode code = ErrorCode::bad_file) {
  SCOPED_TRACE(path);
  try {
    File::open(path);
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(error.code(), code) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    for (const std::string& part : parts) {
      EXPECT_NE(message.find(part), std::string::npos) << message << " lacks " << part;
    }
  }
}

TEST(Split, NoShardIsWaitedFor) {
  const strata::test::Watchdog watchdog(std::chrono::seconds(60));
  const Folder folder;
  write_set(folder, good_set());
  fs::remove(name_of(folder, 1));
  ASSERT_EQ(::mkfifo(name_of(folder, 1).c_str(), 0600), 0);
  for (uint32_t named = 0; named < 3; ++named) {
    expect_refused(name_of(folder, named),
                   {"'" + name_of(folder, 1) + "'", "it is a pipe (FIFO), not a regular file"},
                   ErrorCode::io);
  }
  fs::remove(name_of(folder, 1));
  fs::create_symlink("/dev/zero", name_of(folder, 1));
  expect_refused(name_of(folder, 0), {"'" + name_of(folder, 1) + "'", "it is a character device"},
                 ErrorCode::io);
}

TEST(Split, Names) {
  EXPECT_EQ(split_name("dir/m", 0, 3), "dir/m-00001-of-00003.gguf");
  EXPECT_EQ(split_name("m", 99998, 99999), "m-99999-of-99999.gguf");
  const auto name = parse_split_name("dir/some-model-00002-of-00013.gguf");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->prefix, "dir/some-model");
  EXPECT_EQ(name->index, 1u);
  EXPECT_EQ(name->count, 13u);
  EXPECT_EQ(parse_split_name("-00001-of-00001.gguf")->prefix, "");
  for (const char* wrong :
       {"", ".gguf", "m.gguf", "m-00001-of-00003.bin", "m-00001-of-00003", "m-0001-of-00003.gguf",
        "m-00001-of-0003.gguf", "m-00000-of-00003.gguf", "m-00004-of-00003.gguf",
        "m_00001-of-00003.gguf", "m-00001_of_00003.gguf", "00001-of-00003.gguf",
        "m-0000a-of-00003.gguf", "m- 0001-of-00003.gguf", "m-+0001-of-00003.gguf"}) {
    EXPECT_FALSE(parse_split_name(wrong)) << wrong;
  }
}

TEST(Split, AnyShardOpensTheSet) {
  const Folder folder;
  write_set(folder, good_set());
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < 3; ++i) bytes += fs::file_size(name_of(folder, i));
  for (uint32_t i = 0; i < 3; ++i) {
    const File file = File::open(name_of(folder, i));
    EXPECT_EQ(file.metadata().get_string("general.name"), "one");
    ASSERT_EQ(file.shards().size(), 3u);
    EXPECT_EQ(file.shards()[2].path, name_of(folder, 2));
    EXPECT_EQ(file.total_bytes(), bytes);
    ASSERT_EQ(file.tensors().size(), 4u);
    EXPECT_EQ(file.tensors()[0].name, "w.a");
    EXPECT_EQ(file.tensors()[3].name, "w.d");
    for (const char letter : {'a', 'b', 'c', 'd'}) {
      const TensorInfo* tensor = file.find_tensor(std::string("w.") + letter);
      ASSERT_NE(tensor, nullptr);
      EXPECT_EQ(tensor->shard, letter == 'a' ? 1u : 2u);
      const auto data = file.data(*tensor);
      ASSERT_EQ(data.size(), 32u);
      for (const std::byte byte : data) EXPECT_EQ(static_cast<char>(byte), letter);
      file.will_need(*tensor);
      file.release(*tensor);
    }
  }
}

TEST(Split, MissingShardsAreNamed) {
  const Folder folder;
  write_set(folder, good_set());
  fs::remove(name_of(folder, 1));
  for (const uint32_t opened : {0u, 2u}) {
    expect_refused(name_of(folder, opened),
                   {"file 2, '" + name_of(folder, 1) + "', is missing", "one folder"},
                   ErrorCode::io);
  }
  write_shard(name_of(folder, 1), good_set()[1]);
  fs::remove(name_of(folder, 0));
  expect_refused(name_of(folder, 2), {"-00001-of-00003.gguf', is missing"}, ErrorCode::io);
}

TEST(Split, MissingShardsMayBeAllowed) {
  const Folder folder;
  write_set(folder, good_set());
  ParseOptions options;
  options.allow_missing_files = true;
  EXPECT_EQ(File::open(name_of(folder, 0), options).missing_files(), 0u);
  fs::remove(name_of(folder, 1));
  for (const uint32_t opened : {0u, 2u}) {
    const File file = File::open(name_of(folder, opened), options);
    EXPECT_EQ(file.missing_files(), 1u);
    EXPECT_EQ(file.missing_tensors(), 1u);
    ASSERT_EQ(file.shards().size(), 2u);
    EXPECT_EQ(file.metadata().get_string("general.name"), "one");
    ASSERT_EQ(file.tensors().size(), 3u);
    EXPECT_EQ(file.tensors()[0].shard, 1u);
    EXPECT_EQ(static_cast<char>(file.data(file.tensors()[2])[0]), 'd');
  }
  // Those that are there must still belong together, and the first be among them.
  write_shard(name_of(folder, 2), {2, 3, 4, {"w.b", "w.c", "w.d"}, false, "two", true});
  EXPECT_EQ(File::open(name_of(folder, 0), options).missing_tensors(), 1u);
  auto set = good_set();
  set[2].total = 2;
  set[0].total = 2;
  write_shard(name_of(folder, 0), set[0]);
  write_shard(name_of(folder, 2), set[2]);
  EXPECT_THROW(File::open(name_of(folder, 0), options), Error);
  fs::remove(name_of(folder, 0));
  EXPECT_THROW(File::open(name_of(folder, 2), options), Error);
}

TEST(Split, SwappedShards) {
  const Folder folder;
  write_set(folder, good_set());
  fs::rename(name_of(folder, 1), folder / "x");
  fs::rename(name_of(folder, 2), name_of(folder, 1));
  fs::rename(folder / "x", name_of(folder, 2));
  for (uint32_t i = 0; i < 3; ++i) {
    expect_refused(name_of(folder, i), {"named as file", "metadata say file", "renamed"});
  }
}

TEST(Split, RenamedShards) {
  const Folder folder;
  write_set(folder, good_set());
  fs::copy_file(name_of(folder, 1), folder / "model.gguf");
  expect_refused(folder / "model.gguf", {"file 2 of 3", "-00002-of-00003.gguf"});
  fs::copy_file(name_of(folder, 0), split_name(folder / "model", 0, 4));
  expect_refused(split_name(folder / "model", 0, 4),
                 {"named as file 1 of 4", "metadata say file 1 of 3"});
  // The same shard under two numbers.
  fs::remove(name_of(folder, 2));
  fs::copy_file(name_of(folder, 1), name_of(folder, 2));
  expect_refused(name_of(folder, 0), {"named as file 3 of 3", "say file 2 of 3"});
}

TEST(Split, MixedSets) {
  const auto refused = [](uint32_t changed, const std::function<void(ShardSpec&)>& change,
                          const std::vector<std::string>& parts) {
    const Folder folder;
    auto set = good_set();
    change(set[changed]);
    write_set(folder, set);
    for (uint32_t i = 0; i < 3; ++i) expect_refused(name_of(folder, i), parts);
  };
  refused(1, [](ShardSpec& s) { s.total = 5; }, {"a set with", "one with", "one download"});
  refused(2, [](ShardSpec& s) { s.tensors.pop_back(); }, {"hold 3 tensors", "say 4"});
  refused(2, [](ShardSpec& s) { s.tensors[1] = "w.a"; },
          {"tensor 'w.a' is both in", "-00002-of-", "-00003-of-"});
  refused(2,
          [](ShardSpec& s) {
            s.model_keys = true;
            s.model = "two";
          },
          {"not of one set", "general.name", "\"one\"", "\"two\""});
  // A shard may repeat the model's metadata.
  const Folder folder;
  auto set = good_set();
  set[1].model_keys = set[2].model_keys = true;
  write_set(folder, set);
  EXPECT_EQ(File::open(name_of(folder, 2)).tensors().size(), 4u);
}

TEST(Split, AShardThatIsNoShard) {
  const Folder folder;
  auto set = good_set();
  set[1].split_keys = false;
  write_set(folder, set);
  expect_refused(name_of(folder, 0), {"-00002-of-00003.gguf'", "no part of a set"});
  // By itself such a file is whole, whatever its name.
  EXPECT_EQ(File::open(name_of(folder, 1)).tensors().size(), 1u);
}

TEST(Split, DamagedKeys) {
  const Folder folder;
  const auto refused = [&](const Metadata& metadata, const std::vector<std::string>& parts) {
    const std::string path = folder / "m-00001-of-00002.gguf";
    Writer(path, metadata, {}).close();
    expect_refused(path, parts);
  };
  Metadata m;
  m.set("split.count", uint16_t{2});
  refused(m, {"'split.no' is missing"});
  m.set("split.no", uint16_t{0});
  refused(m, {"'split.tensors.count' is missing"});
  m.set("split.tensors.count", int32_t{-1});
  refused(m, {"'split.tensors.count' is -1"});
  m.set("split.tensors.count", int32_t{0});
  m.set("split.no", uint16_t{2});
  refused(m, {"'split.no' = 2", "'split.count' = 2"});
  m.set("split.no", std::string("first"));
  refused(m, {"'split.no' is \"first\""});
  m.set("split.no", uint16_t{0});
  m.set("split.count", UINT64_MAX);
  refused(m, {"do not make sense"});
  Metadata no_count;
  no_count.set("split.no", uint16_t{1});
  refused(no_count, {"'split.count' is missing"});
  Metadata one;
  one.set("split.no", uint16_t{0});
  one.set("split.count", uint16_t{1});
  Writer(folder / "one.gguf", one, {}).close();
  EXPECT_EQ(File::open(folder / "one.gguf").shards().size(), 1u);
}

}  // namespace
}  // namespace strata::gguf
