// The writer against bytes made by hand, and files opened from disk.
#include <filesystem>
#include <functional>

#include "bytes.h"
#include "gguf/writer.h"

namespace strata::gguf {
namespace {

namespace fs = std::filesystem;
using test::as_bytes;
using test::Bytes;
using test::Folder;

Metadata some_metadata() {
  Metadata m;
  m.set("general.alignment", uint32_t{64});
  m.set("s", std::string("text"));
  m.set("b", true);
  m.set("f", 0.5);
  m.set("as", Array(std::vector<std::string>{"x", ""}));
  m.set("ab", Array(BoolArray{{0, 1}}));
  m.set("ai", Array(std::vector<int16_t>{-1, 2}));
  return m;
}

// The same by hand.
Bytes some_bytes(uint32_t version) {
  Bytes b(2, 7, version);
  b.key("general.alignment", 4).num<uint32_t>(64);
  b.key("s", 8).text("text");
  b.key("b", 7).num<uint8_t>(1);
  b.key("f", 12).num(0.5);
  b.array("as", 8, 2).text("x").text("");
  b.array("ab", 7, 2).num<uint8_t>(0).num<uint8_t>(1);
  b.array("ai", 3, 2).num<int16_t>(-1).num<int16_t>(2);
  b.tensor("first", {32, 2}, 2, 0);
  b.tensor("second", {3}, 0, 64);
  return b.pad(64);
}

const std::vector<TensorSpec> k_specs = {{"first", {32, 2}, 2}, {"second", {3}, 0}};

TEST(Writer, HeaderIsWhatAHandWouldWrite) {
  for (const uint32_t version : {2u, 3u}) {
    EXPECT_EQ(encode_header(some_metadata(), k_specs, version), some_bytes(version).out);
  }
  EXPECT_EQ(encode_header(Metadata(), {}), Bytes(0, 0).out);
}

TEST(Writer, FileIsWhatAHandWouldWrite) {
  const Folder folder;
  for (const uint32_t version : {2u, 3u}) {
    const std::string path = folder / "out.gguf";
    Writer writer(path, some_metadata(), k_specs, version);
    EXPECT_EQ(writer.tensor_bytes(0), 36u);
    EXPECT_EQ(writer.tensor_bytes(1), 12u);
    // In pieces, the second tensor byte by byte.
    writer.write(as_bytes(std::string(30, 'a')));
    writer.write({});
    writer.write(as_bytes(std::string(6, 'b')));
    for (int i = 0; i < 12; ++i) writer.write(as_bytes("c"));
    EXPECT_FALSE(fs::exists(path) && version == 2);  // only close() puts it in place
    writer.close();
    Bytes expected = some_bytes(version);
    expected.data(30, 'a').data(6, 'b').pad(64).data(12, 'c').pad(64);
    EXPECT_EQ(read_file(path), expected.out);
    const File file = File::open(path);
    EXPECT_EQ(file.shards()[0].header.version, version);
    EXPECT_EQ(file.shards()[0].header.alignment, 64u);
    EXPECT_EQ(file.data(*file.find_tensor("second")).size(), 12u);
  }
}

void expect_bad_request(const std::function<void()>& act, const std::string& part) {
  try {
    act();
    ADD_FAILURE() << "accepted, but should say: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_request) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(Writer, WhatIsNotValidIsRefused) {
  const auto header = [](std::vector<TensorSpec> specs, Metadata metadata = {}) {
    return [specs = std::move(specs), metadata = std::move(metadata)] {
      encode_header(metadata, specs);
    };
  };
  const auto with = [](const char* key, Value value) {
    Metadata m;
    m.set(key, std::move(value));
    return m;
  };
  expect_bad_request(header({{"", {1}, 0}}), "empty name");
  expect_bad_request(header({{std::string(65, 'n'), {1}, 0}}), "65 bytes");
  expect_bad_request(header({{"a", {1}, 0}, {"a", {1}, 0}}), "given twice");
  expect_bad_request(header({{"a", {1, 1, 1, 1, 1}, 0}}), "5 dimensions");
  expect_bad_request(header({{"a", {0}, 0}}), "is 0");
  expect_bad_request(header({{"a", {33}, 2}}), "multiple of the 32");
  expect_bad_request(header({{"a", {32}, 4}}), "retired");
  expect_bad_request(header({{"a", {32}, 99}}), "not known");
  expect_bad_request(header({{"a", {uint64_t{1} << 62, 4}, 0}}), "2^63");
  expect_bad_request(header({{"a", {uint64_t{1} << 62}, 24},
                             {"b", {uint64_t{1} << 62}, 24},
                             {"c", {uint64_t{1} << 62}, 24},
                             {"d", {uint64_t{1} << 62}, 24}}),
                     "2^64");
  expect_bad_request(header({}, with("", true)), "key is empty");
  expect_bad_request(header({}, with("general.alignment", uint32_t{24})), "power of two");
  expect_bad_request(header({}, with("general.alignment", uint32_t{0})), "power of two");
  expect_bad_request(header({}, with("general.alignment", std::string("32"))), "not an integer");
  expect_bad_request([] { encode_header({}, {}, 1); }, "version 1");
  expect_bad_request([] { encode_header({}, {}, 4); }, "version 4");
}

TEST(Writer, TensorsMustBeFilledExactly) {
  const Folder folder;
  const std::string path = folder.put("out.gguf", "before");
  expect_bad_request(
      [&] {
        Writer writer(path, {}, k_specs);
        writer.write(as_bytes(std::string(35, 'x')));
        writer.close();
      },
      "'first' is not complete: 35 of 36");
  expect_bad_request(
      [&] {
        Writer writer(path, {}, k_specs);
        writer.write(as_bytes(std::string(37, 'x')));
      },
      "'first' takes 36 bytes; 1 are written beyond");
  expect_bad_request(
      [&] {
        Writer writer(path, {}, {});
        writer.write(as_bytes("x"));
      },
      "after the last tensor");
  // A failed run leaves what was there, and nothing beside it.
  EXPECT_EQ(read_file(path), "before");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder / ""), {}), 1);
}

TEST(Writer, AFullDiskIsNoticed) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "skipped: no /dev/full";
  try {
    Writer writer("/dev/full", some_metadata(), k_specs);
    writer.write(as_bytes(std::string(36, 'x')));
    writer.write(as_bytes(std::string(12, 'x')));
    writer.close();
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::io);
  }
}

void expect_open_fails(const std::string& path, ErrorCode code, const std::string& part) {
  try {
    File::open(path);
    ADD_FAILURE() << "accepted, but should say: " << part;
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(error.code(), code) << message;
    EXPECT_NE(message.find(path), std::string::npos) << message;
    EXPECT_NE(message.find(part), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

TEST(File, PathsThatAreNoModels) {
  const Folder folder;
  expect_open_fails(folder / "none.gguf", ErrorCode::io, "check the path");
  expect_open_fails(folder / "", ErrorCode::io, "is a folder; give the path of a .gguf file");
  expect_open_fails(folder.put("empty.gguf", ""), ErrorCode::bad_file, "empty");
  expect_open_fails(folder.put("text.gguf", "Hello\nworld"), ErrorCode::bad_file,
                    "not a GGUF file");
  Bytes whole = some_bytes(3);
  whole.data(64 + 12);
  EXPECT_EQ(File::open(folder.put("whole.gguf", whole.out)).tensors().size(), 2u);
  expect_open_fails(folder.put("cut.gguf", whole.out.substr(0, whole.out.size() - 1)),
                    ErrorCode::bad_file, "cut short; download or copy it again");
  expect_open_fails("/dev/null", ErrorCode::io, "regular file");
}

TEST(File, HeaderOnlyCopies) {
  const Folder folder;
  Bytes whole = some_bytes(3);
  const size_t header = whole.out.size();
  whole.data(64 + 12);
  for (const size_t size : {header, header + 36, header + 75}) {
    const std::string path = folder.put("head.gguf", whole.out.substr(0, size));
    EXPECT_THROW(File::open(path), Error);
    const File file = File::open(path, {true});
    ASSERT_EQ(file.tensors().size(), 2u);
    EXPECT_EQ(file.data(file.tensors()[0]).size(), size >= header + 36 ? 36u : 0u);
    EXPECT_TRUE(file.data(file.tensors()[1]).empty());
    file.will_need(file.tensors()[1]);
    file.release(file.tensors()[1]);
  }
}

// A File can be moved; its views stay.
TEST(File, Moves) {
  const Folder folder;
  Bytes whole = some_bytes(3);
  whole.data(64 + 12, 'z');
  File file = File::open(folder.put("m.gguf", whole.out));
  const auto before = file.data(file.tensors()[1]);
  const File moved = std::move(file);
  ASSERT_NE(moved.find_tensor("second"), nullptr);
  EXPECT_EQ(moved.data(*moved.find_tensor("second")).data(), before.data());
  EXPECT_EQ(before[11], std::byte{'z'});
}

}  // namespace
}  // namespace strata::gguf
